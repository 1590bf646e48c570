"""Snapshot files of one node: written, verified, received piece by piece; no state, no messages.

    file    one block after the other: length, CRC-32 (4 bytes each, big endian), bytes

Which file counts is said by the snapshot record in the log's database (log.py), with the file's
size and the CRC-32 of all its bytes. Everything else in the directory that looks like a snapshot is
a draft: half written, half received, or no longer needed.

Invariants:

* A file gets its final name only when all its bytes are on disk, and is never changed after that.
* What is read is proved: each block by its CRC, the whole by the record.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

BLOCK = struct.Struct(">II")
# A block's length comes from a file that may be damaged: more than this is damage for sure.
BLOCK_BYTES_MAX = 1 << 30
READ_BYTES = 1 << 20


class SnapshotDamaged(Exception):
    """The bytes of a snapshot are not those that were written."""


class Snapshot(NamedTuple):
    """A snapshot's record: the last entry that its state includes, and the bytes that hold it."""

    last_index: int
    last_term: int
    size: int
    crc: int

    @property
    def last_entry(self) -> tuple[int, int]:
        """Index and term of the last entry that it includes."""
        return self.last_index, self.last_term


class SnapshotFiles:
    """The files of one directory. Only `write_part` and `publish` are for the disk thread."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def path(self, index: int, term: int) -> Path:
        """Where the snapshot of this entry lies when it is published."""
        return self.directory / f"snapshot-{index}-{term}"

    def draft_path(self, index: int, term: int) -> Path:
        """Where this node writes its own snapshot."""
        return self.directory / f"snapshot-{index}-{term}.draft"

    def part_path(self, snapshot: Snapshot) -> Path:
        """Where a snapshot from the leader grows; its name says which one, so that it can go on
        after a lost connection, or a restart of either side."""
        index, term, size, crc = snapshot
        return self.directory / f"snapshot-{index}-{term}-{size}-{crc}.part"

    def received(self, snapshot: Snapshot) -> int:
        """How many bytes of it are there already."""
        try:
            return min(self.part_path(snapshot).stat().st_size, snapshot.size)
        except FileNotFoundError:
            return 0

    def write_part(self, snapshot: Snapshot, offset: int, data: bytes) -> None:
        """Add received bytes; what lies beyond them goes. The last ones make the file durable.
        A new part takes the place of all others: there is one leader to receive from."""
        if offset == 0:
            for path in self.directory.glob("snapshot-*.part"):
                path.unlink(missing_ok=True)
        descriptor = os.open(self.part_path(snapshot), os.O_RDWR | os.O_CREAT, 0o644)
        try:
            os.truncate(descriptor, offset)
            os.lseek(descriptor, offset, os.SEEK_SET)
            write_all(descriptor, data)
            if offset + len(data) == snapshot.size:
                self._sync_part(descriptor, snapshot)
        finally:
            os.close(descriptor)

    def _sync_part(self, descriptor: int, snapshot: Snapshot) -> None:
        try:
            os.fsync(descriptor)
        except OSError:
            # Any of its bytes may be lost, and a second fsync would not say so: from the beginning.
            self.part_path(snapshot).unlink(missing_ok=True)
            raise

    def publish(self, draft: Path, snapshot: Snapshot) -> None:
        """Give a finished draft its final name. A repetition changes nothing."""
        final = self.path(*snapshot.last_entry)
        if draft.exists():
            draft.rename(final)
        elif not final.exists():
            raise FileNotFoundError(draft)
        sync_directory(self.directory)

    def keep_only(self, snapshot: Snapshot) -> None:
        """Delete all that is not newer than this snapshot, and not the snapshot itself."""
        final = self.path(*snapshot.last_entry)
        for path in self.directory.glob("snapshot-*"):
            if path != final and int(path.name.split("-")[1]) <= snapshot.last_index:
                path.unlink(missing_ok=True)

    def drop_stale(self, snapshot: Snapshot | None) -> None:
        """At the start: delete what no record names, but keep what was received so far."""
        for path in self.directory.glob("snapshot-*"):
            is_named = snapshot and path == self.path(*snapshot.last_entry)
            if not is_named and path.suffix != ".part":
                path.unlink(missing_ok=True)

    def bytes(self) -> int:
        """What all of them take on disk."""
        total = 0
        for path in self.directory.glob("snapshot-*"):
            try:
                total += path.stat().st_size
            except FileNotFoundError:  # deleted meanwhile, by the disk thread
                continue
        return total


def write_snapshot(path: Path, blocks: Iterable[bytes]) -> tuple[int, int]:
    """Write the blocks and make them durable; gives size and CRC-32 of the file."""
    size = crc = 0
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        for block in blocks:
            data = BLOCK.pack(len(block), zlib.crc32(block)) + block
            write_all(descriptor, data)
            size += len(data)
            crc = zlib.crc32(data, crc)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return size, crc


def read_snapshot(path: Path, snapshot: Snapshot) -> Iterator[bytes]:
    """The blocks of a file, one by one; SnapshotDamaged as soon as something is not as written.

    Only a reader that got to the end without an error knows that all of it was right.
    """
    size = crc = 0
    try:
        with open(path, "rb", buffering=READ_BYTES) as file:
            while head := file.read(BLOCK.size):
                if len(head) < BLOCK.size:
                    raise SnapshotDamaged("it ends in the middle of a block")
                length, block_crc = BLOCK.unpack(head)
                if length > min(BLOCK_BYTES_MAX, snapshot.size):
                    raise SnapshotDamaged(f"a block of {length} bytes at {size}")
                block = file.read(length)
                if len(block) != length or zlib.crc32(block) != block_crc:
                    raise SnapshotDamaged(f"the block at {size} does not match its CRC")
                crc = zlib.crc32(block, zlib.crc32(head, crc))
                size += BLOCK.size + length
                yield block
    except OSError as error:
        raise SnapshotDamaged(str(error.strerror or error)) from error
    if (size, crc) != (snapshot.size, snapshot.crc):
        raise SnapshotDamaged("size or CRC are not those of its record")


def write_all(descriptor: int, data: bytes) -> None:
    """os.write until all is written."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def sync_directory(directory: Path) -> None:
    """Make names in a directory durable."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
