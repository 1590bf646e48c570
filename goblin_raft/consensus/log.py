"""The Raft log, term and vote of one node: a list in memory to read, one SQLite file for keeps.

Speaks pysyncobj's journal interface (the camelCase names). Changes are made in memory and taken
as one `Batch`, which `write` puts on disk in one transaction; nothing is durable before `written`.
Knows nothing of what entries mean, and nothing of who may append.

Invariants:

* What was reported as written survives `kill -9` and loss of power (`synchronous=FULL`).
* Entries, term and vote of one turn become durable together or not at all.
* A directory serves one node of one cluster, and one process at a time.
* A damaged file is never served: each row carries the CRC-32 of its entry, rows have no gaps.
"""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goblin_raft.consensus.errors import StartRefused
from goblin_raft.consensus.stock import NO_OP, LogEntry

FORMAT_VERSION = 1
DATABASE = "raft.db"
IDENTITY = "identity.json"
IDENTITY_DRAFT = "identity.draft"
LOCK = "lock"

_SCHEMA = (
    "CREATE TABLE entries (idx INTEGER PRIMARY KEY, term INTEGER NOT NULL, crc INTEGER NOT NULL,"
    " command BLOB NOT NULL, clock_ms INTEGER NOT NULL, wall_ms INTEGER NOT NULL)",
    "CREATE TABLE vote (only_row INTEGER PRIMARY KEY CHECK (only_row = 1),"
    " term INTEGER NOT NULL, voted_for TEXT)",
    "INSERT INTO vote VALUES (1, 0, NULL)",
)
_INSERT = "INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?)"
_Row = tuple[int, int, int, bytes, int, int]

# Pages of 4 KiB that the write-ahead file may hold before SQLite copies them into the database and
# begins it anew: writing over it syncs a third faster than growing it, and the copy stays short.
WAL_PAGES_MAX = 1000


@dataclass(frozen=True, slots=True)
class Batch:
    """All changes of one turn."""

    delete_from: int | None  # rows of this index and above go first
    rows: list[_Row]
    vote: tuple[int, str | None] | None
    last_index: int


class Log:
    """See the module. Everything but `write` belongs to the event loop's thread."""

    def __init__(self, directory: Path, *, node_id: str, cluster_name: str) -> None:
        """Open, or create, what lies in `directory`; StartRefused says why not."""
        self._lock_file = _lock(directory)
        try:
            is_new = _check_identity(directory, node_id=node_id, cluster_name=cluster_name)
            if is_new:
                _begin_directory(directory, node_id=node_id, cluster_name=cluster_name)
            self._database = _connect(directory / DATABASE, is_new=is_new)
            self._entries: list[LogEntry] = []
            self._bytes = 0
            self._vote: tuple[int, str | None] = (0, None)
            self.stored_clock: tuple[int, int] | None = None  # (cluster time, own wall clock), ms
            self._load(is_new=is_new)
        except StartRefused:
            self._lock_file.close()
            raise
        self.durable_index = self._entries[-1][1] if self._entries else 0
        self._first_changed: int | None = None
        self._vote_changed = False
        if not self._entries:
            self.add(NO_OP, 1, 0)  # the entry that every pysyncobj log begins with
            batch = self.take(clock_ms=0, wall_ms=0)
            assert batch is not None
            self.write(batch)
            self.written(batch)
            _finish_directory(directory)

    def _load(self, *, is_new: bool) -> None:
        path = self._database_path
        previous_index, previous_term = 0, 0
        try:
            rows = self._database.execute("SELECT * FROM entries ORDER BY idx")
            for index, term, crc, command, clock_ms, wall_ms in rows:
                if index != previous_index + 1 or term < previous_term:
                    raise StartRefused(_damaged(path, f"entry {index} is out of sequence"))
                if not isinstance(command, bytes) or zlib.crc32(command) != crc:
                    raise StartRefused(_damaged(path, f"entry {index} does not match its CRC"))
                previous_index, previous_term = index, term
                self._entries.append((command, index, term))
                self._bytes += len(command)
                if clock_ms:
                    self.stored_clock = (clock_ms, wall_ms)
            if not self._entries and not is_new:
                raise StartRefused(_damaged(path, "it has no entries"))
            term, voted_for = self._database.execute("SELECT term, voted_for FROM vote").fetchone()
            self._vote = (term, voted_for)
        except (sqlite3.Error, TypeError, ValueError) as error:
            raise StartRefused(_damaged(path, str(error))) from error

    @property
    def _database_path(self) -> str:
        return str(self._database.execute("PRAGMA database_list").fetchone()[2])

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

    # ---- durability ---------------------------------------------------------------------------

    @property
    def bytes(self) -> int:
        """The size of all entries together."""
        return self._bytes

    def _changed(self, index: int) -> None:
        if self._first_changed is None or index < self._first_changed:
            self._first_changed = index

    def take(self, *, clock_ms: int, wall_ms: int) -> Batch | None:
        """The changes since the last call, or None. `clock_ms` and `wall_ms` lie beside the
        entries, for a start without a leader (clock.py)."""
        if self._first_changed is None and not self._vote_changed:
            return None
        rows: list[_Row] = []
        delete_from = None
        if self._first_changed is not None:
            if self._first_changed <= self.durable_index:
                delete_from = self._first_changed
                self.durable_index = self._first_changed - 1
            if self._entries:
                position = max(0, self._first_changed - self._entries[0][1])
                rows = [
                    (index, term, zlib.crc32(command), command, clock_ms, wall_ms)
                    for command, index, term in self._entries[position:]
                ]
        vote = self._vote if self._vote_changed else None
        self._first_changed = None
        self._vote_changed = False
        last_index = self._entries[-1][1] if self._entries else 0
        return Batch(delete_from, rows, vote, last_index)

    def write(self, batch: Batch) -> None:
        """Put a batch on disk; returns when it is durable. For the disk thread.

        Raises sqlite3.Error when the disk is full or fails; nothing of the batch is then on disk.
        """
        execute = self._database.execute
        if batch.delete_from is None and batch.vote is None and len(batch.rows) == 1:
            execute(_INSERT, batch.rows[0])  # a statement alone is a transaction
            return
        execute("BEGIN IMMEDIATE")
        try:
            if batch.delete_from is not None:
                execute("DELETE FROM entries WHERE idx >= ?", (batch.delete_from,))
            if batch.rows:
                self._database.executemany(_INSERT, batch.rows)
            if batch.vote is not None:
                execute("UPDATE vote SET term = ?, voted_for = ?", batch.vote)
            execute("COMMIT")
        except BaseException:
            if self._database.in_transaction:
                execute("ROLLBACK")
            raise

    def written(self, batch: Batch) -> None:
        """Back on the event loop: the batch is durable."""
        self.durable_index = batch.last_index

    def close(self) -> None:
        """Close the file and let go of the directory."""
        self._database.close()
        self._lock_file.close()


