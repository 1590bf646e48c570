"""Commands on keys of any type: existence, removal, other names, whole databases.

How long a key lives is in expiry.py, how to go through all of them in scans.py.
"""

from __future__ import annotations

from goblin_raft import errors
from goblin_raft.arguments import Argument, flag, key, one_of, options, repeated, valued
from goblin_raft.errors import ErrorCode
from goblin_raft.keyspace import Databases, Instant, Keyspace
from goblin_raft.limits import Limits
from goblin_raft.readers import INT32_MAX, INT32_MIN, Reader, parse_integer, read_database
from goblin_raft.reply import OK, Reply, Status
from goblin_raft.spec import Family
from goblin_raft.values import TYPE_NAMES, copy_value

family = Family("generic")

TYPES = {kind: Status(name) for kind, name in TYPE_NAMES.items()}
NO_TYPE = Status(b"none")
NO_SUCH_KEY = errors.NO_SUCH_KEY.failure()
SAME_OBJECT = errors.SAME_OBJECT.failure()


@family.write("DEL", repeated(key()))
def del_(keyspace: Keyspace, at: Instant, keys: list[bytes]) -> Reply:
    """Delete keys of any type; replies how many there were."""
    deleted = 0
    for name in keys:
        if keyspace.get(name, at.now_ms) is not None:
            keyspace.delete(name)
            deleted += 1
    return deleted


@family.write("UNLINK", repeated(key()))
def unlink(keyspace: Keyspace, at: Instant, keys: list[bytes]) -> Reply:
    """Delete keys of any type, as DEL does; replies how many there were."""
    return del_(keyspace, at, keys)


@family.read("EXISTS", repeated(key()))
def exists(keyspace: Keyspace, at: Instant, keys: list[bytes]) -> Reply:
    """Count how many of the keys exist; one that is named twice counts twice."""
    return sum(keyspace.get(key, at.now_ms) is not None for key in keys)


@family.read("TOUCH", repeated(key()))
def touch(keyspace: Keyspace, at: Instant, keys: list[bytes]) -> Reply:
    """Count how many of the keys exist, as EXISTS does: there is no time of last use to change."""
    return exists(keyspace, at, keys)


@family.read("TYPE", key())
def type_(keyspace: Keyspace, at: Instant, key: bytes) -> Reply:
    """Tell what a key holds: string, hash, zset or none."""
    value = keyspace.get(key, at.now_ms)
    return NO_TYPE if value is None else TYPES[type(value)]


# ---- other names --------------------------------------------------------------------------------


@family.write("RENAME", key(), key("newkey"))
def rename(keyspace: Keyspace, at: Instant, key: bytes, new_key: bytes) -> Reply:
    """Give what a key holds, and its time to live, to another key, whatever that held."""
    value = keyspace.get(key, at.now_ms)
    if value is None:
        return NO_SUCH_KEY
    if key != new_key:
        deadline_ms = keyspace.deadlines.get(key)
        keyspace.delete(key)
        keyspace.put(new_key, value, deadline_ms)
    return OK


@family.write("RENAMENX", key(), key("newkey"))
def renamenx(keyspace: Keyspace, at: Instant, key: bytes, new_key: bytes) -> Reply:
    """Rename a key if the new name is free; replies 1 when it was, else 0."""
    if keyspace.get(key, at.now_ms) is None:
        return NO_SUCH_KEY
    if keyspace.get(new_key, at.now_ms) is not None:
        return 0
    rename(keyspace, at, key, new_key)
    return 1


@family.write(
    "COPY",
    key("source"),
    key("destination"),
    options(valued("DB", Argument("destination-db", "integer", read_database)), flag("REPLACE")),
    whole=True,
)
def copy(
    databases: Databases,
    at: Instant,
    source: bytes,
    destination: bytes,
    database: list[int] | None,
    replace: bool,
) -> Reply:
    """Copy what a key holds, and its time to live, to another key, in another database perhaps.

    Replies 1 when it was copied, 0 when the source does not exist, or when the destination does
    and REPLACE was not given.
    """
    number = databases.selected if database is None else database[0]
    here, there = databases.all[databases.selected], databases.all[number]
    if here is there and source == destination:
        return SAME_OBJECT
    value = here.get(source, at.now_ms)
    if value is None or (there.get(destination, at.now_ms) is not None and not replace):
        return 0
    there.put(destination, copy_value(value), here.deadlines.get(source))
    return 1


@family.write("MOVE", key(), Argument("db", "integer", read_database), whole=True)
def move(databases: Databases, at: Instant, key: bytes, database: int) -> Reply:
    """Move a key to another database, with its time to live.

    Replies 1 when it was moved, 0 when it does not exist here, or does there.
    """
    here, there = databases.all[databases.selected], databases.all[database]
    if here is there:
        return SAME_OBJECT
    value = here.get(key, at.now_ms)
    if value is None or there.get(key, at.now_ms) is not None:
        return 0
    deadline_ms = here.deadlines.get(key)
    here.delete(key)
    there.put(key, value, deadline_ms)
    return 1


# ---- whole databases ----------------------------------------------------------------------------


@family.read("DBSIZE")
def dbsize(keyspace: Keyspace, at: Instant) -> Reply:
    """Count the keys of this database, those included that are over and not removed yet."""
    return len(keyspace)


MODE = options(one_of("mode", flag("ASYNC"), flag("SYNC")))


@family.write("FLUSHDB", MODE)
def flushdb(keyspace: Keyspace, at: Instant, mode: str | None) -> Reply:
    """Delete all keys of this database.

    ASYNC and SYNC are understood and make no difference.
    """
    keyspace.clear()
    return OK


@family.write("FLUSHALL", MODE, whole=True)
def flushall(databases: Databases, at: Instant, mode: str | None) -> Reply:
    """Delete all keys of all databases.

    ASYNC and SYNC are understood and make no difference.
    """
    for keyspace in databases.all:
        keyspace.clear()
    return OK


def _database_or(refusal: ErrorCode) -> Reader:
    def read(word: bytes, limits: Limits, name: str) -> int:
        number = parse_integer(word)
        if number is None or not INT32_MIN <= number <= INT32_MAX:
            raise refusal.refusal()
        return read_database(word, limits, name)

    return read


@family.write(
    "SWAPDB",
    Argument("index1", "integer", _database_or(errors.INVALID_FIRST_DB)),
    Argument("index2", "integer", _database_or(errors.INVALID_SECOND_DB)),
    whole=True,
)
def swapdb(databases: Databases, at: Instant, one: int, other: int) -> Reply:
    """Exchange two databases: who has selected one of them sees what the other one held."""
    spaces = databases.all
    spaces[one], spaces[other] = spaces[other], spaces[one]
    for number in {one, other}:
        spaces[number].touch_all()
    return OK
