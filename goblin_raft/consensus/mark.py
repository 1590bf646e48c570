"""The mark of a directory: what its database must at least hold; it knows nothing of the database.

SQLite takes a write-ahead file whose checksums stop to fit for one that ends there, so damage can
look like entries that never were. The mark is the second witness: a file of its own, rewritten in
place after each transaction.

Invariants:

* The mark never claims more than what is durable: it moves up after the transaction that it speaks
  of is on disk. Before entries are deleted it moves down, and is synced.
* It is not synced when it moves up. After `kill -9` it is exact all the same; after a loss of power
  it may be some seconds old, and then it proves less.
"""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path
from typing import NamedTuple

# Index and term of the last entry; term, vote and membership; the snapshot's index; CRC-32. Less
# than a sector, so that no loss of power leaves half of it.
_RECORD = struct.Struct(">QQQ65p?Q")
_CRC = struct.Struct(">I")


class MarkDamaged(Exception):
    """The file is not as it was written."""


class Mark(NamedTuple):
    """What is certainly on disk."""

    last_index: int  # 0: nothing is said about entries
    last_term: int
    term: int
    voted_for: str | None
    is_voter: bool
    snapshot_index: int

    def missing(self, found: Mark, term_at: int | None) -> str | None:
        """What a database lacks that this mark knows of, or None. `found` is what it holds,
        `term_at` the term of its entry at `last_index`, if it has one or had it once."""
        if found.last_index < self.last_index or (self.last_index and term_at != self.last_term):
            return f"it ends at entry {found.last_index}, and held {self.last_index} before"
        if (found.term, found.voted_for is not None) < (self.term, self.voted_for is not None):
            return f"it has forgotten term {self.term}, or whom it voted for in it"
        if found.term == self.term and self.voted_for not in (None, found.voted_for):
            return f"its vote in term {self.term} is another"
        if self.is_voter and not found.is_voter:
            return "it has forgotten that this node may vote"
        if found.snapshot_index < self.snapshot_index:
            return f"its snapshot is older than the one at {self.snapshot_index} that it had"
        return None


class MarkFile:
    """The file, held open. `move` is for whoever writes the database."""

    def __init__(self, path: Path, *, is_new: bool) -> None:
        flags = os.O_CREAT | os.O_TRUNC if is_new else 0
        self._descriptor = os.open(path, os.O_RDWR | flags, 0o644)

    def read(self) -> Mark:
        """What it says; MarkDamaged."""
        data = os.pread(self._descriptor, 4096, 0)
        body, crc = data[: _RECORD.size], data[_RECORD.size :]
        if crc != _CRC.pack(zlib.crc32(body)):
            raise MarkDamaged("it does not match its CRC")
        index, last_term, term, voted_for, is_voter, snapshot_index = _RECORD.unpack(body)
        return Mark(index, last_term, term, voted_for.decode() or None, is_voter, snapshot_index)

    def move(self, mark: Mark, *, sync: bool = False) -> None:
        """Write it anew; with `sync` it is on disk when this returns."""
        *numbers, voted_for, is_voter, snapshot_index = mark
        body = _RECORD.pack(*numbers, (voted_for or "").encode(), is_voter, snapshot_index)
        os.pwrite(self._descriptor, body + _CRC.pack(zlib.crc32(body)), 0)
        if sync:
            os.fsync(self._descriptor)

    def close(self) -> None:
        """Let go of it."""
        os.close(self._descriptor)
