"""Ranges of a sorted set, by rank, by score and by name: read, counted, removed, stored.

A range is two positions in the order of the set, whatever it was asked for by.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from goblin_raft import errors
from goblin_raft.arguments import Argument, flag, integer, key, one_of, options, string, valued
from goblin_raft.commands.sorted_sets import members_of
from goblin_raft.keyspace import Instant, Keyspace
from goblin_raft.limits import Limits
from goblin_raft.ordered import AFTER, Item
from goblin_raft.readers import read_integer, read_name_bound, read_score_bound
from goblin_raft.reply import Double, Failure, Pairs, Reply
from goblin_raft.spec import Family
from goblin_raft.values import SortedSet

family = Family("sorted-set")

Span = tuple[int, int]
Window = list[int] | None


def ranks(members: SortedSet, start: int, stop: int) -> Span:
    """Both ends included, negative ones counted from behind."""
    size = len(members)
    start = max(0, start + size if start < 0 else start)
    stop = stop + size if stop < 0 else stop
    return start, max(start, min(stop + 1, size))


def scores(members: SortedSet, low: list[Any], high: list[Any]) -> Span:
    """Each end a number, and whether it is left out."""
    start = members.order.position((low[0], AFTER) if low[1] else (low[0],))
    stop = members.order.position((high[0],) if high[1] else (high[0], AFTER))
    return start, max(start, stop)


def names(members: SortedSet, low: bytes, high: bytes) -> Span:
    """Each end as a client gives it. All members must have the same score, as in Redis."""
    first = next(members.order.slice(0, 1), None)
    if first is None or low == b"+" or high == b"-":
        return 0, 0
    start, stop, number = 0, len(members), first[0]
    if low != b"-":
        # (score, name, 0) lies directly behind (score, name).
        bound = (number, low[1:])
        start = members.order.position(bound if low[:1] == b"[" else (*bound, 0))
    if high != b"+":
        bound = (number, high[1:])
        stop = members.order.position((*bound, 0) if high[:1] == b"[" else bound)
    return start, max(start, stop)


def take(members: SortedSet, span: Span, *, reverse: bool, window: Window = None) -> Iterator[Item]:
    """The items of a range, in order or against it; of these the part that LIMIT says."""
    start, stop = span
    if window is not None:
        offset, count = window
        size = stop - start
        skipped = size if offset < 0 else min(offset, size)
        taken = size - skipped if count < 0 else min(count, size - skipped)
        start, stop = (
            (stop - skipped - taken, stop - skipped)
            if reverse
            else (start + skipped, start + skipped + taken)
        )
    order = members.order
    return order.slice_back(start, stop) if reverse else order.slice(start, stop)


def told(items: Iterator[Item], withscores: bool) -> Reply:
    """As a client gets them."""
    if withscores:
        return Pairs([(member, Double(number)) for number, member in items])
    return [member for _, member in items]


LOW, HIGH = Argument("min", "double", read_score_bound), Argument("max", "double", read_score_bound)
LOW_NAME = Argument("min", "string", read_name_bound)
HIGH_NAME = Argument("max", "string", read_name_bound)
LIMIT = valued("LIMIT", integer("offset"), integer("count"))


# ---- read ---------------------------------------------------------------------------------------


def range_options_agree(by: str | None, window: Window, withscores: bool) -> None:
    """Which options of ZRANGE exclude each other, in the words of Redis."""
    if by is None and window is not None and window[1] != -1:  # Redis takes -1 for "not given"
        raise errors.LIMIT_WITHOUT_RANGE.refusal()
    if withscores and by == "BYLEX":
        raise errors.SCORES_WITH_BYLEX.refusal()


def ends(start: bytes, stop: bytes, by: str | None, reverse: bool) -> tuple[Any, Any]:
    """The two words of ZRANGE, read as the options say; the lower end first."""
    if by is None:
        limits = Limits()
        return read_integer(start, limits, "ZRANGE"), read_integer(stop, limits, "ZRANGE")
    read = read_score_bound if by == "BYSCORE" else read_name_bound
    low, high = (stop, start) if reverse else (start, stop)
    return read(low, Limits(), "ZRANGE"), read(high, Limits(), "ZRANGE")


def find(
    members: SortedSet, low: Any, high: Any, by: str | None, reverse: bool, window: Window
) -> Iterator[Item]:
    """What ZRANGE asks for."""
    if by == "BYSCORE":
        return take(members, scores(members, low, high), reverse=reverse, window=window)
    if by == "BYLEX":
        return take(members, names(members, low, high), reverse=reverse, window=window)
    start, stop = ranks(members, low, high)
    if reverse:
        start, stop = len(members) - stop, len(members) - start
    return take(members, (start, stop), reverse=reverse)


BY = one_of("sortby", flag("BYSCORE"), flag("BYLEX"))


def check_zrange(arguments: list[Any]) -> None:
    """Whether the words are what the options say; and what these forbid each other."""
    _, start, stop, by, reverse, window, withscores = arguments
    range_options_agree(by, window, withscores)
    ends(start, stop, by, reverse)


@family.read(
    "ZRANGE",
    key(),
    string("start"),
    string("stop"),
    options(BY, flag("REV"), LIMIT, flag("WITHSCORES")),
    check=check_zrange,
)
def zrange(
    keyspace: Keyspace,
    at: Instant,
    key: bytes,
    start: bytes,
    stop: bytes,
    by: str | None,
    rev: bool,
    window: Window,
    withscores: bool,
) -> Reply:
    """Read members of a sorted set by rank, both ends included, -1 being the last one.

    With BYSCORE the ends are scores, with BYLEX names, as in ZRANGEBYSCORE and ZRANGEBYLEX. REV
    reads from the highest down, and the higher end is then given first, except by rank.
    """
    members = members_of(keyspace, at, key)
    if isinstance(members, Failure):
        return members
    low, high = ends(start, stop, by, rev)
    return told(find(members, low, high, by, rev, window), withscores)


@family.read("ZREVRANGE", key(), integer("start"), integer("stop"), options(flag("WITHSCORES")))
def zrevrange(
    keyspace: Keyspace, at: Instant, key: bytes, start: int, stop: int, withscores: bool
) -> Reply:
    """Read members of a sorted set by rank from the highest score down."""
    members = members_of(keyspace, at, key)
    if isinstance(members, Failure):
        return members
    return told(find(members, start, stop, None, True, None), withscores)


@family.read("ZRANGEBYSCORE", key(), LOW, HIGH, options(flag("WITHSCORES"), LIMIT))
def zrangebyscore(
    keyspace: Keyspace,
    at: Instant,
    key: bytes,
    low: list[Any],
    high: list[Any],
    withscores: bool,
    window: Window,
) -> Reply:
    """Read members by score: both ends included, `(` before one leaves it out; -inf and +inf."""
    members = members_of(keyspace, at, key)
    if isinstance(members, Failure):
        return members
    return told(find(members, low, high, "BYSCORE", False, window), withscores)


@family.read("ZREVRANGEBYSCORE", key(), HIGH, LOW, options(flag("WITHSCORES"), LIMIT))
def zrevrangebyscore(
    keyspace: Keyspace,
    at: Instant,
    key: bytes,
    high: list[Any],
    low: list[Any],
    withscores: bool,
    window: Window,
) -> Reply:
    """Read members by score from the highest down; the higher end is given first."""
    members = members_of(keyspace, at, key)
    if isinstance(members, Failure):
        return members
    return told(find(members, low, high, "BYSCORE", True, window), withscores)


@family.read("ZRANGEBYLEX", key(), LOW_NAME, HIGH_NAME, options(LIMIT))
def zrangebylex(
    keyspace: Keyspace, at: Instant, key: bytes, low: bytes, high: bytes, window: Window
) -> Reply:
    """Read members by name, when all have the same score.

    `[a` begins or ends with a, `(a` leaves it out, `-` and `+` stand for the first and the last.
    """
    members = members_of(keyspace, at, key)
    if isinstance(members, Failure):
        return members
    return told(find(members, low, high, "BYLEX", False, window), False)


@family.read("ZREVRANGEBYLEX", key(), HIGH_NAME, LOW_NAME, options(LIMIT))
def zrevrangebylex(
    keyspace: Keyspace, at: Instant, key: bytes, high: bytes, low: bytes, window: Window
) -> Reply:
    """Read members by name from the last one back; the higher end is given first."""
    members = members_of(keyspace, at, key)
    if isinstance(members, Failure):
        return members
    return told(find(members, low, high, "BYLEX", True, window), False)


# ---- count --------------------------------------------------------------------------------------


@family.read("ZCOUNT", key(), LOW, HIGH)
def zcount(keyspace: Keyspace, at: Instant, key: bytes, low: list[Any], high: list[Any]) -> Reply:
    """Count the members between two scores."""
    members = members_of(keyspace, at, key)
    if isinstance(members, Failure):
        return members
    start, stop = scores(members, low, high)
    return stop - start


@family.read("ZLEXCOUNT", key(), LOW_NAME, HIGH_NAME)
def zlexcount(keyspace: Keyspace, at: Instant, key: bytes, low: bytes, high: bytes) -> Reply:
    """Count the members between two names, when all have the same score."""
    members = members_of(keyspace, at, key)
    if isinstance(members, Failure):
        return members
    start, stop = names(members, low, high)
    return stop - start


# ---- remove and store ---------------------------------------------------------------------------


def _remove(keyspace: Keyspace, key: bytes, members: SortedSet, span: Span) -> int:
    removed = members.remove_slice(*span)
    if removed:
        keyspace.store(key, members, new=False)
    return removed


@family.write("ZREMRANGEBYRANK", key(), integer("start"), integer("stop"))
def zremrangebyrank(keyspace: Keyspace, at: Instant, key: bytes, start: int, stop: int) -> Reply:
    """Remove the members between two ranks; replies how many there were."""
    members = members_of(keyspace, at, key)
    if isinstance(members, Failure):
        return members
    return _remove(keyspace, key, members, ranks(members, start, stop))


@family.write("ZREMRANGEBYSCORE", key(), LOW, HIGH)
def zremrangebyscore(
    keyspace: Keyspace, at: Instant, key: bytes, low: list[Any], high: list[Any]
) -> Reply:
    """Remove the members between two scores; replies how many there were."""
    members = members_of(keyspace, at, key)
    if isinstance(members, Failure):
        return members
    return _remove(keyspace, key, members, scores(members, low, high))


@family.write("ZREMRANGEBYLEX", key(), LOW_NAME, HIGH_NAME)
def zremrangebylex(keyspace: Keyspace, at: Instant, key: bytes, low: bytes, high: bytes) -> Reply:
    """Remove the members between two names, when all have the same score; replies how many."""
    members = members_of(keyspace, at, key)
    if isinstance(members, Failure):
        return members
    return _remove(keyspace, key, members, names(members, low, high))


def check_zrangestore(arguments: list[Any]) -> None:
    """As ZRANGE's."""
    check_zrange([*arguments[1:], False])


@family.write(
    "ZRANGESTORE",
    key("dst"),
    key("src"),
    string("min"),
    string("max"),
    options(BY, flag("REV"), LIMIT),
    check=check_zrangestore,
)
def zrangestore(
    keyspace: Keyspace,
    at: Instant,
    destination: bytes,
    source: bytes,
    start: bytes,
    stop: bytes,
    by: str | None,
    rev: bool,
    window: Window,
) -> Reply:
    """Store what ZRANGE reads, with the scores, under a key; replies how many members that are.

    Whatever the key held is gone, also when there are none.
    """
    members = members_of(keyspace, at, source)
    if isinstance(members, Failure):
        return members
    low, high = ends(start, stop, by, rev)
    found = {member: number for number, member in find(members, low, high, by, rev, window)}
    return put_result(keyspace, at, destination, found)


def put_result(
    keyspace: Keyspace, at: Instant, destination: bytes, found: dict[bytes, float]
) -> int:
    """Store a new sorted set in place of what a key held; without members there is none."""
    if found:
        keyspace.put(destination, SortedSet(found.items()))
    elif keyspace.get(destination, at.now_ms) is not None:
        keyspace.delete(destination)
    return len(found)
