"""The kinds of value that a key can hold, and their one canonical encoding; keys are unknown here.

A string is plain `bytes`. Hashes and sorted sets are dicts with a name of their own, so that a
type check is an identity test; they are changed by their own methods only, because what makes them
fast to scan and to range over goes with them. The order of their names, oldest first, is a part of
them: it goes through snapshots, so it is the same on every replica.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, TypeAlias, TypeVar

from goblin_raft.key_index import KeyIndex
from goblin_raft.ordered import Ordered

V = TypeVar("V", bound="bytes | float")

# Smaller ones are scanned in one page, as Redis does, and need no index.
UNINDEXED_MAX = 128
# A larger hash or sorted set lies in snapshots in portions of about so many names or bytes.
PORTION_NAMES = 500
PORTION_BYTES = 256 * 1024


class _Collection(dict[bytes, V]):
    """Names and what they hold, with an index of the names when there are many."""

    __slots__ = ("_index",)

    def __init__(self, items: Iterable[tuple[bytes, V]] = ()) -> None:
        super().__init__(items)
        self._index = KeyIndex(self) if len(self) > UNINDEXED_MAX else None

    def _take_from(self, other: _Collection[V]) -> None:
        """Become a copy, faster than name by name."""
        self.update(other)
        self._index = other._index.copy() if other._index is not None else None

    def page(self, cursor: int, count: int) -> tuple[int, list[bytes]]:
        """About so many names from a cursor on, and the next cursor: see KeyIndex."""
        if self._index is None:
            return 0, list(self)
        return self._index.page(cursor, count)

    def near(self, place: int) -> bytes:
        """A name, by a number that may be any below 2**32."""
        if self._index is None:
            return next(islice(self, place % len(self), None))
        return self._index.near(place)

    def _added(self, name: bytes) -> None:
        if self._index is not None:
            self._index.add(name)
        elif len(self) > UNINDEXED_MAX:
            self._index = KeyIndex(self)

    def _removed(self, name: bytes) -> None:
        # It stays an index when names go: a cursor that is out there must go on meaning the same.
        if self._index is not None:
            self._index.remove(name)


class Hash(_Collection[bytes]):
    """Fields and their values."""

    __slots__ = ()

    def copy(self) -> Hash:
        """A hash of its own."""
        other = Hash()
        other._take_from(self)
        return other

    def set(self, field: bytes, value: bytes) -> bool:
        """Set a field; whether it is new."""
        new = field not in self
        self[field] = value
        if new:
            self._added(field)
        return new

    def remove(self, field: bytes) -> bool:
        """Remove a field; whether it was there."""
        if field not in self:
            return False
        del self[field]
        self._removed(field)
        return True


class SortedSet(_Collection[float]):
    """Members and their scores, and the order that these give."""

    __slots__ = ("order",)

    def __init__(self, items: Iterable[tuple[bytes, float]] = ()) -> None:
        super().__init__(items)
        self.order = Ordered((score, member) for member, score in self.items())

    def copy(self) -> SortedSet:
        """A sorted set of its own."""
        other = SortedSet()
        other._take_from(self)
        other.order = self.order.copy()
        return other

    def set(self, member: bytes, score: float) -> None:
        """Set the score of a member, new or not."""
        old = self.get(member)
        if old == score:
            return
        if old is not None:
            self.order.remove((old, member))
        self.order.add((score, member))
        self[member] = score
        if old is None:
            self._added(member)

    def remove(self, member: bytes) -> bool:
        """Remove a member; whether it was there."""
        score = self.pop(member, None)
        if score is None:
            return False
        self.order.remove((score, member))
        self._removed(member)
        return True

    def remove_slice(self, start: int, stop: int) -> int:
        """Remove the members between two positions; how many that was."""
        removed = self.order.remove_slice(start, stop)
        for _, member in removed:
            del self[member]
        if self._index is not None and len(removed) > len(self):
            self._index = KeyIndex(self)
        else:
            for _, member in removed:
                self._removed(member)
        return len(removed)


Value: TypeAlias = "bytes | Hash | SortedSet"
Encoded: TypeAlias = "bytes | list[bytes | float]"

# What TYPE calls each kind, and its number in snapshots, which never changes its meaning.
TYPE_NAMES: dict[type, bytes] = {bytes: b"string", Hash: b"hash", SortedSet: b"zset"}
STRING, HASH, SORTED_SET = 0, 1, 2


def copy_value(value: Value) -> Value:
    """A value of its own, equal to another."""
    if isinstance(value, bytes):
        return value
    return value.copy()


def encode_value(value: Value) -> Iterator[tuple[int, Encoded]]:
    """Kind and content, in portions when it is large; equal for values with an equal history."""
    if isinstance(value, bytes):
        yield STRING, value
        return
    kind = HASH if isinstance(value, Hash) else SORTED_SET
    flat: list[bytes | float] = []
    size = 0
    for name, held in value.items():
        flat += (name, held)
        size += len(name) + (len(held) if isinstance(held, bytes) else 8)
        if len(flat) >= 2 * PORTION_NAMES or size >= PORTION_BYTES:
            yield kind, flat
            flat, size = [], 0
    if flat:
        yield kind, flat


def decode_value(kind: int, content: Encoded, earlier: Value | None = None) -> Value:
    """The inverse; `earlier` is what the portions before this one have given.

    Raises ValueError for a kind that this version does not know.
    """
    if kind == STRING and isinstance(content, bytes) and earlier is None:
        return content
    pairs: Any = zip(content[::2], content[1::2], strict=True)
    kinds: dict[int, type[Hash] | type[SortedSet]] = {HASH: Hash, SORTED_SET: SortedSet}
    if kind in kinds:
        if earlier is None:
            return kinds[kind](pairs)
        if type(earlier) is kinds[kind]:
            for name, held in pairs:
                earlier.set(name, held)
            return earlier
    msg = f"no value has kind {kind}"
    raise ValueError(msg)


def format_score(score: float) -> bytes:
    """A score as Redis 7.0 writes it: as few signs as possible, 17 digits when it needs them."""
    return b"%.17g" % score
