"""Strings as Redis has them, read, written and cut; what counts is in counters.py.

Knows nothing of claims.
"""

from __future__ import annotations

from goblin_raft import errors
from goblin_raft.arguments import (
    Argument,
    flag,
    integer,
    key,
    milliseconds,
    one_of,
    options,
    repeated,
    seconds,
    string,
    valued,
)
from goblin_raft.keyspace import Instant, Keyspace
from goblin_raft.readers import (
    read_digest,
    read_offset,
    read_unix_milliseconds,
    read_unix_seconds,
)
from goblin_raft.reply import OK, Failure, Reply
from goblin_raft.spec import Family
from goblin_raft.tails import Limit
from goblin_raft.xxh3 import digest

family = Family("string")

WRONG_TYPE = errors.WRONG_TYPE.failure()
TOO_LONG = errors.STRING_TOO_LONG.failure()

TIMES = (
    valued("EX", seconds()),
    valued("PX", milliseconds()),
    valued("EXAT", Argument("unix-time-seconds", "unix-time", read_unix_seconds)),
    valued("PXAT", Argument("unix-time-milliseconds", "unix-time", read_unix_milliseconds)),
)


COMPARISONS = (
    valued("IFEQ", string("ifeq-value")),
    valued("IFNE", string("ifne-value")),
    valued("IFDEQ", Argument("ifdeq-digest", "string", read_digest)),
    valued("IFDNE", Argument("ifdne-digest", "string", read_digest)),
)


@family.read("GET", key())
def get(keyspace: Keyspace, at: Instant, key: bytes) -> Reply:
    """Read a string.

    Replies nil when the key does not exist.
    """
    value = keyspace.get(key, at.now_ms)
    return value if value is None or isinstance(value, bytes) else WRONG_TYPE


@family.write(
    "SET",
    key(),
    string("value"),
    options(
        one_of(
            "condition",
            flag("NX"),
            flag("XX"),
            *COMPARISONS,
        ),
        flag("GET"),
        one_of("expiry", *TIMES, flag("KEEPTTL")),
    ),
)
def set_(
    keyspace: Keyspace,
    at: Instant,
    key: bytes,
    value: bytes,
    condition: str | tuple[str, bytes] | None,
    get: bool,
    expiry: str | tuple[str, int] | None,
) -> Reply:
    """Store a string, whatever the key held before.

    NX stores only when the key does not exist, XX only when it does, IFEQ only when it holds this
    string, IFNE only when it does not, IFDEQ and IFDNE the same for a string with this DIGEST; the
    reply is nil when nothing was stored. EX and PX give a
    time to live, EXAT and PXAT a time of day to live until, measured by the leader's clock when it
    takes the command; KEEPTTL leaves the time to live as it is, and without any of them the key
    stays. With GET the reply is the old value, or nil. With GET, IFEQ and its kin a key that
    holds no string is left alone.
    """
    old = keyspace.get(key, at.now_ms)
    if get and not (old is None or isinstance(old, bytes)):
        return WRONG_TYPE
    if condition is not None:
        if not isinstance(condition, str):
            if not (old is None or isinstance(old, bytes)):
                return WRONG_TYPE
            unmet = not meets(old, condition)
        else:
            unmet = (old is None) != (condition == "NX")
        if unmet:
            return old if get and isinstance(old, bytes) else None
    if expiry is None:
        keyspace.put(key, value)
    elif isinstance(expiry, str):  # KEEPTTL
        if old is None:
            keyspace.put(key, value)
        else:
            keyspace.replace(key, value)
    else:
        keyspace.put(key, value, deadline_of(expiry, at))
    if not get:
        return OK
    return old if isinstance(old, bytes) else None


def meets(value: bytes | None, condition: tuple[str, bytes]) -> bool:
    """Whether a string is what one of the options IFEQ, IFNE, IFDEQ and IFDNE says."""
    kind, wanted = condition
    by_digest = kind in ("IFDEQ", "IFDNE")
    held = digest(value) if by_digest and value is not None else value
    return (held == wanted) == (kind in ("IFEQ", "IFDEQ"))


