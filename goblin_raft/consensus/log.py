"""The Raft log, term and vote of one node: a list in memory to read, a `Storage` for keeps.

Speaks pysyncobj's journal interface (the camelCase names). Changes are made in memory and taken
as one `Batch`, which `write` puts on disk in one transaction; nothing is durable before `written`.
Knows nothing of what entries mean, and nothing of who may append; the invariants of what lies on
disk are in storage.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
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
from goblin_raft.consensus.snapshots import Snapshot, SnapshotDamaged, read_snapshot
from goblin_raft.consensus.stock import NO_OP, LogEntry
from goblin_raft.consensus.storage import Batch, Row, Storage, row_of

# Compaction drops so much at a time, beside what a turn writes anyway: no turn takes long for it.
DROP_ENTRIES = 500
DROP_BYTES = 1024 * 1024


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
            self._storage = Storage(directory, is_new=is_new)
        except StartRefused:
            self._lock_file.close()
            raise
        found = self._storage.contents
        self._entries: list[LogEntry] = found.entries
        self._bytes = sum(len(entry[0]) for entry in found.entries)
        self._vote = found.vote
        self.stored_clock = found.stored_clock
        self.snapshot = found.snapshot
        self.snapshot_files = self._storage.snapshot_files
        self.snapshot_files.drop_stale(self.snapshot)
        self.durable_index = self._entries[-1][1] if self._entries else 0
        self._first_changed: int | None = None
        self._vote_changed = False
        self._compact_to = 0
        self._parts: list[tuple[Snapshot, int, bytes]] = []
        self._publish: tuple[Path, Snapshot] | None = None
        # The last index of the newest snapshot, be it durable, being written, or in the next batch.
        self.newest_snapshot_index = 0 if self.snapshot is None else self.snapshot.last_index
        if not self._entries:
            self.add(NO_OP, 1, 0)  # the entry that every pysyncobj log begins with
            batch = self.take(clock_ms=0, wall_ms=0)
            assert batch is not None
            self.write(batch)
            self.written(batch)
            finish_directory(directory)

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
        self._vote = self._vote._replace(term=term, voted_for=votedForNodeId)
        self._vote_changed = True

    def getCurrentTerm(self) -> int:
        """The last term seen."""
        return self._vote.term

    def getVotedForNodeId(self) -> str | None:
        """Whom this node voted for in that term."""
        return self._vote.voted_for

    @property
    def is_voter(self) -> bool:
        """Whether this node may vote, and counts; see membership.py."""
        return self._vote.is_voter

    def become_voter(self) -> None:
        """From the next batch on for good."""
        self._vote = self._vote._replace(is_voter=True)
        self._vote_changed = True

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
            self.newest_snapshot_index = snapshot.last_index

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
        self.newest_snapshot_index = snapshot.last_index

    def receive_part(self, snapshot: Snapshot, offset: int, data: bytes) -> None:
        """Bytes of a snapshot, to be written with the next batch."""
        self._parts.append((snapshot, offset, data))

    def compact(self, keep_from: int) -> None:
        """Drop the entries before this index, bit by bit. Only the snapshot's index and what
        follows it is needed."""
        if self.snapshot is not None:
            self._compact_to = max(self._compact_to, min(keep_from, self.snapshot.last_index))

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
        rows: list[Row] = []
        delete_from = None
        if self._first_changed is not None:
            if self._first_changed <= self.durable_index:
                delete_from = self._first_changed
                self.durable_index = max(0, self._first_changed - 1)
            position = max(0, self._first_changed - self._entries[0][1])
            rows = [row_of(entry, clock_ms, wall_ms) for entry in self._entries[position:]]
        batch = Batch(
            delete_from,
            rows,
            self._vote if self._vote_changed else None,
            self._entries[-1][1:],
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
        """Put a batch on disk; returns when it is durable. For the disk thread. Raises as
        Storage.write does."""
        self._storage.write(batch)

    def recover(self, batch: Batch) -> None:
        """The write of this batch failed: open all files anew, and write it again. For the disk
        thread, while no turn runs. Raises as Storage.reopen and Storage.write do."""
        found = self._storage.reopen().entries
        if batch.rows and batch.delete_from is None:  # they may be there all the same
            batch = replace(batch, delete_from=batch.rows[0][0])
        changed = self._entries[-1][1] + 1 if batch.delete_from is None else batch.delete_from
        first = self._entries[0][1]
        for entry in found:
            if first <= entry[1] < changed and entry != self._entries[entry[1] - first]:
                raise StartRefused(damaged(str(self._path), f"entry {entry[1]} has changed"))
        self._storage.write(batch)

    def written(self, batch: Batch) -> None:
        """Back on the event loop: the batch is durable."""
        self.durable_index = batch.last_entry[0]
        if batch.snapshot is not None:
            self.snapshot = batch.snapshot[1]

    def close(self) -> None:
        """Close the files and let go of the directory."""
        self._storage.close()
        self._lock_file.close()
