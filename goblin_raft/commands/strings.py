"""GET and SET: strings as Redis has them; knows nothing of claims."""

from __future__ import annotations

from goblin_raft import errors
from goblin_raft.arguments import (
    Argument,
    flag,
    key,
    milliseconds,
    one_of,
    options,
    seconds,
    string,
    valued,
)
from goblin_raft.keyspace import Instant, Keyspace
from goblin_raft.readers import read_unix_milliseconds, read_unix_seconds
from goblin_raft.reply import OK, Reply
from goblin_raft.spec import Family

family = Family("string")

WRONG_TYPE = errors.WRONG_TYPE.failure()


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
        one_of("condition", flag("NX"), flag("XX")),
        flag("GET"),
        one_of(
            "expiry",
            valued("EX", seconds()),
            valued("PX", milliseconds()),
            valued("EXAT", Argument("unix-time-seconds", "unix-time", read_unix_seconds)),
            valued("PXAT", Argument("unix-time-milliseconds", "unix-time", read_unix_milliseconds)),
            flag("KEEPTTL"),
        ),
    ),
)
def set_(
    keyspace: Keyspace,
    at: Instant,
    key: bytes,
    value: bytes,
    condition: str | None,
    get: bool,
    expiry: str | tuple[str, int] | None,
) -> Reply:
    """Store a string, whatever the key held before.

    NX stores only when the key does not exist, XX only when it does; the reply is nil when nothing
    was stored. EX and PX give a time to live, EXAT and PXAT a time of day to live until, measured
    by the leader's clock when it takes the command; KEEPTTL leaves the time to live as it is, and
    without any of them the key stays. With GET the reply is the old value, or nil, and a key that
    held no string is left alone.
    """
    old = keyspace.get(key, at.now_ms)
    if get and not (old is None or isinstance(old, bytes)):
        return WRONG_TYPE
    if condition is not None and (old is None) != (condition == "NX"):
        return old if get and isinstance(old, bytes) else None
    if expiry is None:
        keyspace.put(key, value)
    elif isinstance(expiry, str):  # KEEPTTL
        if old is None:
            keyspace.put(key, value)
        else:
            keyspace.replace(key, value)
    else:
        kind, ms = expiry
        start_ms = at.now_ms if kind in ("EX", "PX") else at.now_ms - at.wall_ms
        keyspace.put(key, value, start_ms + ms)
    if not get:
        return OK
    return old if isinstance(old, bytes) else None