def deadline_of(expiry: tuple[str, int], at: Instant) -> int:
    """In machine time: what one of the options EX, PX, EXAT and PXAT says."""
    kind, ms = expiry
    return (at.now_ms if kind in ("EX", "PX") else at.now_ms - at.wall_ms) + ms


@family.write("SETNX", key(), string("value"))
def setnx(keyspace: Keyspace, at: Instant, key: bytes, value: bytes) -> Reply:
    """Store a string if the key does not exist; replies 1 when it was stored, else 0."""
    if keyspace.get(key, at.now_ms) is not None:
        return 0
    keyspace.put(key, value)
    return 1


@family.write("SETEX", key(), seconds(), string("value"))
def setex(keyspace: Keyspace, at: Instant, key: bytes, remaining_ms: int, value: bytes) -> Reply:
    """Store a string with a time to live in seconds."""
    keyspace.put(key, value, at.now_ms + remaining_ms)
    return OK


@family.write("PSETEX", key(), milliseconds(), string("value"))
def psetex(keyspace: Keyspace, at: Instant, key: bytes, remaining_ms: int, value: bytes) -> Reply:
    """Store a string with a time to live in milliseconds."""
    keyspace.put(key, value, at.now_ms + remaining_ms)
    return OK


@family.write("GETSET", key(), string("value"))
def getset(keyspace: Keyspace, at: Instant, key: bytes, value: bytes) -> Reply:
    """Store a string that stays, and read the one that was there."""
    old = keyspace.get(key, at.now_ms)
    if not (old is None or isinstance(old, bytes)):
        return WRONG_TYPE
    keyspace.put(key, value)
    return old


@family.write("GETDEL", key())
def getdel(keyspace: Keyspace, at: Instant, key: bytes) -> Reply:
    """Read a string and delete its key."""
    old = keyspace.get(key, at.now_ms)
    if isinstance(old, bytes):
        keyspace.delete(key)
        return old
    return None if old is None else WRONG_TYPE


@family.write("GETEX", key(), options(one_of("expiry", *TIMES, flag("PERSIST"))))
def getex(
    keyspace: Keyspace, at: Instant, key: bytes, expiry: str | tuple[str, int] | None
) -> Reply:
    """Read a string and give its key a new time to live, or let it stay with PERSIST.

    The options are those of SET. Without any, nothing changes.
    """
    value = keyspace.get(key, at.now_ms)
    if value is None:
        return None
    if not isinstance(value, bytes):
        return WRONG_TYPE
    if isinstance(expiry, str):
        keyspace.clear_deadline(key)
    elif expiry is not None:
        deadline_ms = deadline_of(expiry, at)
        if deadline_ms <= at.now_ms:
            keyspace.delete(key)
        else:
            keyspace.set_deadline(key, deadline_ms)
    return value


# ---- compare and delete, as Redis 8.4 and Valkey 9 spell it --------------------------------------


@family.write("DELEX", key(), options(one_of("condition", *COMPARISONS)))
def delex(
    keyspace: Keyspace, at: Instant, key: bytes, condition: tuple[str, bytes] | None
) -> Reply:
    """Delete a key if it holds this string (IFEQ), or another one (IFNE).

    IFDEQ and IFDNE compare the DIGEST of the string. Replies 1 when it was deleted, else 0. Without
    a condition a key of any type is deleted.
    """
    value = keyspace.get(key, at.now_ms)
    if value is None:
        return 0
    if condition is not None:
        if not isinstance(value, bytes):
            return WRONG_TYPE
        if not meets(value, condition):
            return 0
    keyspace.delete(key)
    return 1


@family.read("DIGEST", key())
def digest_(keyspace: Keyspace, at: Instant, key: bytes) -> Reply:
    """Tell the XXH3 hash of a string, 16 hexadecimal digits; nil when the key does not exist."""
    value = get(keyspace, at, key)
    return digest(value) if isinstance(value, bytes) else value


