"""A disk that is full or fails: the node steps back, loses nothing it acknowledged, and returns."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import re
import sqlite3
import subprocess
import time
from pathlib import Path

import pytest

from goblin_raft.config import Config
from goblin_raft.consensus import storage as storage_module
from goblin_raft.consensus import writer
from goblin_raft.consensus.engine import RaftEngine
from goblin_raft.consensus.errors import StartRefused
from goblin_raft.consensus.log import Log
from goblin_raft.consensus.snapshots import Snapshot, SnapshotFiles
from goblin_raft.reply import OK
from goblin_raft.resp_client import RespClient, RespError
from tests.test_cluster import Cluster


def error_of_sqlite(code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = code
    return error


FULL = error_of_sqlite(sqlite3.SQLITE_FULL)
FSYNC = error_of_sqlite(sqlite3.SQLITE_IOERR_FSYNC)
EIO = OSError(errno.EIO, "Input/output error")


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(writer, "RETRY_MIN_S", 0.02)


@pytest.fixture
def config(tmp_path):
    """One node without peers, with short deadlines."""
    return Config(
        dir=str(tmp_path),
        resp="127.0.0.1:0",
        raft="127.0.0.1:0",
        heartbeat_ms=10,
        election_min_ms=50,
        election_max_ms=60,
        leader_wait_ms=300,
        commit_timeout_ms=300,
    )


class FailingDisk:
    """Stands in for Storage.write; fails as long as it has an error."""

    def __init__(self, monkeypatch) -> None:
        self.error: BaseException | None = None
        self.writes_first = False
        self.attempts = 0
        real = storage_module.Storage.write

        def write(storage, batch):
            if self.error is not None:
                self.attempts += 1
                if self.writes_first:  # the fsync at the end is what fails
                    real(storage, batch)
                raise self.error
            real(storage, batch)

        monkeypatch.setattr(storage_module.Storage, "write", write)


@pytest.fixture
def disk(monkeypatch):
    return FailingDisk(monkeypatch)


async def answer(ask) -> object:
    future = asyncio.get_running_loop().create_future()
    ask(future.set_result)
    return await asyncio.wait_for(future, 5)


async def put(engine, key: bytes):
    command = ["SET", 0, key, b"v", None, False, None]
    return (await answer(lambda settle: engine.propose([command], 10, settle)))[0]


async def until(condition) -> None:
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110 what is waited for is state, not an event
            await asyncio.sleep(0.005)


def keys(engine) -> set[bytes]:
    return set(engine.machine.keyspaces[0].values)


@pytest.mark.parametrize("writes_first", [False, True])
@pytest.mark.parametrize("error", [FULL, FSYNC, EIO], ids=["full", "fsync", "eio"])
def test_a_node_steps_back_and_returns(config, disk, error, writes_first):
    async def story():
        engine = await RaftEngine.open(config)
        assert await put(engine, b"before") == OK
        old = engine._log._storage._database
        disk.error, disk.writes_first = error, writes_first
        first = await put(engine, b"under way")
        assert first.code == "UNCERTAIN"  # it is in a batch that may become durable yet
        await until(lambda: disk.attempts > 2)
        status = engine.status()
        assert (status.state, status.role, status.leader_id) == ("disk-failed", "follower", None)
        assert "the disk does not take writes" in status.problem
        refused = await put(engine, b"refused")
        assert refused.text.startswith("CLUSTERDOWN the disk of this node")
        assert (await answer(engine.read)).text == refused.text
        disk.error = None
        await until(lambda: engine.status().state == "up" and engine.status().role == "leader")
        assert await put(engine, b"after") == OK
        assert engine.status().problem == ""
        assert engine._log._storage._database is not old  # nothing failed is used again
        assert keys(engine) == {b"before", b"under way", b"after"}
        await engine.close()
        engine = await RaftEngine.open(config)
        assert await answer(engine.read) is None
        assert keys(engine) == {b"before", b"under way", b"after"}
        await engine.close()

    asyncio.run(story())


def test_a_node_whose_disk_fails_stops_in_order(config, disk):
    async def story():
        engine = await RaftEngine.open(config)
        assert await put(engine, b"before") == OK
        disk.error = EIO
        await put(engine, b"under way")
        await engine.close()
        disk.error = None
        engine = await RaftEngine.open(config)
        assert await answer(engine.read) is None
        assert keys(engine) == {b"before"}
        await engine.close()

    asyncio.run(story())


def test_a_disk_that_comes_back_with_something_else_is_not_used(config, disk, caplog):
    async def story():
        engine = await RaftEngine.open(config)
        assert await put(engine, b"before") == OK
        disk.error = EIO
        await put(engine, b"under way")
        mark = Path(config.dir) / "mark"
        mark.write_bytes(b"\xff" + mark.read_bytes()[1:])
        disk.error = None
        await until(lambda: "is damaged" in engine.status().problem)
        assert engine.status().state == "disk-failed"
        assert (await put(engine, b"refused")).code == "CLUSTERDOWN"
        await engine.close()

    asyncio.run(story())
    assert caplog.text.count("disk.damaged") == 1


def test_too_little_room_is_not_enough(config, disk, monkeypatch):
    async def story():
        engine = await RaftEngine.open(config)
        disk.error = FULL
        await put(engine, b"under way")
        monkeypatch.setattr(storage_module, "ROOM_BYTES", 1 << 60)
        disk.error = None
        await until(lambda: "MiB free" in engine.status().problem)
        monkeypatch.setattr(storage_module, "ROOM_BYTES", 1)
        await until(lambda: engine.status().state == "up")
        await engine.close()

    asyncio.run(story())


def reopen(directory) -> Log:
    return Log(directory, node_id="n1", cluster_name="goblin")


def test_a_transaction_that_finds_no_room_leaves_nothing_of_itself(tmp_path):
    """SQLite's own error, in the middle of a transaction; then there is room."""
    log = reopen(tmp_path)
    for index in range(2, 30):
        log.add(b"\0" + b"x" * 1000, index, 1)
    first = log.take(clock_ms=1, wall_ms=1)
    log.write(first)
    log.written(first)
    log._storage._database.execute("PRAGMA max_page_count = 14")
    log.deleteEntriesFrom(20)
    for index in range(21, 60):
        log.add(b"\0" + b"y" * 5000, index, 2)
    log.setCurrentTerm(2, "n2")
    batch = log.take(clock_ms=2, wall_ms=2)
    with pytest.raises(sqlite3.OperationalError, match="full"):
        log.write(batch)
    log.recover(batch)
    log.written(batch)
    expected = log[:]
    log.close()
    log = reopen(tmp_path)
    assert log[:] == expected
    assert log.getVotedForNodeId() == "n2"
    log.close()


