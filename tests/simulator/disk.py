"""What survives a crash of a node: its log, in SQLite in memory or in real files; knows no Raft.

The log is the product's own in both cases. In memory it speaks to a SQLite database that outlives
it, so a transaction that was not carried out is lost and one that was stays, as on a disk that
syncs. With real files a crash leaves the write-ahead file torn at any byte of its last transaction.
"""

from __future__ import annotations

import contextlib
import errno
import random
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from goblin_raft.consensus import storage
from goblin_raft.consensus.log import Log
from goblin_raft.consensus.storage import Batch

REAL_CONNECT = storage._connect


class _Interrupted(BaseException):
    """The power failed between two steps of a write."""


class MemoryLog(Log):
    """The log over a database in memory, which stays when the log is closed."""

    def close(self) -> None:
        self._storage._database = None
        super().close()


class Disk:
    """One node's, for the whole run."""

    def __init__(self, directory: Path, node_id: str, *, real_files: bool) -> None:
        self.directory = directory
        self.node_id = node_id
        self.real_files = real_files
        self.database: sqlite3.Connection | None = None
        self.fails = False
        self.flips: float | None = None  # where, in the next bytes of a snapshot received

    def open(self) -> Log:
        """As a process does at its start."""
        name = {"node_id": self.node_id, "cluster_name": "goblin"}
        with self._in_memory():
            kind = Log if self.real_files else MemoryLog
            return kind(self.directory, **name)

    @contextlib.contextmanager
    def _in_memory(self) -> Iterator[None]:
        """Unless real files are wanted, whoever opens the database gets the one in memory."""
        if not self.real_files:
            storage._connect = self._connect
        try:
            yield
        finally:
            storage._connect = REAL_CONNECT

    def wipe(self) -> None:
        """Somebody empties the directory, or gives the node a new disk."""
        if self.database is not None:
            self.database.close()
            self.database = None
        shutil.rmtree(self.directory, ignore_errors=True)

    def _connect(self, path: Path, *, is_new: bool) -> sqlite3.Connection:
        if self.database is None:
            path.write_text("in memory")  # only its name and size are looked at
            self.database = REAL_CONNECT(":memory:", is_new=True)
        return self.database

    def write(self, log: Log, batch: Batch) -> None:
        """A whole write, or the error of a disk that is full."""
        if self.fails:
            raise OSError(errno.ENOSPC, "no space left on device")
        log.write(batch)
        self._flip_a_bit(log, batch)

    def recover(self, log: Log, batch: Batch) -> None:
        """As the engine's writer does after an error."""
        if self.fails:
            raise OSError(errno.ENOSPC, "no space left on device")
        if not self.real_files:
            log._storage._database = None  # it must outlive its handle
        with self._in_memory():
            log.recover(batch)

    def crash(self, log: Log, batch: Batch | None, fate: float, rng: random.Random) -> str:
        """The process ends now, while `batch` was being written. `fate`, from 0 to 1: how far the
        disk got with it. Gives what became of it, for the trace."""
        became = "nothing under way"
        if batch is not None:
            became = self._interrupt(log, batch, fate)
        if self.real_files:
            self._close_as_it_is(log)
        else:
            log.close()
        self._lose_unsynced_parts(rng)
        return became

    def _interrupt(self, log: Log, batch: Batch, fate: float) -> str:
        if fate < 0.4:
            log.write(batch)
            return "the write under way is on disk"
        if fate < 0.6 and (batch.parts or batch.snapshot):
            log._storage._transaction = _interrupt  # the files are written, the transaction is not
            try:
                log.write(batch)
            except _Interrupted:
                pass
            return "the files under way are on disk, their record is not"
        if self.real_files and not (batch.parts or batch.snapshot):
            return self._tear(log, batch, fate)
        return "the write under way is lost"

    def _tear(self, log: Log, batch: Batch, fate: float) -> str:
        database, wal = self._files()
        old_database, old = database.read_bytes(), wal.read_bytes()
        # The mark moves up last, so when the write is torn it has not.
        mark_file, move = log._storage._mark_file, log._storage._mark_file.move
        mark_file.move = lambda mark, sync=False: move(mark, sync=True) if sync else None
        log.write(batch)
        if database.read_bytes() != old_database:
            return "the write under way is on disk"  # and was copied into the database file too
        new = wal.read_bytes()
        changed = [i for i in range(0, len(new), 8) if new[i : i + 8] != old[i : i + 8]]
        keep = changed[int((fate - 0.4) / 0.6 * len(changed) * 0.999)] if changed else 0
        self.torn = new[:keep] + old[keep:]
        return f"the write under way is torn at byte {keep} of {len(new)}"

    torn: bytes | None = None

    def _files(self) -> tuple[Path, Path]:
        return self.directory / storage.DATABASE, self.directory / (storage.DATABASE + "-wal")

    def _close_as_it_is(self, log: Log) -> None:
        """SQLite tidies up when it closes; a process that is killed does not."""
        kept = {path: path.read_bytes() for path in self._files() if path.exists()}
        if self.torn is not None:
            kept[self._files()[1]] = self.torn
            self.torn = None
        log.close()
        for path, data in kept.items():
            path.write_bytes(data)

    def _lose_unsynced_parts(self, rng: random.Random) -> None:
        """Of a snapshot that is being received only the last bytes make it durable."""
        for path in sorted(self.directory.glob("snapshot-*.part")):
            size = path.stat().st_size
            if size < int(path.name.split("-")[3]) and rng.random() < 0.5:
                data = path.read_bytes()[: rng.randrange(size + 1)]
                path.write_bytes(data + b"\0" * rng.choice((0, size - len(data))))

    def _flip_a_bit(self, log: Log, batch: Batch) -> None:
        if self.flips is None or not batch.parts:
            return
        path = log.snapshot_files.part_path(batch.parts[-1][0])
        data = bytearray(path.read_bytes()) if path.exists() else b""
        if data:
            data[int(self.flips * len(data) * 0.999)] ^= 0x10
            path.write_bytes(data)
            self.flips = None

    def remove(self) -> None:
        """The run is over."""
        if self.database is not None:
            self.database.close()
        shutil.rmtree(self.directory, ignore_errors=True)


def _interrupt(batch: Any) -> None:
    raise _Interrupted