@family.write("DELIFEQ", key(), string("value"))
def delifeq(keyspace: Keyspace, at: Instant, key: bytes, value: bytes) -> Reply:
    """Delete a key if it holds this string; replies 1 when it was deleted, else 0."""
    return delex(keyspace, at, key, ("IFEQ", value))


# ---- several keys -------------------------------------------------------------------------------


@family.read("MGET", repeated(key()))
def mget(keyspace: Keyspace, at: Instant, keys: list[bytes]) -> Reply:
    """Read several strings; nil for a key that does not exist or holds no string."""
    values = [keyspace.get(name, at.now_ms) for name in keys]
    return [value if isinstance(value, bytes) else None for value in values]


@family.write("MSET", repeated(key(), string("value")))
def mset(keyspace: Keyspace, at: Instant, pairs: list[bytes]) -> Reply:
    """Store several strings at once, whatever the keys held before."""
    for name, value in zip(pairs[::2], pairs[1::2], strict=True):
        keyspace.put(name, value)
    return OK


@family.write("MSETNX", repeated(key(), string("value")))
def msetnx(keyspace: Keyspace, at: Instant, pairs: list[bytes]) -> Reply:
    """Store several strings if none of the keys exists; replies 1 when they were stored, else 0."""
    if any(keyspace.get(name, at.now_ms) is not None for name in pairs[::2]):
        return 0
    mset(keyspace, at, pairs)
    return 1


# ---- parts --------------------------------------------------------------------------------------


@family.read("STRLEN", key())
def strlen(keyspace: Keyspace, at: Instant, key: bytes) -> Reply:
    """Tell how many bytes a string has; 0 when the key does not exist."""
    value = get(keyspace, at, key)
    return value if isinstance(value, Failure) else len(value or b"")  # type: ignore[arg-type]


@family.write("APPEND", key(), string("value"), Limit("value_bytes_max"))
def append(keyspace: Keyspace, at: Instant, key: bytes, value: bytes, bytes_max: int) -> Reply:
    """Add to the end of a string, which may be missing; replies how many bytes it has then."""
    old = keyspace.get(key, at.now_ms)
    if old is None:
        keyspace.put(key, value)
        return len(value)
    if not isinstance(old, bytes):
        return WRONG_TYPE
    if len(old) + len(value) > bytes_max:
        return TOO_LONG
    keyspace.replace(key, old + value)
    return len(old) + len(value)


@family.read("GETRANGE", key(), integer("start"), integer("end"))
def getrange(keyspace: Keyspace, at: Instant, key: bytes, start: int, end: int) -> Reply:
    """Read the part of a string between two places, both included; -1 is the last one."""
    value = get(keyspace, at, key)
    if not isinstance(value, bytes):
        return value or b""
    size = len(value)
    if start < 0 and end < 0 and start > end:
        return b""
    first = max(0, start + size if start < 0 else start)
    last = max(0, end + size if end < 0 else end)
    return value[first : last + 1]


@family.read("SUBSTR", key(), integer("start"), integer("end"))
def substr(keyspace: Keyspace, at: Instant, key: bytes, start: int, end: int) -> Reply:
    """Redis's old name for GETRANGE."""
    return getrange(keyspace, at, key, start, end)


@family.write(
    "SETRANGE",
    key(),
    Argument("offset", "integer", read_offset),
    string("value"),
    Limit("value_bytes_max"),
)
def setrange(
    keyspace: Keyspace, at: Instant, key: bytes, offset: int, value: bytes, bytes_max: int
) -> Reply:
    """Overwrite a part of a string from a place on, with zero bytes before it if it was shorter.

    Replies how many bytes the string has then.
    """
    old = keyspace.get(key, at.now_ms)
    if not (old is None or isinstance(old, bytes)):
        return WRONG_TYPE
    held = old or b""
    if not value:
        return len(held)
    if offset + len(value) > bytes_max:
        return TOO_LONG
    changed = held[:offset].ljust(offset, b"\0") + value + held[offset + len(value) :]
    if old is None:
        keyspace.put(key, changed)
    else:
        keyspace.replace(key, changed)
    return len(changed)
