"""Hashes: fields and their values."""

from __future__ import annotations

from goblin_raft import errors
from goblin_raft.arguments import (
    Argument,
    flag,
    integer,
    key,
    optional,
    options,
    repeated,
    string,
)
from goblin_raft.commands.scans import sample
from goblin_raft.keyspace import Instant, Keyspace
from goblin_raft.long_double import add, format_long_double, parse_long_double
from goblin_raft.readers import (
    INT64_MAX,
    INT64_MIN,
    parse_integer,
    read_finite_long_double,
    read_sample_count,
)
from goblin_raft.reply import OK, Failure, Map, Pairs, Reply
from goblin_raft.spec import Family
from goblin_raft.values import Hash

family = Family("hash")

WRONG_TYPE = errors.WRONG_TYPE.failure()
NOT_AN_INTEGER = errors.HASH_NOT_AN_INTEGER.failure()
NOT_A_FLOAT = errors.HASH_NOT_A_FLOAT.failure()
NOT_FINITE = errors.NOT_FINITE.failure()
OVERFLOW = errors.OVERFLOW.failure()

# A key that does not exist is a hash without fields. Nobody writes into this one.
NO_FIELDS = Hash()


def fields_of(keyspace: Keyspace, at: Instant, key: bytes) -> Hash | Failure:
    """The hash that a key holds, to be read."""
    value = keyspace.get(key, at.now_ms)
    if value is None:
        return NO_FIELDS
    return value if isinstance(value, Hash) else WRONG_TYPE


@family.write("HSET", key(), repeated(string("field"), string("value")))
def hset(keyspace: Keyspace, at: Instant, key: bytes, pairs: list[bytes]) -> Reply:
    """Set fields of a hash; replies how many of them are new."""
    held = fields_of(keyspace, at, key)
    if isinstance(held, Failure):
        return held
    new = held is NO_FIELDS
    fields = Hash() if new else held
    added = sum(
        fields.set(field, value) for field, value in zip(pairs[::2], pairs[1::2], strict=True)
    )
    keyspace.store(key, fields, new=new)
    return added


@family.write("HMSET", key(), repeated(string("field"), string("value")))
def hmset(keyspace: Keyspace, at: Instant, key: bytes, pairs: list[bytes]) -> Reply:
    """Set fields of a hash: Redis's old name for HSET, with another reply."""
    added = hset(keyspace, at, key, pairs)
    return added if isinstance(added, Failure) else OK


@family.write("HSETNX", key(), string("field"), string("value"))
def hsetnx(keyspace: Keyspace, at: Instant, key: bytes, field: bytes, value: bytes) -> Reply:
    """Set a field of a hash if it does not exist; replies 1 when it was set, else 0."""
    held = fields_of(keyspace, at, key)
    if isinstance(held, Failure):
        return held
    return 0 if field in held else hset(keyspace, at, key, [field, value])


@family.read("HGET", key(), string("field"))
def hget(keyspace: Keyspace, at: Instant, key: bytes, field: bytes) -> Reply:
    """Read one field of a hash."""
    fields = fields_of(keyspace, at, key)
    return fields if isinstance(fields, Failure) else fields.get(field)


@family.read("HMGET", key(), repeated(string("field")))
def hmget(keyspace: Keyspace, at: Instant, key: bytes, names: list[bytes]) -> Reply:
    """Read several fields of a hash; nil for each that does not exist."""
    fields = fields_of(keyspace, at, key)
    return fields if isinstance(fields, Failure) else [fields.get(name) for name in names]


@family.write("HDEL", key(), repeated(string("field")))
def hdel(keyspace: Keyspace, at: Instant, key: bytes, names: list[bytes]) -> Reply:
    """Delete fields of a hash, and its key with the last one; replies how many there were."""
    fields = fields_of(keyspace, at, key)
    if isinstance(fields, Failure):
        return fields
    deleted = sum([fields.remove(name) for name in names])
    if deleted:
        keyspace.store(key, fields, new=False)
    return deleted