def test_memory_and_disk_that_differ_are_noticed_at_the_return(tmp_path):
    log = reopen(tmp_path)
    log.add(b"\0one", 2, 1)
    batch = log.take(clock_ms=1, wall_ms=1)
    log.write(batch)
    log.written(batch)
    log._entries[1] = (b"\0two", 2, 1)
    log.add(b"\0three", 3, 1)
    with pytest.raises(StartRefused, match="entry 2 has changed"):
        log.recover(log.take(clock_ms=1, wall_ms=1))
    log.close()


def test_a_received_snapshot_whose_fsync_failed_begins_again(tmp_path, monkeypatch):
    files, snapshot = SnapshotFiles(tmp_path), Snapshot(5, 1, 6, 99)
    files.write_part(snapshot, 0, b"abc")

    def fsync(descriptor):
        raise EIO

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(OSError, match="Input/output"):
        files.write_part(snapshot, 3, b"def")
    monkeypatch.undo()
    files.write_part(snapshot, 3, b"def")  # again, as after a return
    assert files.part_path(snapshot).read_bytes() == b"\0\0\0def"  # fails its CRC, and starts anew


# ---- a file system that really is full -----------------------------------------------------------


@contextlib.contextmanager
def small_file_system(path: Path, size_mib: int):
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size_mib}m", "goblin-test", str(path)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("to mount a small file system takes root")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


def fill(path: Path) -> None:
    with open(path, "wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"\0" * 4096)


@pytest.mark.cluster
def test_a_leader_whose_disk_is_full_makes_way_and_comes_back(tmp_path):
    with contextlib.ExitStack() as stack:
        for node in (1, 2, 3):
            stack.enter_context(small_file_system(tmp_path / f"n{node}", 48))
        cluster = Cluster(tmp_path)
        stack.callback(cluster.stop)
        stored = 0

        def store(node: int, count: int) -> None:
            nonlocal stored
            with RespClient("127.0.0.1", cluster.base + node - 1, timeout_s=10) as client:
                for _ in range(count):
                    assert client.call("SET", f"k{stored}", "v" * 2000) == b"OK"
                    stored += 1

        old = cluster.leader()
        store(old, 20)
        full = tmp_path / f"n{old}" / "filler"
        fill(full)
        give_up_s = time.monotonic() + 20
        while cluster.info(old)["raft_state"] == "up":
            assert time.monotonic() < give_up_s
            with contextlib.suppress(RespError):
                store(old, 1)
        info = cluster.info(old)
        assert (info["raft_state"], info["raft_role"]) == ("disk-failed", "follower")
        assert re.search("is full|MiB free", info["raft_problem"])
        with RespClient("127.0.0.1", cluster.base + old - 1, timeout_s=10) as client:
            assert client.call("PING") == b"PONG"
            with pytest.raises(RespError, match="CLUSTERDOWN the disk of this node"):
                client.call("SET", "k", "v")
        other = next(node for node in (1, 2, 3) if node != old)
        cluster.wait_for(lambda: cluster.info(other)["raft_leader"] not in ("", f"n{old}"))
        store(other, 200)
        full.unlink()
        cluster.wait_for(lambda: cluster.info(old)["raft_state"] == "up")
        store(old, 20)
        with RespClient("127.0.0.1", cluster.base + old - 1, timeout_s=10) as client:
            for number in range(stored):
                assert client.call("GET", f"k{number}") == b"v" * 2000
        for node in (1, 2, 3):
            assert cluster.info(node)["raft_state"] == "up"
