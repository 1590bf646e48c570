"""Sorted sets, member by member; ranges of them are in ranges.py, several at once in unions.py."""

from __future__ import annotations

import math

from goblin_raft import errors
from goblin_raft.arguments import (
    Argument,
    flag,
    key,
    optional,
    options,
    repeated,
    score,
    string,
)
from goblin_raft.commands.scans import sample
from goblin_raft.keyspace import Instant, Keyspace
from goblin_raft.readers import read_pop_count, read_sample_count
from goblin_raft.reply import Double, Failure, Pairs, Reply
from goblin_raft.spec import Family
from goblin_raft.tails import OptionsFirst
from goblin_raft.values import SortedSet

family = Family("sorted-set")

WRONG_TYPE = errors.WRONG_TYPE.failure()
NOT_A_NUMBER = errors.SCORE_NOT_A_NUMBER.failure()

COUNT = optional(Argument("count", "integer", read_pop_count))

# A key that does not exist is a set without members. Nobody writes into this one.
NO_MEMBERS = SortedSet()


def members_of(keyspace: Keyspace, at: Instant, key: bytes) -> SortedSet | Failure:
    """The sorted set that a key holds, to be read."""
    value = keyspace.get(key, at.now_ms)
    if value is None:
        return NO_MEMBERS
    return value if isinstance(value, SortedSet) else WRONG_TYPE


def conditions_agree(chosen: list[bool], pairs: int) -> None:
    """Which options of ZADD exclude each other, in the words of Redis."""
    nx, xx, gt, lt, _, incr = chosen
    if nx and xx:
        raise errors.NX_WITH_XX.refusal()
    if (nx and (gt or lt)) or (gt and lt):
        raise errors.SCORE_CONDITIONS.refusal()
    if incr and pairs > 1:
        raise errors.ONE_INCREMENT.refusal()


@family.write(
    "ZADD",
    key(),
    OptionsFirst(
        options(flag("NX"), flag("XX"), flag("GT"), flag("LT"), flag("CH"), flag("INCR")),
        repeated(score(), string("member")),
        conditions_agree,
    ),
)
def zadd(
    keyspace: Keyspace,
    at: Instant,
    key: bytes,
    pairs: list[float | bytes],
    # Logs of the first release have no options.
    nx: bool = False,
    xx: bool = False,
    gt: bool = False,
    lt: bool = False,
    ch: bool = False,
    incr: bool = False,
) -> Reply:
    """Set the scores of members of a sorted set; replies how many of them are new.

    NX leaves members alone that are there, XX adds none, GT and LT change a score only to a greater
    or a lesser one. CH counts the changed members too. INCR adds to the score of one member and
    replies the new score, or nil when a condition forbade it.
    """
    held = members_of(keyspace, at, key)
    if isinstance(held, Failure):
        return held
    new = held is NO_MEMBERS
    members = SortedSet() if new else held
    added = changed = 0
    result: float | None = None
    for number, member in zip(pairs[::2], pairs[1::2], strict=True):
        assert isinstance(member, bytes)
        assert not isinstance(number, bytes)
        old = members.get(member)
        if (nx and old is not None) or (xx and old is None):
            continue
        target = number
        if old is not None:
            target = old + number if incr else number
            if math.isnan(target):
                return NOT_A_NUMBER  # INCR has one pair only, so nothing was changed yet
            if (gt and target <= old) or (lt and target >= old):
                continue
        result = target + 0.0
        added += old is None
        changed += old is not None and old != target
        members.set(member, result)
    if added or changed:
        keyspace.store(key, members, new=new)
    if incr:
        return None if result is None else Double(result)
    return added + changed if ch else added


@family.write("ZINCRBY", key(), score("increment"), string("member"))
def zincrby(keyspace: Keyspace, at: Instant, key: bytes, increment: float, member: bytes) -> Reply:
    """Add to the score of a member, which may be missing; replies the new score."""
    return zadd(keyspace, at, key, [increment, member], incr=True)


@family.read("ZCARD", key())
def zcard(keyspace: Keyspace, at: Instant, key: bytes) -> Reply:
    """Count the members of a sorted set."""
    members = members_of(keyspace, at, key)
    return members if isinstance(members, Failure) else len(members)