@family.read("HGETALL", key())
def hgetall(keyspace: Keyspace, at: Instant, key: bytes) -> Reply:
    """Read all fields of a hash and their values, the oldest first."""
    fields = fields_of(keyspace, at, key)
    return fields if isinstance(fields, Failure) else Map(dict(fields))


@family.read("HKEYS", key())
def hkeys(keyspace: Keyspace, at: Instant, key: bytes) -> Reply:
    """Read the names of all fields of a hash, the oldest first."""
    fields = fields_of(keyspace, at, key)
    return fields if isinstance(fields, Failure) else list(fields)


@family.read("HVALS", key())
def hvals(keyspace: Keyspace, at: Instant, key: bytes) -> Reply:
    """Read the values of all fields of a hash, in the order of HKEYS."""
    fields = fields_of(keyspace, at, key)
    return fields if isinstance(fields, Failure) else list(fields.values())


@family.read("HLEN", key())
def hlen(keyspace: Keyspace, at: Instant, key: bytes) -> Reply:
    """Count the fields of a hash."""
    fields = fields_of(keyspace, at, key)
    return fields if isinstance(fields, Failure) else len(fields)


@family.read("HEXISTS", key(), string("field"))
def hexists(keyspace: Keyspace, at: Instant, key: bytes, field: bytes) -> Reply:
    """Tell whether a hash has a field: 1 or 0."""
    fields = fields_of(keyspace, at, key)
    return fields if isinstance(fields, Failure) else int(field in fields)


@family.read("HSTRLEN", key(), string("field"))
def hstrlen(keyspace: Keyspace, at: Instant, key: bytes, field: bytes) -> Reply:
    """Tell how many bytes the value of a field has; 0 when it does not exist."""
    fields = fields_of(keyspace, at, key)
    return fields if isinstance(fields, Failure) else len(fields.get(field, b""))


@family.write("HINCRBY", key(), string("field"), integer("increment"))
def hincrby(keyspace: Keyspace, at: Instant, key: bytes, field: bytes, increment: int) -> Reply:
    """Add to a field that is an integer, and read it; an absent one counts from zero."""
    fields = fields_of(keyspace, at, key)
    if isinstance(fields, Failure):
        return fields
    number = parse_integer(fields.get(field, b"0"))
    if number is None:
        return NOT_AN_INTEGER
    number += increment
    if not INT64_MIN <= number <= INT64_MAX:
        return OVERFLOW
    hset(keyspace, at, key, [field, b"%d" % number])
    return number


@family.write(
    "HINCRBYFLOAT", key(), string("field"), Argument("increment", "double", read_finite_long_double)
)
def hincrbyfloat(
    keyspace: Keyspace, at: Instant, key: bytes, field: bytes, increment: bytes
) -> Reply:
    """Add to a field that is a number, and read it; an absent one counts from zero."""
    fields = fields_of(keyspace, at, key)
    if isinstance(fields, Failure):
        return fields
    number, added = parse_long_double(fields.get(field, b"0")), parse_long_double(increment)
    if number is None or added is None:
        return NOT_A_FLOAT
    total = add(number, added)
    if total is None:
        return NOT_FINITE
    text = format_long_double(total)
    hset(keyspace, at, key, [field, text])
    return text


@family.read(
    "HRANDFIELD",
    key(),
    optional(Argument("count", "integer", read_sample_count)),
    options(flag("WITHVALUES")),
)
def hrandfield(
    keyspace: Keyspace, at: Instant, key: bytes, count: int | None, withvalues: bool
) -> Reply:
    """Tell fields of a hash, any.

    Without a count one, or nil; otherwise at most so many different ones, or as many as a negative
    count says, repeated perhaps; WITHVALUES with their values.
    """
    fields = fields_of(keyspace, at, key)
    if isinstance(fields, Failure):
        return fields
    if not fields:
        return None if count is None else []
    if count is None:
        return sample(fields, -1)[0]
    names = sample(fields, count)
    return Pairs([(name, fields[name]) for name in names]) if withvalues else list(names)
