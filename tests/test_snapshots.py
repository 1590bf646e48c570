"""Snapshot files: what was written is read back or refused; written beside a node that goes on."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from contextlib import closing

import pytest

from goblin_raft.consensus.errors import StartRefused
from goblin_raft.consensus.log import DROP_ENTRIES, Log
from goblin_raft.consensus.snapshot_policy import SnapshotPolicy
from goblin_raft.consensus.snapshot_writer import SnapshotWriter
from goblin_raft.consensus.snapshots import (
    Snapshot,
    SnapshotDamaged,
    SnapshotFiles,
    read_snapshot,
    write_snapshot,
)
from goblin_raft.consensus.storage import _row_crc

BLOCKS = [b"head", b"x" * 300, b"", b"end"]


def reopen(directory) -> Log:
    return Log(directory, node_id="n1", cluster_name="goblin")


def write(log: Log) -> bool:
    batch = log.take(clock_ms=7, wall_ms=9)
    if batch is None:
        return False
    log.write(batch)
    log.written(batch)
    return True


def filled(directory, last: int = 20) -> Log:
    log = reopen(directory)
    for index in range(2, last + 1):
        log.add(b"\x00entry-%d" % index, index, 1)
    write(log)
    return log


def take(log: Log, index: int, blocks=BLOCKS) -> Snapshot:
    draft = log.snapshot_files.draft_path(index, 1)
    snapshot = Snapshot(index, 1, *write_snapshot(draft, blocks))
    log.publish(draft, snapshot)
    write(log)
    return snapshot


# ---- the file -----------------------------------------------------------------------------------


def test_blocks_come_back_as_they_were(tmp_path):
    snapshot = Snapshot(5, 1, *write_snapshot(tmp_path / "s", BLOCKS))
    assert snapshot.size == (tmp_path / "s").stat().st_size
    assert list(read_snapshot(tmp_path / "s", snapshot)) == BLOCKS


def test_a_flipped_bit_anywhere_is_found(tmp_path):
    path = tmp_path / "s"
    snapshot = Snapshot(5, 1, *write_snapshot(path, BLOCKS))
    whole = path.read_bytes()
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << (position % 8)
        path.write_bytes(damaged)
        with pytest.raises(SnapshotDamaged):
            list(read_snapshot(path, snapshot))


@pytest.mark.parametrize(
    "change", [lambda data: data[:-1], lambda data: data + b"x", lambda _: b""]
)
def test_a_file_of_another_length_is_found(tmp_path, change):
    path = tmp_path / "s"
    snapshot = Snapshot(5, 1, *write_snapshot(path, BLOCKS))
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(SnapshotDamaged):
        list(read_snapshot(path, snapshot))


def test_what_was_received_goes_on_where_it_stopped_and_another_takes_its_place(tmp_path):
    files = SnapshotFiles(tmp_path)
    one, other = Snapshot(5, 1, 6, 99), Snapshot(8, 1, 6, 98)
    files.write_part(one, 0, b"abc")
    assert files.received(one) == 3
    files.write_part(one, 3, b"def")
    files.write_part(one, 2, b"C")  # what lies beyond goes
    assert files.part_path(one).read_bytes() == b"abC"
    files.write_part(other, 0, b"x")
    assert (files.received(one), files.received(other)) == (0, 1)


# ---- the log around it --------------------------------------------------------------------------


def test_a_snapshot_counts_after_a_restart(tmp_path):
    log = filled(tmp_path)
    snapshot = take(log, 12)
    log.close()
    log = reopen(tmp_path)
    assert log.snapshot == snapshot
    assert list(log.snapshot_blocks()) == BLOCKS
    assert log[0][1] == 1


def test_compaction_drops_what_the_snapshot_stands_for_and_no_more(tmp_path):
    log = filled(tmp_path)
    log.compact(20)
    assert not write(log)  # no snapshot: nothing may go
    take(log, 12)
    log.compact(15)
    while log.is_compacting:
        assert write(log)
    assert (log[0][1], log[-1][1]) == (12, 20)
    log.close()
    log = reopen(tmp_path)
    assert log[:] == [(b"\x00entry-%d" % index, index, 1) for index in range(12, 21)]
    assert log.bytes == sum(len(entry[0]) for entry in log)


def test_a_long_log_is_dropped_bit_by_bit(tmp_path):
    last = 2 * DROP_ENTRIES + 10
    log = filled(tmp_path, last)
    take(log, last)
    log.compact(last)
    batches = 0
    while log.is_compacting:
        log.add(b"\x00more", log[-1][1] + 1, 1)  # beside what a turn writes anyway
        write(log)
        batches += 1
    assert batches == 3
    log.close()
    assert [entry[1] for entry in reopen(tmp_path)] == [last, last + 1, last + 2, last + 3]


def test_an_older_snapshot_never_replaces_a_newer_one(tmp_path):
    log = filled(tmp_path)
    newer = take(log, 12)
    take(log, 8)
    assert log.snapshot == newer
    assert list(log.snapshot_blocks()) == BLOCKS


def test_drafts_go_at_the_start_and_what_was_received_stays(tmp_path):
    log = filled(tmp_path)
    snapshot = take(log, 12)
    part = Snapshot(18, 1, 10, 4)
    log.snapshot_files.write_part(part, 0, b"abc")
    log.snapshot_files.draft_path(15, 1).write_bytes(b"half")
    log.snapshot_files.path(16, 1).write_bytes(b"renamed, and killed before the record")
    log.close()
    log = reopen(tmp_path)
    left = {path.name for path in tmp_path.glob("snapshot-*")}
    assert left == {log.snapshot_files.path(12, 1).name, log.snapshot_files.part_path(part).name}
    assert log.snapshot == snapshot


def receive(log: Log, index: int, term: int, tmp_path) -> Snapshot:
    source = tmp_path / "elsewhere"
    snapshot = Snapshot(index, term, *write_snapshot(source, BLOCKS))
    log.receive_part(snapshot, 0, source.read_bytes())
    write(log)
    log.install(snapshot)
    write(log)
    return snapshot


def test_an_installed_snapshot_replaces_a_log_that_ends_before_it(tmp_path):
    log = filled(tmp_path / "n1")
    snapshot = receive(log, 50, 3, tmp_path)
    assert log[:] == [(b"\x01", 50, 3)]
    log.add(b"\x00next", 51, 3)
    write(log)
    log.close()
    log = reopen(tmp_path / "n1")
    assert (log.snapshot, log[0][1:], log[-1][1]) == (snapshot, (50, 3), 51)
    assert log.stored_clock == (7, 9)


def test_an_installed_snapshot_keeps_what_continues_it(tmp_path):
    log = filled(tmp_path / "n1")
    receive(log, 12, 1, tmp_path)
    assert log[-1][1] == 20


def test_an_installed_snapshot_ends_a_tail_of_another_term(tmp_path):
    log = filled(tmp_path / "n1")
    receive(log, 12, 2, tmp_path)
    assert [entry[1:] for entry in log] == [(12, 2)]
    log.close()
    assert [entry[1:] for entry in reopen(tmp_path / "n1")] == [(12, 2)]


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("UPDATE snapshot SET idx = 11", "is older than the one at 12"),
        ("UPDATE snapshot SET term = 2", "not those of its snapshot"),
        ("UPDATE snapshot SET crc = crc + 1", "size or CRC"),
        ("UPDATE snapshot SET idx = 99", "do not meet its snapshot"),
        ("DELETE FROM entries WHERE idx < 14", "do not meet its snapshot"),
    ],
)
def test_a_record_that_does_not_fit_is_refused(tmp_path, statement, why):
    log = filled(tmp_path)
    take(log, 12)
    log.close()
    with closing(sqlite3.connect(tmp_path / "raft.db")) as database:
        database.execute(statement)
        record = database.execute("SELECT idx, term, size, crc FROM snapshot").fetchone()
        database.execute("UPDATE snapshot SET row_crc = ?", (_row_crc(record),))
        database.commit()
    with pytest.raises(StartRefused, match=why):
        list(reopen(tmp_path).snapshot_blocks())


def test_a_missing_or_damaged_snapshot_is_refused(tmp_path):
    log = filled(tmp_path)
    take(log, 12)
    path = log.snapshot_files.path(12, 1)
    log.close()
    path.write_bytes(path.read_bytes()[:-1])
    log = reopen(tmp_path)
    with pytest.raises(StartRefused, match="damaged"):
        list(log.snapshot_blocks())
    path.unlink()
    with pytest.raises(StartRefused, match="damaged"):
        list(log.snapshot_blocks())


# ---- written in a child -------------------------------------------------------------------------


def written_in_child(path, blocks):
    """(size, crc), or why not."""

    async def story():
        future = asyncio.get_running_loop().create_future()
        writer = SnapshotWriter(asyncio.get_running_loop())
        writer.start(path, blocks, lambda *done: future.set_result(done), future.set_result)
        return await asyncio.wait_for(future, 20)

    return asyncio.run(story())


def test_a_child_writes_the_state_as_it_was_at_the_fork(tmp_path):
    state = {"blocks": list(BLOCKS)}

    async def story():
        future = asyncio.get_running_loop().create_future()
        writer = SnapshotWriter(asyncio.get_running_loop())
        writer.start(
            tmp_path / "s",
            lambda: iter(state["blocks"]),
            lambda *done: future.set_result(done),
            future.set_result,
        )
        state["blocks"] = [b"later"]
        return await asyncio.wait_for(future, 20)

    snapshot = Snapshot(5, 1, *asyncio.run(story()))
    assert list(read_snapshot(tmp_path / "s", snapshot)) == BLOCKS


def test_a_child_that_cannot_write_says_why(tmp_path):
    assert "No such file" in written_in_child(tmp_path / "no" / "s", lambda: iter(BLOCKS))


def test_a_child_that_dies_is_a_failure(tmp_path):
    def die():
        yield b"first"
        os.kill(os.getpid(), 9)

    assert written_in_child(tmp_path / "s", die) == "its process ended early"


def test_a_child_holds_nothing_of_its_parent(tmp_path):
    log = filled(tmp_path / "n1")

    def tell():
        yield "\n".join(os.listdir("/proc/self/fd")).encode()

    snapshot = Snapshot(5, 1, *written_in_child(tmp_path / "s", tell))
    (block,) = read_snapshot(tmp_path / "s", snapshot)
    # Standard streams, the pipe, its own file, and the directory that it lists.
    assert len(block.split()) <= 6
    log.close()


def test_a_stopped_writer_leaves_no_process(tmp_path):
    def never():
        yield b"first"
        time.sleep(60)

    async def story():
        writer = SnapshotWriter(asyncio.get_running_loop())
        writer.start(tmp_path / "s", never, lambda *_: None, lambda _: None)
        pid = writer._pid
        writer.stop()
        return pid

    with pytest.raises(ProcessLookupError):
        os.kill(asyncio.run(story()), 0)


# ---- when ---------------------------------------------------------------------------------------


def test_a_snapshot_is_due_by_the_size_of_the_log(tmp_path):
    log = filled(tmp_path)
    policy = SnapshotPolicy(log, log_bytes_max=100, place=0)
    policy.applied(99)
    assert policy.due(15) is None
    policy.applied(1)
    assert policy.due(15) == (15, 1)
    assert policy.due(15) is None  # it is under way
    assert not policy.request()
    policy.applied(60)
    draft = log.snapshot_files.draft_path(15, 1)
    policy.taken(draft, *write_snapshot(draft, BLOCKS))
    write(log)
    assert log.snapshot is not None
    assert policy.limit == log.snapshot.size  # more than the setting says
    policy.applied(policy.limit - 61)
    assert policy.due(20) is None
    policy.applied(1)
    assert policy.due(20) == (20, 1)


def test_after_a_failure_it_waits_for_more_log(tmp_path):
    policy = SnapshotPolicy(filled(tmp_path), log_bytes_max=100, place=0)
    policy.applied(100)
    assert policy.due(15)
    policy.failed()
    assert policy.last_failed
    assert policy.due(15) is None
    policy.applied(10)
    assert policy.due(16) == (16, 1)


def test_nothing_new_is_no_reason_but_a_damaged_file_is(tmp_path):
    log = filled(tmp_path)
    take(log, 15)
    policy = SnapshotPolicy(log, log_bytes_max=100, place=0)
    policy.request()
    assert policy.due(15) is None
    policy.request(again=True)
    assert policy.due(15) == (15, 1)


def test_a_rest_of_the_log_stays_for_those_who_were_away_briefly(tmp_path):
    log = filled(tmp_path)
    policy = SnapshotPolicy(log, log_bytes_max=4 * 3 * 9, place=0)
    take(log, 15)
    policy.compact(None)
    while log.is_compacting:
        write(log)
    assert log[0][1] == 12


@pytest.mark.parametrize(("needed", "first"), [(None, 14), (15, 14), (13, 13), (5, 11)])
def test_the_log_stays_for_a_follower_that_needs_it_within_bounds(tmp_path, needed, first):
    log = filled(tmp_path)
    policy = SnapshotPolicy(log, log_bytes_max=30, place=0)
    take(log, 15, [b"x"])
    policy.compact(needed)
    while log.is_compacting:
        write(log)
    assert log[0][1] == first