def _damaged(path: str, what: str) -> str:
    return (
        f"the log {path} is damaged ({what}); it is left as it is: restore this node's directory"
        " from a copy, or keep the node stopped while the others have a majority"
    )


def _lock(directory: Path) -> Any:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock_file = open(directory / LOCK, "a+", encoding="ascii")  # noqa: SIM115 held while open
    except OSError as error:
        msg = f"cannot use the data directory {directory}: {error.strerror}"
        raise StartRefused(msg) from error
    try:
        fcntl.flock(lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock_file.close()
        msg = f"the data directory {directory} is in use by another process"
        raise StartRefused(msg) from error
    return lock_file


def _identity(*, node_id: str, cluster_name: str) -> dict[str, Any]:
    return {"format": FORMAT_VERSION, "cluster": cluster_name, "node": node_id}


def _check_identity(directory: Path, *, node_id: str, cluster_name: str) -> bool:
    """Whether the directory is new; StartRefused if it is somebody else's, or half of one."""
    path, database = directory / IDENTITY, directory / DATABASE
    mine = _identity(node_id=node_id, cluster_name=cluster_name)
    if not path.exists():
        if database.exists() and not (directory / IDENTITY_DRAFT).exists():
            msg = f"the data directory {directory} has a log but no {IDENTITY}: it is damaged"
            raise StartRefused(msg)
        return True
    try:
        found = json.loads(path.read_text("utf-8"))
        theirs = {key: found[key] for key in mine}
    except (OSError, ValueError, KeyError, TypeError) as error:
        msg = f"{path} is damaged ({error}); the directory is left as it is"
        raise StartRefused(msg) from error
    if theirs["format"] != FORMAT_VERSION:
        msg = f"{directory} has format {theirs['format']}, this version reads {FORMAT_VERSION}"
        raise StartRefused(msg)
    if theirs != mine:
        msg = (
            f"the data directory {directory} belongs to node {theirs['node']} of cluster"
            f" {theirs['cluster']}, not to node {node_id} of cluster {cluster_name}"
        )
        raise StartRefused(msg)
    if not database.exists():
        raise StartRefused(_damaged(str(database), "it is missing"))
    return False


def _begin_directory(directory: Path, *, node_id: str, cluster_name: str) -> None:
    """A new directory: a draft of its identity says that nothing in it has served yet, so a start
    that was cut short can begin again, while a log that lost its identity is never overwritten."""
    for suffix in ("", "-wal", "-shm"):
        (directory / (DATABASE + suffix)).unlink(missing_ok=True)
    with open(directory / IDENTITY_DRAFT, "w", encoding="utf-8") as file:
        json.dump(_identity(node_id=node_id, cluster_name=cluster_name), file)
        file.flush()
        os.fsync(file.fileno())
    _sync_directory(directory)


def _finish_directory(directory: Path) -> None:
    """The log holds its first entry: from now on the directory is this node's."""
    (directory / IDENTITY_DRAFT).rename(directory / IDENTITY)
    _sync_directory(directory)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _connect(path: Path, *, is_new: bool) -> sqlite3.Connection:
    if not is_new and path.stat().st_size == 0:  # SQLite would take it for a new one
        raise StartRefused(_damaged(str(path), "it is empty"))
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
        raise StartRefused(_damaged(str(path), str(error))) from error
