"""Times to live: given, moved, asked for and taken away; what a key holds does not matter here.

A deadline is machine time. A time of day is measured from the leader's wall clock when it gave the
stamp, once, and only its distance from there counts.
"""

from __future__ import annotations

from typing import Any

from goblin_raft import errors
from goblin_raft.arguments import Argument, flag, key, options
from goblin_raft.errors import quoted
from goblin_raft.keyspace import Instant, Keyspace
from goblin_raft.readers import (
    INT64_MAX,
    read_integer,
    read_signed_milliseconds,
    read_signed_seconds,
    read_signed_unix_seconds,
)
from goblin_raft.reply import Failure, Reply
from goblin_raft.spec import Family

family = Family("generic")

# What TTL says of a key that does not exist, and of one that stays.
NO_KEY, NO_DEADLINE = -2, -1


def options_agree(chosen: list[Any]) -> None:
    """Which conditions of EXPIRE exclude each other, in the words of Redis."""
    nx, xx, gt, lt = chosen
    if nx and (xx or gt or lt):
        raise errors.NX_WITH_OTHERS.refusal()
    if gt and lt:
        raise errors.GT_WITH_LT.refusal()


def unsupported_option(word: bytes) -> Failure:
    """EXPIRE has an error of its own for this."""
    return errors.UNSUPPORTED_OPTION.failure(option=quoted(word))


CONDITIONS = options(
    flag("NX"), flag("XX"), flag("GT"), flag("LT"), unknown=unsupported_option, check=options_agree
)


@family.write("EXPIRE", key(), Argument("seconds", "integer", read_signed_seconds), CONDITIONS)
def expire(
    keyspace: Keyspace,
    at: Instant,
    key: bytes,
    remaining_ms: int,
    nx: bool,
    xx: bool,
    gt: bool,
    lt: bool,
) -> Reply:
    """Give a key a time to live in seconds; zero or less deletes it.

    With NX only a key that has none yet, with XX only one that has, with GT only if it then lives
    longer, with LT only if shorter; a key without one lives longest. Replies 1 when it was done,
    0 when not, or when the key does not exist.
    """
    if keyspace.get(key, at.now_ms) is None:
        return 0
    old_ms = keyspace.deadlines.get(key)
    new_ms = at.now_ms + remaining_ms
    if (
        (nx and old_ms is not None)
        or (xx and old_ms is None)
        or (gt and (old_ms is None or new_ms <= old_ms))
        or (lt and old_ms is not None and new_ms >= old_ms)
    ):
        return 0
    if remaining_ms <= 0:
        keyspace.delete(key)
    else:
        keyspace.set_deadline(key, new_ms)
    return 1


@family.write(
    "PEXPIRE", key(), Argument("milliseconds", "integer", read_signed_milliseconds), CONDITIONS
)
def pexpire(keyspace: Keyspace, at: Instant, key: bytes, remaining_ms: int, *rest: bool) -> Reply:
    """Give a key a time to live in milliseconds; zero or less deletes it.

    The options are those of EXPIRE.
    """
    return expire(keyspace, at, key, remaining_ms, *rest)


@family.write(
    "EXPIREAT",
    key(),
    Argument("unix-time-seconds", "unix-time", read_signed_unix_seconds),
    CONDITIONS,
)
def expireat(keyspace: Keyspace, at: Instant, key: bytes, unix_ms: int, *rest: bool) -> Reply:
    """Let a key live until a time of day, in seconds since 1970; one that is past deletes it.

    The time is measured by the leader's clock when it takes the command. The options are those of
    EXPIRE.
    """
    return expire(keyspace, at, key, unix_ms - at.wall_ms, *rest)


@family.write(
    "PEXPIREAT",
    key(),
    Argument("unix-time-milliseconds", "unix-time", read_integer),
    CONDITIONS,
)
def pexpireat(keyspace: Keyspace, at: Instant, key: bytes, unix_ms: int, *rest: bool) -> Reply:
    """Let a key live until a time of day, in milliseconds since 1970; as EXPIREAT."""
    return expire(keyspace, at, key, unix_ms - at.wall_ms, *rest)


@family.read("TTL", key())
def ttl(keyspace: Keyspace, at: Instant, key: bytes) -> Reply:
    """Tell how many seconds a key has left, rounded to the nearest.

    Replies -1 for a key that stays and -2 for one that does not exist.
    """
    return in_seconds(_remaining(keyspace, at, key))


@family.read("PTTL", key())
def pttl(keyspace: Keyspace, at: Instant, key: bytes) -> Reply:
    """Tell how many milliseconds a key has left.

    Replies -1 for a key that stays and -2 for one that does not exist.
    """
    return _remaining(keyspace, at, key)


def _remaining(keyspace: Keyspace, at: Instant, key: bytes) -> int:
    if keyspace.get(key, at.now_ms) is None:
        return NO_KEY
    deadline_ms = keyspace.deadlines.get(key)
    # Cluster time may have passed a deadline that the log has not reached: the key is still there.
    return NO_DEADLINE if deadline_ms is None else max(0, deadline_ms - at.cluster_ms)


@family.read("EXPIRETIME", key())
def expiretime(keyspace: Keyspace, at: Instant, key: bytes) -> Reply:
    """Tell until when a key lives, in seconds since 1970, rounded to the nearest.

    By the wall clock of the leader when it wrote last: the same deadline may be told differently
    later, when that clock was set meanwhile. Replies -1 for a key that stays and -2 for one that
    does not exist.
    """
    return in_seconds(_unix_deadline(keyspace, at, key))


@family.read("PEXPIRETIME", key())
def pexpiretime(keyspace: Keyspace, at: Instant, key: bytes) -> Reply:
    """Tell until when a key lives, in milliseconds since 1970; as EXPIRETIME."""
    return _unix_deadline(keyspace, at, key)


def _unix_deadline(keyspace: Keyspace, at: Instant, key: bytes) -> int:
    if keyspace.get(key, at.now_ms) is None:
        return NO_KEY
    deadline_ms = keyspace.deadlines.get(key)
    if deadline_ms is None:
        return NO_DEADLINE
    return max(0, min(INT64_MAX, deadline_ms - at.now_ms + at.wall_ms))


def in_seconds(ms: int) -> int:
    """Rounded to the nearest, and with what is no time left as it is."""
    return (ms + 500) // 1000 if ms >= 0 else ms


@family.write("PERSIST", key())
def persist(keyspace: Keyspace, at: Instant, key: bytes) -> Reply:
    """Let a key stay; replies 1 when it had a time to live."""
    if keyspace.get(key, at.now_ms) is None:
        return 0
    return int(keyspace.clear_deadline(key))
