"""What one node has on disk: a SQLite database, its mark and its snapshot files; rows in, rows out.

Knows how to write a batch so that it is durable, and to prove what it reads. What entries are for
and who may append is not known here. After its construction it belongs to the disk thread.

Invariants:

* What was reported as written survives `kill -9` and loss of power (`synchronous=FULL`).
* Entries, term and vote of one turn become durable together or not at all.
* The snapshot's record, the entries that it replaces and what follows them change together: there
  is always an entry of the snapshot's index and term, and none is missing after it.
* Damage is never served: each row carries a CRC-32 of all that is in it, entries have no gaps, and
  what the mark knows of is there. Bytes that SQLite would silently leave out are found (wal.py).
* Whatever was read at the start is made durable before it is used, by copying the write-ahead file
  into the database: an fsync that failed in an earlier life may have left it in memory only.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import struct
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from goblin_raft.consensus.directory import DATABASE, MARK, damaged
from goblin_raft.consensus.errors import StartRefused
from goblin_raft.consensus.mark import Mark, MarkDamaged, MarkFile
from goblin_raft.consensus.snapshots import Snapshot, SnapshotFiles
from goblin_raft.consensus.stock import LogEntry
from goblin_raft.consensus.wal import damage_in_wal

_SCHEMA = (
    "CREATE TABLE entries (idx INTEGER PRIMARY KEY, term INTEGER NOT NULL, crc INTEGER NOT NULL,"
    " command BLOB NOT NULL, clock_ms INTEGER NOT NULL, wall_ms INTEGER NOT NULL)",
    "CREATE TABLE vote (only_row INTEGER PRIMARY KEY CHECK (only_row = 1), term INTEGER NOT NULL,"
    " voted_for TEXT, is_voter INTEGER NOT NULL, row_crc INTEGER NOT NULL)",
    "CREATE TABLE snapshot (only_row INTEGER PRIMARY KEY CHECK (only_row = 1),"
    " idx INTEGER NOT NULL, term INTEGER NOT NULL, size INTEGER NOT NULL, crc INTEGER NOT NULL,"
    " row_crc INTEGER NOT NULL)",
)
_INSERT = "INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?)"
_DISK_CODES = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_READONLY,
}
_NUMBERS = struct.Struct(">qqqq")
Row = tuple[int, int, int, bytes, int, int]

# Pages of 4 KiB that the write-ahead file may hold before SQLite copies them into the database and
# begins it anew: writing over it syncs a third faster than growing it, and the copy stays short.
WAL_PAGES_MAX = 1000
# A node whose disk was full goes on when there is so much room again, lest it step back at once.
ROOM_BYTES = 16 * 1024 * 1024


class Vote(NamedTuple):
    """The current term, whom this node voted for in it, and whether it may vote at all."""

    term: int
    voted_for: str | None
    is_voter: bool


@dataclass(frozen=True, slots=True)
class Batch:
    """All changes of one turn."""

    delete_from: int | None  # rows of this index and above go first; 0: all
    rows: list[Row]
    vote: Vote | None
    last_entry: tuple[int, int]  # index and term, when all this is written
    delete_before: int | None = None  # rows below this index go, a snapshot stands for them
    parts: list[tuple[Snapshot, int, bytes]] = field(default_factory=list)  # received: at, bytes
    snapshot: tuple[Path, Snapshot] | None = None  # a finished draft, and its record


@dataclass(frozen=True, slots=True)
class Contents:
    """All that was found, and proved."""

    entries: list[LogEntry]
    vote: Vote
    snapshot: Snapshot | None
    stored_clock: tuple[int, int] | None  # (cluster time, own wall clock), ms


def row_of(entry: LogEntry, clock_ms: int, wall_ms: int) -> Row:
    """An entry as it is stored."""
    command, index, term = entry
    return (index, term, _entry_crc(index, term, command, clock_ms, wall_ms), command, clock_ms,
            wall_ms)  # fmt: skip


def _entry_crc(index: int, term: int, command: bytes, clock_ms: int, wall_ms: int) -> int:
    return zlib.crc32(command, zlib.crc32(_NUMBERS.pack(index, term, clock_ms, wall_ms)))


def _row_crc(values: tuple[object, ...]) -> int:
    return zlib.crc32(repr(values).encode())


def is_disk_error(error: BaseException) -> bool:
    """Whether the disk failed or is full, as opposed to what is on it being wrong."""
    if isinstance(error, sqlite3.Error):
        return getattr(error, "sqlite_errorcode", 0) & 0xFF in _DISK_CODES
    return isinstance(error, OSError)


class Storage:
    """See the module."""

    def __init__(self, directory: Path, *, is_new: bool) -> None:
        """Open, or create, and prove what is there; StartRefused says why not."""
        self._path = directory / DATABASE
        self._mark_path = directory / MARK
        self.snapshot_files = SnapshotFiles(directory)
        self._mark = Mark(0, 0, 0, None, False, 0)
        self._mark_file: MarkFile | None = None
        self._database: sqlite3.Connection | None = None
        try:
            self.contents = self._open(is_new=is_new)
        except StartRefused:
            self.close()
            raise
        except (OSError, sqlite3.Error) as error:
            self.close()
            msg = f"cannot use {self._path}: {error}; see that the disk takes writes and has room"
            raise StartRefused(msg) from error

    def _open(self, *, is_new: bool) -> Contents:
        if not is_new:
            self._look_before()
        self._mark_file = MarkFile(self._mark_path, is_new=is_new)
        self._database = _connect(self._path, is_new=is_new)
        contents = self._load(is_new=is_new)
        if not is_new:
            self._compare_with_mark(contents)
        busy = self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        if busy:
            raise StartRefused(f"{self._path} is in use by another process")
        self._mark = _mark_of(contents)
        self._mark_file.move(self._mark, sync=True)
        return contents

    def reopen(self) -> Contents:
        """After a failure: let go of everything, open it again, and prove what is there. Raises
        OSError or sqlite3.Error while the disk does not work, StartRefused when it is damaged."""
        self.close()
        free = os.statvfs(self._path.parent)
        if free.f_bavail * free.f_frsize < ROOM_BYTES:
            raise OSError(errno.ENOSPC, f"there are less than {ROOM_BYTES >> 20} MiB free")
        self.contents = self._open(is_new=False)
        return self.contents

    # ---- reading -------------------------------------------------------------------------------

    def _look_before(self) -> None:
        """What SQLite would take for a new file, or for a shorter one."""
        if self._path.stat().st_size == 0:
            raise StartRefused(damaged(str(self._path), "it is empty"))
        wal = self._path.with_name(f"{self._path.name}-wal")
        what = damage_in_wal(wal)
        if what is not None:
            raise StartRefused(damaged(str(wal), what))
        if not self._mark_path.exists():
            raise StartRefused(damaged(str(self._mark_path), "it is missing"))

    def _load(self, *, is_new: bool) -> Contents:
        path = str(self._path)
        assert self._database is not None
        try:
            verdict = self._database.execute("PRAGMA quick_check(1)").fetchone()[0]
            if verdict != "ok":
                raise StartRefused(damaged(path, verdict))
            snapshot = self._read_snapshot_record()
            vote = self._read_vote()
            entries, stored_clock = self._read_entries()
        except (sqlite3.Error, TypeError, ValueError) as error:
            if is_disk_error(error):
                raise
            raise StartRefused(damaged(path, str(error))) from error
        if not entries:
            if not is_new:
                raise StartRefused(damaged(path, "it has no entries"))
            return Contents(entries, vote, snapshot, stored_clock)
        first, last = entries[0][1], entries[-1][1]
        if snapshot is None:
            if first != 1:
                raise StartRefused(damaged(path, f"entries before {first} are missing"))
        elif not first <= snapshot.last_index <= last:
            raise StartRefused(damaged(path, "its entries do not meet its snapshot"))
        elif entries[snapshot.last_index - first][2] != snapshot.last_term:
            raise StartRefused(damaged(path, "its entries are not those of its snapshot"))
        return Contents(entries, vote, snapshot, stored_clock)

    def _read_snapshot_record(self) -> Snapshot | None:
        assert self._database is not None
        row = self._database.execute(
            "SELECT idx, term, size, crc, row_crc FROM snapshot"
        ).fetchone()
        if row is None:
            return None
        if _row_crc(row[:4]) != row[4]:
            raise ValueError("the record of the snapshot does not match its CRC")
        return Snapshot(*row[:4])

    def _read_vote(self) -> Vote:
        assert self._database is not None
        term, voted_for, is_voter, crc = self._database.execute(
            "SELECT term, voted_for, is_voter, row_crc FROM vote"
        ).fetchone()
        if _row_crc((term, voted_for, is_voter)) != crc:
            raise ValueError("term and vote do not match their CRC")
        return Vote(term, voted_for, bool(is_voter))

    def _read_entries(self) -> tuple[list[LogEntry], tuple[int, int] | None]:
        assert self._database is not None
        entries: list[LogEntry] = []
        stored_clock = None
        previous_index = previous_term = 0
        rows = self._database.execute("SELECT * FROM entries ORDER BY idx")
        for index, term, crc, command, clock_ms, wall_ms in rows:
            if (previous_index and index != previous_index + 1) or term < previous_term:
                raise ValueError(f"entry {index} is out of sequence")
            if not isinstance(command, bytes) or crc != _entry_crc(
                index, term, command, clock_ms, wall_ms
            ):
                raise ValueError(f"entry {index} does not match its CRC")
            previous_index, previous_term = index, term
            entries.append((command, index, term))
            if clock_ms:
                stored_clock = (clock_ms, wall_ms)
        return entries, stored_clock

    def _compare_with_mark(self, contents: Contents) -> None:
        assert self._mark_file is not None
        try:
            mark = self._mark_file.read()
        except MarkDamaged as error:
            raise StartRefused(damaged(str(self._mark_path), str(error))) from error
        first = contents.entries[0][1]
        position = mark.last_index - first
        term_at: int | None = mark.last_term  # a snapshot stands for it
        if position >= len(contents.entries):
            term_at = None
        elif position >= 0:
            term_at = contents.entries[position][2]
        missing = mark.missing(_mark_of(contents), term_at)
        if missing is not None:
            raise StartRefused(damaged(str(self._path), missing))

    # ---- writing -------------------------------------------------------------------------------

    def write(self, batch: Batch) -> None:
        """Put a batch on disk; returns when it is durable.

        Raises sqlite3.Error or OSError when the disk is full or fails; nothing of the transaction
        counts then, nor do the files that it speaks of.
        """
        mark = self._mark_after(batch)
        assert self._mark_file is not None
        if batch.delete_from is not None:
            self._mark_file.move(self._mark._replace(last_index=0, last_term=0), sync=True)
        if batch.snapshot is None and not batch.parts and batch.delete_before is None:
            self._write_rows(batch)
        else:
            self._write_all(batch)
        self._mark_file.move(mark)
        self._mark = mark

    def _write_all(self, batch: Batch) -> None:
        files = self.snapshot_files
        # In this order: the first bytes of another snapshot delete all parts that have no name yet.
        if batch.snapshot is not None:
            files.publish(*batch.snapshot)
        for snapshot, offset, data in batch.parts:
            files.write_part(snapshot, offset, data)
        if batch.snapshot or batch.rows or batch.vote or batch.delete_before is not None:
            self._transaction(batch)
        if batch.snapshot is not None:
            files.keep_only(batch.snapshot[1])

    def _write_rows(self, batch: Batch) -> None:
        if batch.delete_from is None and batch.vote is None and len(batch.rows) == 1:
            assert self._database is not None
            self._database.execute(_INSERT, batch.rows[0])  # a statement alone is a transaction
        else:
            self._transaction(batch)

    def _transaction(self, batch: Batch) -> None:
        assert self._database is not None
        execute = self._database.execute
        execute("BEGIN IMMEDIATE")
        try:
            if batch.delete_from == 0:
                execute("DELETE FROM entries")  # without a condition SQLite is quick about it
            elif batch.delete_from is not None:
                execute("DELETE FROM entries WHERE idx >= ?", (batch.delete_from,))
            if batch.delete_before is not None:
                execute("DELETE FROM entries WHERE idx < ?", (batch.delete_before,))
            if batch.rows:
                self._database.executemany(_INSERT, batch.rows)
            if batch.vote is not None:
                row = (batch.vote.term, batch.vote.voted_for, int(batch.vote.is_voter))
                execute("INSERT OR REPLACE INTO vote VALUES (1, ?, ?, ?, ?)", (*row, _row_crc(row)))
            if batch.snapshot is not None:
                record = tuple(batch.snapshot[1])
                execute(
                    "INSERT OR REPLACE INTO snapshot VALUES (1, ?, ?, ?, ?, ?)",
                    (*record, _row_crc(record)),
                )
            execute("COMMIT")
        except BaseException:
            if self._database.in_transaction:
                execute("ROLLBACK")
            raise

    def _mark_after(self, batch: Batch) -> Mark:
        index, term = batch.last_entry
        mark = self._mark._replace(last_index=index, last_term=term)
        if batch.vote is not None:
            mark = mark._replace(**batch.vote._asdict())
        if batch.snapshot is not None:
            mark = mark._replace(snapshot_index=batch.snapshot[1].last_index)
        return mark

    def close(self) -> None:
        """Let go of all files."""
        if self._database is not None:
            self._database.close()
        if self._mark_file is not None:
            self._mark_file.close()
        self._database = self._mark_file = None


def _mark_of(contents: Contents) -> Mark:
    last = contents.entries[-1] if contents.entries else (b"", 0, 0)
    snapshot_index = 0 if contents.snapshot is None else contents.snapshot.last_index
    return Mark(last[1], last[2], *contents.vote, snapshot_index)


def _connect(path: Path, *, is_new: bool) -> sqlite3.Connection:
    try:
        # The disk thread writes, the loop only closes: never both at once.
        database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        # One process a directory: so the index of the write-ahead file need not be shared, in a
        # mapped file that a full disk could take away from under us.
        database.execute("PRAGMA locking_mode=EXCLUSIVE")
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=FULL")
        database.execute(f"PRAGMA wal_autocheckpoint={WAL_PAGES_MAX}")
        if is_new:
            database.execute("BEGIN IMMEDIATE")
            for statement in _SCHEMA:
                database.execute(statement)
            empty = (0, None, 0)
            database.execute("INSERT INTO vote VALUES (1, ?, ?, ?, ?)", (*empty, _row_crc(empty)))
            database.execute("COMMIT")
        return database
    except sqlite3.Error as error:
        if is_disk_error(error):
            raise
        raise StartRefused(damaged(str(path), str(error))) from error
