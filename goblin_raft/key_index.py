"""Names in an order that every replica shares and that stays as names come and go; for SCAN.

The order is that of a hash of the name, so a cursor is a hash, has no owner, and means the same on
every node, whatever happened there: all names at or after it are still to come. A name that stays
keeps its place, so a scan from 0 to 0 returns it, exactly once. What the names stand for is not
known here.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from zlib import crc32

# A leaf that holds more is split: small enough to be sorted for one page of a scan, large enough
# that the row of leaves stays short.
LEAF_NAMES_MAX = 512
HASHES = 1 << 32
# A page has no more names than this and those that share the last one's hash, whatever is asked
# for: nothing else runs on the node meanwhile.
PAGE_NAMES_MAX = 10_000


class KeyIndex:
    """Leaves in order of hash, each a set of the names whose hashes lie in its range.

    Invariant: leaf i holds exactly the names with starts[i] <= hash < starts[i + 1]; no leaf is
    empty but the only one. Names that share one hash cannot be split: whoever makes such names
    gets longer pages.
    """

    __slots__ = ("_leaves", "_starts")

    def __init__(self, names: Iterable[bytes] = ()) -> None:
        self.clear()
        for name in names:
            self.add(name)

    def copy(self) -> KeyIndex:
        """An index of its own, with the same names."""
        other = KeyIndex()
        other._starts = self._starts.copy()
        other._leaves = [leaf.copy() for leaf in self._leaves]
        return other

    def clear(self) -> None:
        """Remove all."""
        self._starts = [0]
        self._leaves: list[set[bytes]] = [set()]

    def add(self, name: bytes) -> None:
        """Take a name that is not there."""
        at = bisect_right(self._starts, crc32(name)) - 1
        leaf = self._leaves[at]
        leaf.add(name)
        if len(leaf) > LEAF_NAMES_MAX:
            self._split(at)

    def remove(self, name: bytes) -> None:
        """Remove a name that is there."""
        at = bisect_right(self._starts, crc32(name)) - 1
        leaf = self._leaves[at]
        leaf.remove(name)
        if not leaf and len(self._leaves) > 1:
            del self._leaves[at]
            # Its range goes to the leaf before it; that of the first one to the one after it.
            del self._starts[at or 1]

    def page(self, cursor: int, count: int) -> tuple[int, list[bytes]]:
        """About `count` names from the cursor on, and the next cursor; 0 when that was all."""
        count = min(count, PAGE_NAMES_MAX)
        starts, leaves = self._starts, self._leaves
        found: list[bytes] = []
        last = -1
        at = bisect_right(starts, cursor) - 1
        while at < len(leaves):
            for number, name in sorted([(crc32(name), name) for name in leaves[at]]):
                if number >= cursor:
                    if len(found) >= count and number != last:
                        return number, found
                    found.append(name)
                    last = number
            at += 1
        return 0, found

    def near(self, place: int) -> bytes:
        """The first name at or after a hash, or the first of all; there must be one."""
        _, names = self.page(place, 1)
        if not names:
            _, names = self.page(0, 1)
        return names[0]

    def _split(self, at: int) -> None:
        """In the middle of the leaf's range, so that nobody's history has a say in it."""
        start = self._starts[at]
        end = self._starts[at + 1] if at + 1 < len(self._starts) else HASHES
        leaf = self._leaves[at]
        while end - start > 1:
            middle = (start + end) // 2
            upper = {name for name in leaf if crc32(name) >= middle}
            if not upper:
                end = middle
            elif len(upper) == len(leaf):
                start = middle
            else:
                leaf -= upper
                self._leaves.insert(at + 1, upper)
                self._starts.insert(at + 1, middle)
                return
