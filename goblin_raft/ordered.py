"""A sorted row of (score, member) that can be asked for positions; for sorted sets.

What is asked for is a bound: a tuple that compares with the items. (score,) lies before all members
of that score, (score, AFTER) after them. What scores and members mean is not known here.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

Item: TypeAlias = "tuple[float, bytes]"
Bound: TypeAlias = "tuple[Any, ...]"

# Items are kept in pieces, so that an insertion moves at most one piece, and pieces are counted
# instead of items.
PIECE_ITEMS_MAX = 1024


class _After:
    """Greater than everything that it is compared with."""

    def __lt__(self, other: object) -> bool:
        return False

    def __gt__(self, other: object) -> bool:
        return True


AFTER = _After()


class Ordered:
    """Invariant: the pieces are sorted, follow each other, and none is empty but the only one."""

    __slots__ = ("_pieces",)

    def __init__(self, items: Iterable[Item] = ()) -> None:
        row = sorted(items)
        half = PIECE_ITEMS_MAX // 2
        self._pieces = [row[at : at + half] for at in range(0, len(row), half)] or [[]]

    def copy(self) -> Ordered:
        """A row of its own, with the same items."""
        other = Ordered()
        other._pieces = [piece.copy() for piece in self._pieces]
        return other

    def __len__(self) -> int:
        return sum(map(len, self._pieces))

    def add(self, item: Item) -> None:
        """Take an item that is not there."""
        pieces = self._pieces
        at = self._piece_of(item)
        piece = pieces[at]
        insort(piece, item)
        if len(piece) > PIECE_ITEMS_MAX:
            half = len(piece) // 2
            pieces.insert(at + 1, piece[half:])
            del piece[half:]

    def remove(self, item: Item) -> None:
        """Remove an item that is there."""
        at = self._piece_of(item)
        piece = self._pieces[at]
        place = bisect_left(piece, item)
        assert piece[place] == item
        del piece[place]
        if not piece and len(self._pieces) > 1:
            del self._pieces[at]

    def position(self, bound: Bound) -> int:
        """How many items are less than a bound."""
        at = self._piece_of(bound)
        return sum(map(len, self._pieces[:at])) + bisect_left(self._pieces[at], bound)

    def slice(self, start: int, stop: int) -> Iterator[Item]:
        """The items from one position up to another."""
        for piece in self._pieces:
            if stop <= 0:
                return
            size = len(piece)
            if start < size:
                yield from piece[max(0, start) : stop]
            start -= size
            stop -= size

    def slice_back(self, start: int, stop: int) -> Iterator[Item]:
        """The same, the last one first."""
        before = len(self)
        for piece in reversed(self._pieces):
            before -= len(piece)
            if before + len(piece) <= start:
                return
            if before < stop:
                yield from reversed(piece[max(0, start - before) : stop - before])

    def remove_slice(self, start: int, stop: int) -> list[Item]:
        """Remove the items between two positions, and give them."""
        removed: list[Item] = []
        kept: list[list[Item]] = []
        for piece in self._pieces:
            size = len(piece)
            if start < size and stop > 0:
                low = max(0, start)
                removed += piece[low:stop]
                del piece[low:stop]
            if piece:
                kept.append(piece)
            start -= size
            stop -= size
        self._pieces = kept or [[]]
        return removed

    def _piece_of(self, bound: Bound) -> int:
        """The first piece that has an item not less than the bound, else the last one."""
        pieces = self._pieces
        low, high = 0, len(pieces) - 1
        while low < high:
            middle = (low + high) // 2
            if pieces[middle][-1] < bound:
                low = middle + 1
            else:
                high = middle
        return low
