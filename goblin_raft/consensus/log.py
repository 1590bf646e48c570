"""The Raft log, term and vote of one node: a list in memory to read, one SQLite file for keeps.

Speaks pysyncobj's journal interface (the camelCase names). Changes are made in memory and taken
as one `Batch`, which `write` puts on disk in one transaction; nothing is durable before `written`.
Knows nothing of what entries mean, and nothing of who may append.

Invariants:

* What was reported as written survives `kill -9` and loss of power (`synchronous=FULL`).
* Entries, term and vote of one turn become durable together or not at all.
* The snapshot's record, the entries that it replaces and what follows them change together: there
  is always an entry of the snapshot's index and term, and none is missing after it.
* A damaged file is never served: each row carries the CRC-32 of its entry, rows have no gaps.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from goblin_raft.consensus.directory import (
    DATABASE,
    begin_directory,
    check_identity,
    damaged,
    finish_directory,
    lock,
)
from goblin_raft.consensus.errors import StartRefused
from goblin_raft.consensus.snapshots import (
    Snapshot,
    SnapshotDamaged,
    SnapshotFiles,
    read_snapshot,
)
from goblin_raft.consensus.stock import NO_OP, LogEntry

_SCHEMA = (
    "CREATE TABLE entries (idx INTEGER PRIMARY KEY, term INTEGER NOT NULL, crc INTEGER NOT NULL,"
    " command BLOB NOT NULL, clock_ms INTEGER NOT NULL, wall_ms INTEGER NOT NULL)",
    "CREATE TABLE vote (only_row INTEGER PRIMARY KEY CHECK (only_row = 1),"
    " term INTEGER NOT NULL, voted_for TEXT)",
    "INSERT INTO vote VALUES (1, 0, NULL)",
    "CREATE TABLE snapshot (only_row INTEGER PRIMARY KEY CHECK (only_row = 1),"
    " idx INTEGER NOT NULL, term INTEGER NOT NULL, size INTEGER NOT NULL, crc INTEGER NOT NULL)",
)
_INSERT = "INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?)"
_Row = tuple[int, int, int, bytes, int, int]

# Pages of 4 KiB that the write-ahead file may hold before SQLite copies them into the database and
# begins it anew: writing over it syncs a third faster than growing it, and the copy stays short.
WAL_PAGES_MAX = 1000

# Compaction drops so much at a time, beside what a turn writes anyway: no turn takes long for it.
DROP_ENTRIES = 500
DROP_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Batch:
    """All changes of one turn."""

    delete_from: int | None  # rows of this index and above go first; 0: all
    rows: list[_Row]
    vote: tuple[int, str | None] | None
    last_index: int
    delete_before: int | None = None  # rows below this index go, a snapshot stands for them
    parts: list[tuple[Snapshot, int, bytes]] = field(default_factory=list)  # received: at, bytes
    snapshot: tuple[Path, Snapshot] | None = None  # a finished draft, and its record


class Log:
    """See the module. Everything but `write` belongs to the event loop's thread."""

    def __init__(self, directory: Path, *, node_id: str, cluster_name: str) -> None:
        """Open, or create, what lies in `directory`; StartRefused says why not."""
        self._path = directory / DATABASE
        self._lock_file = lock(directory)
        try:
            is_new = check_identity(directory, node_id=node_id, cluster_name=cluster_name)
            if is_new:
                begin_directory(directory, node_id=node_id, cluster_name=cluster_name)
            self._database = _connect(directory / DATABASE, is_new=is_new)
            self._entries: list[LogEntry] = []
            self._bytes = 0
            self._vote: tuple[int, str | None] = (0, None)
            self.stored_clock: tuple[int, int] | None = None  # (cluster time, own wall clock), ms
            self.snapshot: Snapshot | None = None
            self.snapshot_files = SnapshotFiles(directory)
            self._load(is_new=is_new)
            self.snapshot_files.drop_stale(self.snapshot)
        except StartRefused:
            self._lock_file.close()
            raise
        self.durable_index = self._entries[-1][1] if self._entries else 0
        self._first_changed: int | None = None
        self._vote_changed = False
        self._compact_to = 0
        self._parts: list[tuple[Snapshot, int, bytes]] = []
        self._publish: tuple[Path, Snapshot] | None = None
        if not self._entries:
            self.add(NO_OP, 1, 0)  # the entry that every pysyncobj log begins with
            batch = self.take(clock_ms=0, wall_ms=0)
            assert batch is not None
            self.write(batch)
            self.written(batch)
            finish_directory(directory)

    def _load(self, *, is_new: bool) -> None:
        path = str(self._path)
        try:
            record = self._database.execute("SELECT idx, term, size, crc FROM snapshot").fetchone()
            self.snapshot = None if record is None else Snapshot(*record)
            term, voted_for = self._database.execute("SELECT term, voted_for FROM vote").fetchone()
            self._vote = (term, voted_for)
            self._load_entries(path)
        except (sqlite3.Error, TypeError, ValueError) as error:
            raise StartRefused(damaged(path, str(error))) from error
        if not self._entries:
            if not is_new:
                raise StartRefused(damaged(path, "it has no entries"))
            return
        first, last = self._entries[0][1], self._entries[-1][1]
        if self.snapshot is None:
            if first != 1:
                raise StartRefused(damaged(path, f"entries before {first} are missing"))
        elif not first <= self.snapshot.last_index <= last:
            raise StartRefused(damaged(path, "its entries do not meet its snapshot"))
        elif self._entries[self.snapshot.last_index - first][2] != self.snapshot.last_term:
            raise StartRefused(damaged(path, "its entries are not those of its snapshot"))

    def _load_entries(self, path: str) -> None:
        previous_index = previous_term = 0
        rows = self._database.execute("SELECT * FROM entries ORDER BY idx")
        for index, term, crc, command, clock_ms, wall_ms in rows:
            if (previous_index and index != previous_index + 1) or term < previous_term:
                raise StartRefused(damaged(path, f"entry {index} is out of sequence"))
            if not isinstance(command, bytes) or zlib.crc32(command) != crc:
                raise StartRefused(damaged(path, f"entry {index} does not match its CRC"))
            previous_index, previous_term = index, term
            self._entries.append((command, index, term))
            self._bytes += len(command)
            if clock_ms:
                self.stored_clock = (clock_ms, wall_ms)

    def snapshot_blocks(self) -> Iterator[bytes]:
        """The state that the snapshot holds, verified; StartRefused when it is not whole."""
        assert self.snapshot is not None
        path = self.snapshot_files.path(*self.snapshot.last_entry)
        try:
            yield from read_snapshot(path, self.snapshot)
        except SnapshotDamaged as error:
            raise StartRefused(damaged(str(path), str(error))) from error

    # ---- pysyncobj's journal interface --------------------------------------------------------

    def add(self, command: bytes, idx: int, term: int) -> None:
        """Append one entry, in memory."""
        self._changed(idx)
        self._entries.append((command, idx, term))
        self._bytes += len(command)

    def deleteEntriesFrom(self, entryFrom: int) -> None:
        """Drop the entries from this *position* on, in memory."""
        self._changed(self._entries[entryFrom][1])
        self._bytes -= sum(len(entry[0]) for entry in self._entries[entryFrom:])
        del self._entries[entryFrom:]

    def __getitem__(self, item: Any) -> Any:
        return self._entries[item]

    def __len__(self) -> int:
        return len(self._entries)

    def setCurrentTerm(self, term: int, votedForNodeId: str | None) -> None:
        """Term and vote, in memory until the turn's batch is written."""
        self._vote = (term, votedForNodeId)
        self._vote_changed = True

    def getCurrentTerm(self) -> int:
        """The last term seen."""
        return self._vote[0]

    def getVotedForNodeId(self) -> str | None:
        """Whom this node voted for in that term."""
        return self._vote[1]

    def getRaftCommitIndex(self) -> int:
        """Not stored (D9): the first index, which is always committed."""
        return self._entries[0][1]

    def setRaftCommitIndex(self, raftCommitIndex: int) -> None:
        """Not stored; see getRaftCommitIndex."""

    def onOneSecondTimer(self) -> None:
        """pysyncobj's own journal writes its term and vote once a second; ours never waits."""

    def _destroy(self) -> None:
        self.close()

    # ---- snapshots ----------------------------------------------------------------------------

    def publish(self, draft: Path, snapshot: Snapshot) -> None:
        """A snapshot of this node's own is complete: it counts from the next batch on, unless the
        leader has sent a newer one meanwhile."""
        if snapshot.last_index >= self.newest_snapshot_index:
            self._publish = (draft, snapshot)

    def install(self, snapshot: Snapshot) -> None:
        """A snapshot received in whole takes the place of the entries up to it (Raft, section 7);
        those after it stay if they continue it, for the leader to check like any others."""
        position = snapshot.last_index - self._entries[0][1]
        is_ours = 0 <= position < len(self._entries)
        if not is_ours or self._entries[position][2] != snapshot.last_term:
            self._entries = [(NO_OP, snapshot.last_index, snapshot.last_term)]
            self._bytes = len(NO_OP)
            self._first_changed = 0
        self._publish = (self.snapshot_files.part_path(snapshot), snapshot)

    def receive_part(self, snapshot: Snapshot, offset: int, data: bytes) -> None:
        """Bytes of a snapshot, to be written with the next batch."""
        self._parts.append((snapshot, offset, data))

    def compact(self, keep_from: int) -> None:
        """Drop the entries before this index, bit by bit. Only the snapshot's index and what
        follows it is needed."""
        if self.snapshot is not None:
            self._compact_to = max(self._compact_to, min(keep_from, self.snapshot.last_index))

    @property
    def newest_snapshot_index(self) -> int:
        """The last index that a snapshot includes, be it durable or in the next batch; else 0."""
        if self._publish is not None:
            return self._publish[1].last_index
        return 0 if self.snapshot is None else self.snapshot.last_index

    @property
    def is_compacting(self) -> bool:
        """Whether there is more to drop."""
        return self._compact_to > self._entries[0][1]

    def _drop_some(self) -> int | None:
        """The first index that is left, if any entries were dropped."""
        count = dropped = 0
        for command, index, _ in self._entries:
            if index >= self._compact_to or count >= DROP_ENTRIES or dropped >= DROP_BYTES:
                break
            count += 1
            dropped += len(command)
        if not count:
            return None
        del self._entries[:count]
        self._bytes -= dropped
        return self._entries[0][1]

    # ---- durability ---------------------------------------------------------------------------

    @property
    def bytes(self) -> int:
        """The size of all entries together."""
        return self._bytes

    def disk_bytes(self) -> int:
        """What this node's files take on disk."""
        database = self._path  # not asked of SQLite, which the disk thread may be using
        total = self.snapshot_files.bytes()
        for suffix in ("", "-wal", "-shm"):
            path = database.with_name(database.name + suffix)
            total += path.stat().st_size if path.exists() else 0
        return total

    def _changed(self, index: int) -> None:
        if self._first_changed is None or index < self._first_changed:
            self._first_changed = index

    def take(self, *, clock_ms: int, wall_ms: int) -> Batch | None:
        """The changes since the last call, or None. `clock_ms` and `wall_ms` lie beside the
        entries, for a start without a leader (clock.py)."""
        delete_before = self._drop_some()
        if (
            self._first_changed is None
            and delete_before is None
            and not (self._vote_changed or self._parts or self._publish)
        ):
            return None
        rows: list[_Row] = []
        delete_from = None
        if self._first_changed is not None:
            if self._first_changed <= self.durable_index:
                delete_from = self._first_changed
                self.durable_index = max(0, self._first_changed - 1)
            position = max(0, self._first_changed - self._entries[0][1])
            rows = [
                (index, term, zlib.crc32(command), command, clock_ms, wall_ms)
                for command, index, term in self._entries[position:]
            ]
        batch = Batch(
            delete_from,
            rows,
            self._vote if self._vote_changed else None,
            self._entries[-1][1],
            delete_before,
            self._parts,
            self._publish,
        )
        self._first_changed = None
        self._vote_changed = False
        self._parts = []
        self._publish = None
        return batch

    def write(self, batch: Batch) -> None:
        """Put a batch on disk; returns when it is durable. For the disk thread.

        Raises sqlite3.Error or OSError when the disk is full or fails; nothing of the transaction
        is then on disk, and the files that it speaks of do not count.
        """
        if batch.snapshot is None and not batch.parts and batch.delete_before is None:
            self._write_rows(batch)
            return
        files = self.snapshot_files
        for snapshot, offset, data in batch.parts:
            files.write_part(snapshot, offset, data)
        if batch.snapshot is not None:
            files.publish(*batch.snapshot)
        if batch.snapshot or batch.rows or batch.vote or batch.delete_before is not None:
            self._transaction(batch)
        if batch.snapshot is not None:
            files.keep_only(batch.snapshot[1])

    def _write_rows(self, batch: Batch) -> None:
        if batch.delete_from is None and batch.vote is None and len(batch.rows) == 1:
            self._database.execute(_INSERT, batch.rows[0])  # a statement alone is a transaction
        else:
            self._transaction(batch)

    def _transaction(self, batch: Batch) -> None:
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
                execute("UPDATE vote SET term = ?, voted_for = ?", batch.vote)
            if batch.snapshot is not None:
                execute("INSERT OR REPLACE INTO snapshot VALUES (1, ?, ?, ?, ?)", batch.snapshot[1])
            execute("COMMIT")
        except BaseException:
            if self._database.in_transaction:
                execute("ROLLBACK")
            raise

    def written(self, batch: Batch) -> None:
        """Back on the event loop: the batch is durable."""
        self.durable_index = batch.last_index
        if batch.snapshot is not None:
            self.snapshot = batch.snapshot[1]

    def close(self) -> None:
        """Close the file and let go of the directory."""
        self._database.close()
        self._lock_file.close()


def _connect(path: Path, *, is_new: bool) -> sqlite3.Connection:
    if not is_new and path.stat().st_size == 0:  # SQLite would take it for a new one
        raise StartRefused(damaged(str(path), "it is empty"))
    try:
        # The disk thread writes, the loop only closes: never both at once.
        database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=FULL")
        database.execute(f"PRAGMA wal_autocheckpoint={WAL_PAGES_MAX}")
        if is_new:
            database.execute("BEGIN IMMEDIATE")
            for statement in _SCHEMA:
                database.execute(statement)
            database.execute("COMMIT")
        return database
    except sqlite3.Error as error:
        raise StartRefused(damaged(str(path), str(error))) from error
