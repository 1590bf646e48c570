"""Commands on keys of any type: existence and time to live."""

from __future__ import annotations

from typing import Any

from goblin_raft import errors
from goblin_raft.arguments import Argument, flag, key, one_of, options, repeated
from goblin_raft.errors import quoted
from goblin_raft.keyspace import Instant, Keyspace
from goblin_raft.readers import read_signed_milliseconds, read_signed_seconds
from goblin_raft.reply import OK, Failure, Reply, Status
from goblin_raft.spec import Family
from goblin_raft.values import TYPE_NAMES

family = Family("generic")

# What TTL says of a key that does not exist, and of one that stays.
NO_KEY, NO_DEADLINE = -2, -1
TYPES = {kind: Status(name) for kind, name in TYPE_NAMES.items()}
NO_TYPE = Status(b"none")


@family.write("DEL", repeated(key()))
def del_(keyspace: Keyspace, at: Instant, keys: list[bytes]) -> Reply:
    """Delete keys of any type; replies how many there were."""
    deleted = 0
    for name in keys:
        if keyspace.get(name, at.now_ms) is not None:
            keyspace.delete(name)
            deleted += 1
    return deleted


@family.read("EXISTS", repeated(key()))
def exists(keyspace: Keyspace, at: Instant, keys: list[bytes]) -> Reply:
    """Count how many of the keys exist; one that is named twice counts twice."""
    return sum(keyspace.get(key, at.now_ms) is not None for key in keys)


@family.read("TYPE", key())
def type_(keyspace: Keyspace, at: Instant, key: bytes) -> Reply:
    """Tell what a key holds: string, hash, zset or none."""
    value = keyspace.get(key, at.now_ms)
    return NO_TYPE if value is None else TYPES[type(value)]


# ---- time to live -------------------------------------------------------------------------------


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


@family.read("TTL", key())
def ttl(keyspace: Keyspace, at: Instant, key: bytes) -> Reply:
    """Tell how many seconds a key has left, rounded to the nearest.

    Replies -1 for a key that stays and -2 for one that does not exist.
    """
    remaining_ms = pttl(keyspace, at, key)
    assert isinstance(remaining_ms, int)
    return (remaining_ms + 500) // 1000 if remaining_ms >= 0 else remaining_ms


@family.read("PTTL", key())
def pttl(keyspace: Keyspace, at: Instant, key: bytes) -> Reply:
    """Tell how many milliseconds a key has left.

    Replies -1 for a key that stays and -2 for one that does not exist.
    """
    if keyspace.get(key, at.now_ms) is None:
        return NO_KEY
    deadline_ms = keyspace.deadlines.get(key)
    # Cluster time may have passed a deadline that the log has not reached: the key is still there.
    return NO_DEADLINE if deadline_ms is None else max(0, deadline_ms - at.cluster_ms)


@family.write("PERSIST", key())
def persist(keyspace: Keyspace, at: Instant, key: bytes) -> Reply:
    """Let a key stay; replies 1 when it had a time to live."""
    if keyspace.get(key, at.now_ms) is None:
        return 0
    return int(keyspace.clear_deadline(key))


# ---- whole databases ----------------------------------------------------------------------------


@family.read("DBSIZE")
def dbsize(keyspace: Keyspace, at: Instant) -> Reply:
    """Count the keys of this database, those included that are over and not removed yet."""
    return len(keyspace)


@family.write("FLUSHALL", options(one_of("mode", flag("ASYNC"), flag("SYNC"))), whole=True)
def flushall(keyspaces: list[Keyspace], at: Instant, mode: str | None) -> Reply:
    """Delete all keys of all databases.

    ASYNC and SYNC are understood and make no difference.
    """
    for keyspace in keyspaces:
        keyspace.clear()
    return OK


@family.write("FLUSHDB", options(one_of("mode", flag("ASYNC"), flag("SYNC"))))
def flushdb(keyspace: Keyspace, at: Instant, mode: str | None) -> Reply:
    """Delete all keys of the database.

    ASYNC and SYNC are understood and make no difference.
    """
    keyspace.clear()
    return OK
