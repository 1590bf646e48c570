"""Several sorted sets at once: what is in any of them, in all, or in the first one alone."""

from __future__ import annotations

import math
from itertools import islice

from goblin_raft.arguments import Argument, flag, key, options, valued
from goblin_raft.commands.ranges import put_result, told
from goblin_raft.commands.sorted_sets import members_of
from goblin_raft.keyspace import Instant, Keyspace
from goblin_raft.readers import read_aggregate, read_limit
from goblin_raft.reply import Failure, Reply
from goblin_raft.spec import Family
from goblin_raft.tails import NumberedKeys
from goblin_raft.values import SortedSet

family = Family("sorted-set")

Scores = dict[bytes, float]
Weights = list[float] | None
Aggregate = list[str] | None

AGGREGATE = valued("AGGREGATE", Argument("aggregate", "string", read_aggregate))
WITHSCORES = flag("WITHSCORES")
INPUT = NumberedKeys(options(AGGREGATE, WITHSCORES), weights=True)
INPUT_TO_STORE = NumberedKeys(options(AGGREGATE), weights=True)


def read_all(keyspace: Keyspace, at: Instant, keys: list[bytes]) -> list[SortedSet] | Failure:
    """The sorted sets of all keys, or the refusal of one that holds something else."""
    found: list[SortedSet] = []
    for name in keys:
        members = members_of(keyspace, at, name)
        if isinstance(members, Failure):
            return members
        found.append(members)
    return found


def weighted(sets: list[SortedSet], weights: Weights) -> list[tuple[SortedSet, float]]:
    """Each set with its factor, the smallest first, as Redis adds them up: rounding shows it."""
    pairs = list(zip(sets, weights or [1.0] * len(sets), strict=True))
    return sorted(pairs, key=lambda pair: len(pair[0]))


def product(score: float, weight: float) -> float:
    """Nothing times infinity is nothing."""
    result = score * weight
    return 0.0 if math.isnan(result) else result


def combined(one: float, other: float, aggregate: Aggregate) -> float:
    """Two scores of one member as one."""
    if aggregate == ["MIN"]:
        return min(one, other)
    if aggregate == ["MAX"]:
        return max(one, other)
    total = one + other
    return 0.0 if math.isnan(total) else total  # infinities of both signs: Redis says zero


def union(sets: list[SortedSet], weights: Weights, aggregate: Aggregate) -> Scores:
    """The members of any."""
    found: Scores = {}
    for members, weight in weighted(sets, weights):
        for member, number in members.items():
            score = product(number, weight)
            if member in found:
                score = combined(found[member], score, aggregate)
            found[member] = score + 0.0
    return found


def intersection(sets: list[SortedSet], weights: Weights, aggregate: Aggregate) -> Scores:
    """The members of all."""
    (smallest, first_weight), *others = weighted(sets, weights)
    found: Scores = {}
    for member, number in smallest.items():
        score = product(number, first_weight)
        for members, weight in others:
            other = members.get(member)
            if other is None:
                break
            score = combined(score, product(other, weight), aggregate)
        else:
            found[member] = score + 0.0
    return found


def difference(sets: list[SortedSet]) -> Scores:
    """The members of the first that are in none of the others."""
    first, *others = sets
    return {
        member: number
        for member, number in first.items()
        if not any(member in members for members in others)
    }


def shown(found: Scores, withscores: bool) -> Reply:
    """In order of score."""
    return told(iter(sorted((number, member) for member, number in found.items())), withscores)


# ---- read ---------------------------------------------------------------------------------------


@family.read("ZUNION", INPUT)
def zunion(
    keyspace: Keyspace,
    at: Instant,
    keys: list[bytes],
    weights: Weights,
    aggregate: Aggregate,
    withscores: bool,
) -> Reply:
    """Read the members of any of several sorted sets.

    Scores are multiplied by the set's weight, and those of one member are added, or with AGGREGATE
    the lowest or the highest of them counts.
    """
    sets = read_all(keyspace, at, keys)
    if isinstance(sets, Failure):
        return sets
    return shown(union(sets, weights, aggregate), withscores)


@family.read("ZINTER", INPUT)
def zinter(
    keyspace: Keyspace,
    at: Instant,
    keys: list[bytes],
    weights: Weights,
    aggregate: Aggregate,
    withscores: bool,
) -> Reply:
    """Read the members that are in all of several sorted sets; scores as in ZUNION."""
    sets = read_all(keyspace, at, keys)
    if isinstance(sets, Failure):
        return sets
    return shown(intersection(sets, weights, aggregate), withscores)


@family.read("ZDIFF", NumberedKeys(options(WITHSCORES)))
def zdiff(keyspace: Keyspace, at: Instant, keys: list[bytes], withscores: bool) -> Reply:
    """Read the members of the first sorted set that are in none of the others."""
    sets = read_all(keyspace, at, keys)
    if isinstance(sets, Failure):
        return sets
    return shown(difference(sets), withscores)


@family.read(
    "ZINTERCARD",
    NumberedKeys(options(valued("LIMIT", Argument("limit", "integer", read_limit)))),
)
def zintercard(
    keyspace: Keyspace, at: Instant, keys: list[bytes], limit: list[int] | None
) -> Reply:
    """Count the members that are in all of several sorted sets; LIMIT is where counting ends."""
    sets = read_all(keyspace, at, keys)
    if isinstance(sets, Failure):
        return sets
    smallest, *others = sorted(sets, key=len)
    common = (1 for member in smallest if all(member in members for members in others))
    return sum(islice(common, limit[0] if limit and limit[0] else None))


# ---- store --------------------------------------------------------------------------------------


@family.write("ZUNIONSTORE", key("destination"), INPUT_TO_STORE)
def zunionstore(
    keyspace: Keyspace,
    at: Instant,
    destination: bytes,
    keys: list[bytes],
    weights: Weights,
    aggregate: Aggregate,
) -> Reply:
    """Store what ZUNION reads under a key, whatever it held; replies how many members that are."""
    sets = read_all(keyspace, at, keys)
    if isinstance(sets, Failure):
        return sets
    return put_result(keyspace, at, destination, union(sets, weights, aggregate))


@family.write("ZINTERSTORE", key("destination"), INPUT_TO_STORE)
def zinterstore(
    keyspace: Keyspace,
    at: Instant,
    destination: bytes,
    keys: list[bytes],
    weights: Weights,
    aggregate: Aggregate,
) -> Reply:
    """Store what ZINTER reads under a key, whatever it held; replies how many members that are."""
    sets = read_all(keyspace, at, keys)
    if isinstance(sets, Failure):
        return sets
    return put_result(keyspace, at, destination, intersection(sets, weights, aggregate))


@family.write("ZDIFFSTORE", key("destination"), NumberedKeys(options()))
def zdiffstore(keyspace: Keyspace, at: Instant, destination: bytes, keys: list[bytes]) -> Reply:
    """Store what ZDIFF reads under a key, whatever it held; replies how many members that are."""
    sets = read_all(keyspace, at, keys)
    if isinstance(sets, Failure):
        return sets
    return put_result(keyspace, at, destination, difference(sets))
