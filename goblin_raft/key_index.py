"""Names in an order that every replica shares and that stays as names come and go; for SCAN.

The order is that of a hash of the name, so a cursor is a hash, has no owner, and means the same on
every node, whatever happened there: all names at or after it are still to come. A name that stays
keeps its place, so a scan from 0 to 0 returns it, exactly once. What the names stand for is not
known here.
"""

from __future__ import annotations

from collections.abc import Iterable
from zlib import crc32

HASHES = 1 << 32
# A bucket is a range of hashes, and is sorted for each page of a scan: 250 names of a million.
# Buckets are found by a shift, since every claim pays for its place here.
BUCKETS = 1 << 12
BUCKET_OF_HASH = 20  # a shift: 12 bits of 32 are left
# A page has no more names than this and those that share the last one's hash, whatever is asked
# for: nothing else runs on the node meanwhile.
PAGE_NAMES_MAX = 10_000


class KeyIndex:
    """Buckets of names by the upper bits of their hash; none is empty.

    Names that share one hash are in one page: whoever makes such names gets longer pages.
    """

    __slots__ = ("_buckets",)

    def __init__(self, names: Iterable[bytes] = ()) -> None:
        self._buckets: dict[int, set[bytes]] = {}
        for name in names:
            self.add(name)

    def copy(self) -> KeyIndex:
        """An index of its own, with the same names."""
        other = KeyIndex()
        other._buckets = {at: names.copy() for at, names in self._buckets.items()}
        return other

    def clear(self) -> None:
        """Remove all."""
        self._buckets.clear()

    def add(self, name: bytes) -> None:
        """Take a name that is not there."""
        at = crc32(name) >> BUCKET_OF_HASH
        bucket = self._buckets.get(at)
        if bucket is None:
            self._buckets[at] = {name}
        else:
            bucket.add(name)

    def remove(self, name: bytes) -> None:
        """Remove a name that is there."""
        at = crc32(name) >> BUCKET_OF_HASH
        bucket = self._buckets[at]
        bucket.remove(name)
        if not bucket:
            del self._buckets[at]

    def page(self, cursor: int, count: int) -> tuple[int, list[bytes]]:
        """About `count` names from the cursor on, and the next cursor; 0 when that was all."""
        count = min(count, PAGE_NAMES_MAX)
        found: list[bytes] = []
        last = -1
        for at in self._filled(cursor >> BUCKET_OF_HASH):
            for number, name in sorted([(crc32(name), name) for name in self._buckets[at]]):
                if number >= cursor:
                    if len(found) >= count and number != last:
                        return number, found
                    found.append(name)
                    last = number
        return 0, found

    def _filled(self, first: int) -> Iterable[int]:
        """The buckets that there are, from this one on, in order."""
        buckets = self._buckets
        if len(buckets) < BUCKETS // 4:
            return sorted(at for at in buckets if at >= first)
        return (at for at in range(first, BUCKETS) if at in buckets)

    def near(self, place: int) -> bytes:
        """The first name at or after a hash, or the first of all; there must be one."""
        _, names = self.page(place, 1)
        if not names:
            _, names = self.page(0, 1)
        return names[0]