@family.read("ZSCORE", key(), string("member"))
def zscore(keyspace: Keyspace, at: Instant, key: bytes, member: bytes) -> Reply:
    """Read the score of one member of a sorted set."""
    members = members_of(keyspace, at, key)
    return members if isinstance(members, Failure) else _score(members, member)


@family.read("ZMSCORE", key(), repeated(string("member")))
def zmscore(keyspace: Keyspace, at: Instant, key: bytes, names: list[bytes]) -> Reply:
    """Read the scores of several members; nil for each that is missing."""
    members = members_of(keyspace, at, key)
    return members if isinstance(members, Failure) else [_score(members, name) for name in names]


def _score(members: SortedSet, member: bytes) -> Reply:
    found = members.get(member)
    return None if found is None else Double(found)


@family.read("ZRANK", key(), string("member"))
def zrank(keyspace: Keyspace, at: Instant, key: bytes, member: bytes) -> Reply:
    """Tell how many members come before this one in order of score; nil when it is missing."""
    members = members_of(keyspace, at, key)
    if isinstance(members, Failure):
        return members
    found = members.get(member)
    return None if found is None else members.order.position((found, member))


@family.read("ZREVRANK", key(), string("member"))
def zrevrank(keyspace: Keyspace, at: Instant, key: bytes, member: bytes) -> Reply:
    """Tell how many members come after this one in order of score; nil when it is missing."""
    members = members_of(keyspace, at, key)
    if isinstance(members, Failure):
        return members
    rank = zrank(keyspace, at, key, member)
    return len(members) - 1 - rank if isinstance(rank, int) else rank


@family.write("ZREM", key(), repeated(string("member")))
def zrem(keyspace: Keyspace, at: Instant, key: bytes, names: list[bytes]) -> Reply:
    """Remove members, and the key with the last one; replies how many there were."""
    members = members_of(keyspace, at, key)
    if isinstance(members, Failure):
        return members
    removed = sum([members.remove(name) for name in names])
    if removed:
        keyspace.store(key, members, new=False)
    return removed


@family.write("ZPOPMIN", key(), COUNT, options())
def zpopmin(keyspace: Keyspace, at: Instant, key: bytes, count: int | None) -> Reply:
    """Remove the member with the lowest score, or so many, and read them with their scores."""
    return _pop(keyspace, at, key, count, highest=False)


@family.write("ZPOPMAX", key(), COUNT, options())
def zpopmax(keyspace: Keyspace, at: Instant, key: bytes, count: int | None) -> Reply:
    """Remove the member with the highest score, or so many, and read them with their scores."""
    return _pop(keyspace, at, key, count, highest=True)


def _pop(keyspace: Keyspace, at: Instant, key: bytes, count: int | None, *, highest: bool) -> Reply:
    members = members_of(keyspace, at, key)
    if isinstance(members, Failure):
        return members
    size = len(members)
    taken = min(1 if count is None else count, size)
    if taken == 0:
        return []
    start = size - taken if highest else 0
    popped = list(members.order.slice(start, start + taken))
    if highest:
        popped.reverse()
    members.remove_slice(start, start + taken)
    keyspace.store(key, members, new=False)
    if count is None:
        return [popped[0][1], Double(popped[0][0])]
    return Pairs([(member, Double(number)) for number, member in popped])


@family.read(
    "ZRANDMEMBER",
    key(),
    optional(Argument("count", "integer", read_sample_count)),
    options(flag("WITHSCORES")),
)
def zrandmember(
    keyspace: Keyspace, at: Instant, key: bytes, count: int | None, withscores: bool
) -> Reply:
    """Tell members of a sorted set, any.

    Without a count one, or nil; otherwise at most so many different ones, or as many as a negative
    count says, repeated perhaps; WITHSCORES with their scores.
    """
    members = members_of(keyspace, at, key)
    if isinstance(members, Failure):
        return members
    if not members:
        return None if count is None else []
    if count is None:
        return sample(members, -1)[0]
    names = sample(members, count)
    return Pairs([(name, Double(members[name])) for name in names]) if withscores else [*names]
