"""kill -9 at every step that a log takes on disk: what was acknowledged is there, and nothing half.

A child process runs a script against the real log and is traced: it is stopped at each system call
that changes a file, and killed at the k-th, for every k. What it left is then opened here.
"""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from goblin_raft.consensus import storage
from goblin_raft.consensus.log import Log
from goblin_raft.consensus.snapshots import Snapshot, write_snapshot

POINTS_LEAST = 200
TRACEME, PEEKUSER, SYSCALL, SETOPTIONS, TRACESYSGOOD = 0, 3, 24, 0x4200, 1
ORIG_RAX = 15 * 8
# write, pwrite64, fsync, fdatasync, truncate, ftruncate, rename, unlink, openat, unlinkat, renameat
CHANGING = {1, 18, 74, 75, 76, 77, 82, 87, 257, 263, 264}

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64" or platform.system() != "Linux",
    reason="reads the numbers of system calls as Linux gives them on x86-64",
)


def reopen(directory: Path) -> Log:
    return Log(directory, node_id="n1", cluster_name="goblin")


def blocks_of(size: int) -> list[bytes]:
    return [b"head", b"s" * size, b"end"]


def script(directory: Path) -> Iterator[Log]:
    """All that happens to a log. Gives it after each write that has been acknowledged."""
    log = reopen(directory)
    yield log

    def write(how: Callable[[Log], Callable] = lambda log: log.write) -> Log:
        batch = log.take(clock_ms=log[-1][1], wall_ms=9)
        how(log)(batch)
        log.written(batch)
        return log

    def add(count: int, term: int, size: int = 10) -> None:
        for _ in range(count):
            log.add(b"\0" + b"x" * size, log[-1][1] + 1, term)

    log.setCurrentTerm(1, "n1")
    log.become_voter()
    yield write()
    for _ in range(4):  # append
        add(3, 1)
        yield write()
    add(1, 1, 20_000)
    yield write()
    log.setCurrentTerm(2, None)
    log.deleteEntriesFrom(len(log) - 5)  # truncate, and append in the same step
    add(2, 2)
    yield write()
    log.deleteEntriesFrom(len(log) - 1)  # truncate alone
    yield write()
    for index in (5, 8):  # two snapshots of its own, the second in place of the first
        draft = log.snapshot_files.draft_path(index, 1)
        size, crc = write_snapshot(draft, blocks_of(index * 1000))
        log.publish(draft, Snapshot(index, 1, size, crc))
        add(1, 2)
        yield write()
    log.compact(7)
    while log.is_compacting:
        yield write()
    log.close()
    log = reopen(directory)
    add(2, 2)
    yield write()
    source = directory.parent / f"{directory.name}.source"
    snapshot = Snapshot(40, 3, *write_snapshot(source, blocks_of(3000)))
    data = source.read_bytes()
    for offset in range(0, len(data), 1000):  # receive
        log.receive_part(snapshot, offset, data[offset : offset + 1000])
        yield write()
    log.setCurrentTerm(3, "n2")
    log.install(snapshot)
    yield write()
    add(3, 3)
    yield write(lambda log: log.recover)  # as after an error of the disk
    add(2, 3)
    yield write()
    log.close()


def state(log: Log) -> object:
    blocks = None if log.snapshot is None else list(log.snapshot_blocks())
    vote = (log.getCurrentTerm(), log.getVotedForNodeId(), log.is_voter)
    return log[:], vote, log.snapshot, blocks, log.durable_index


def run_child(directory: Path, acknowledge: int) -> None:
    """In the child: say so after each step, by one byte."""
    libc.ptrace(TRACEME, 0, None, None)
    os.kill(os.getpid(), signal.SIGSTOP)
    for _ in script(directory):
        os.write(acknowledge, b".")
    os._exit(0)


def traced(directory: Path, kill_at: int) -> tuple[int, int]:
    """Run the script and kill it at that point; gives (points passed, steps acknowledged)."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            run_child(directory, writer)
        finally:
            os._exit(1)
    os.close(writer)
    _, status = os.waitpid(pid, 0)
    if not os.WIFSTOPPED(status) or libc.ptrace(SETOPTIONS, pid, None, TRACESYSGOOD):
        os.kill(pid, signal.SIGKILL)
        pytest.skip("this machine does not let a process trace its child")
    points, entering, passed_on = 0, True, 0
    while True:
        libc.ptrace(SYSCALL, pid, None, passed_on)
        _, status = os.waitpid(pid, 0)
        if not os.WIFSTOPPED(status):
            break
        if os.WSTOPSIG(status) != signal.SIGTRAP | 0x80:
            passed_on = os.WSTOPSIG(status)
            continue
        passed_on = 0
        if entering and libc.ptrace(PEEKUSER, pid, ORIG_RAX, None) in CHANGING:
            points += 1
            if points == kill_at:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                break
        entering = not entering
    else:
        assert os.waitstatus_to_exitcode(status) == 0
    acknowledged = len(os.read(reader, 1000))
    os.close(reader)
    return points, acknowledged


@pytest.fixture
def place(monkeypatch):
    """In memory, where there is such a place: that the kernel keeps what it has is given."""
    monkeypatch.setattr(storage, "WAL_PAGES_MAX", 12)  # so that it is copied in between, too
    base = "/dev/shm" if Path("/dev/shm").is_dir() else None
    directory = Path(tempfile.mkdtemp(prefix="goblin-kill-", dir=base))
    yield directory
    shutil.rmtree(directory)


def test_a_log_that_is_killed_at_any_step_has_what_it_acknowledged(place):
    states = [state(log) for log in script(place / "whole")]
    points, acknowledged = traced(place / "traced", kill_at=0)
    assert acknowledged == len(states)
    assert points >= POINTS_LEAST
    for kill_at in range(1, points + 1):
        directory = place / f"n{kill_at}"
        _, acknowledged = traced(directory, kill_at)
        log = reopen(directory)
        found = state(log)
        # The step under way may be there in whole or not at all.
        allowed = states[max(0, acknowledged - 1) : acknowledged + 1]
        assert found in allowed, f"killed at point {kill_at} of {points}, in step {acknowledged}"
        # And the log goes on from there.
        log.add(b"\0next", log[-1][1] + 1, 9)
        batch = log.take(clock_ms=1, wall_ms=1)
        log.write(batch)
        log.close()
        log = reopen(directory)
        assert log[-1][0] == b"\0next"
        log.close()
        shutil.rmtree(directory)
