"""Sorted sets, as far as a result is one: ZADD and ZSCORE, without options."""

from __future__ import annotations

from goblin_raft import errors
from goblin_raft.arguments import key, repeated, score, string
from goblin_raft.keyspace import Instant, Keyspace
from goblin_raft.reply import Reply
from goblin_raft.spec import Family
from goblin_raft.values import SortedSet, format_score

family = Family("sorted-set")

WRONG_TYPE = errors.WRONG_TYPE.failure()


@family.write(
    "ZADD", key(), repeated(score(), string("member"), uneven=errors.SYNTAX_ERROR.failure())
)
def zadd(keyspace: Keyspace, at: Instant, key: bytes, pairs: list[float | bytes]) -> Reply:
    """Set the scores of members of a sorted set; replies how many of them are new."""
    members = keyspace.get(key, at.now_ms)
    if members is None:
        members = SortedSet()
        keyspace.put(key, members)
    elif not isinstance(members, SortedSet):
        return WRONG_TYPE
    before = len(members)
    keyspace.touch(key)
    members.update(zip(pairs[1::2], pairs[::2], strict=True))  # type: ignore[arg-type]
    return len(members) - before


@family.read("ZSCORE", key(), string("member"))
def zscore(keyspace: Keyspace, at: Instant, key: bytes, member: bytes) -> Reply:
    """Read the score of one member of a sorted set."""
    members = keyspace.get(key, at.now_ms)
    if members is None:
        return None
    if not isinstance(members, SortedSet):
        return WRONG_TYPE
    found = members.get(member)
    return None if found is None else format_score(found)
