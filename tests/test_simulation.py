"""The simulator on a few seeds, and the simulator itself: it repeats, it shrinks, its disk is true.

Thousands of seeds are in test_simulation_seeds.py, planted bugs in test_simulation_ablations.py.
"""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys

import pytest

from goblin_raft.consensus.snapshots import Snapshot, write_snapshot
from tests.planted_bugs import planted
from tests.simulator.disk import Disk
from tests.simulator.linearizable import OK, Operation, explain
from tests.simulator.plan import make_plan
from tests.simulator.run import run_plan, run_seed
from tests.simulator.shrink import Shrinker


@pytest.mark.parametrize("nodes, first", [(3, 0), (3, 30), (3, 60), (5, 0), (5, 15)])
def test_no_schedule_breaks_a_promise(nodes, first):
    acknowledged = entries = 0
    for seed in range(first, first + 60 // nodes):
        result = run_seed(seed, nodes)
        assert result.rule is None, f"seed {seed}: {result.rule}: {result.text}"
        acknowledged += result.acknowledged
        entries += result.entries
    assert acknowledged > 300  # the schedules do let work through
    assert entries > 300


def digest_of_runs() -> str:
    digest = hashlib.sha256()
    for seed, nodes in ((1, 3), (5, 3), (2, 5)):
        digest.update("\n".join(run_plan(make_plan(seed, nodes), trace=True).trace).encode())
    return digest.hexdigest()


def test_one_seed_gives_one_run():
    """Also in another process, where strings have other hashes."""
    code = "from tests.test_simulation import digest_of_runs; print(digest_of_runs())"
    other = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True,
        env=os.environ | {"PYTHONHASHSEED": "77", "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert other.stdout.strip() == digest_of_runs() == digest_of_runs()


def test_a_failure_is_shrunk_to_what_matters():
    with planted("stale_read_without_barrier"):
        plan = next(
            plan for plan in (make_plan(seed, 3) for seed in range(20))
            if run_plan(plan).rule == "linearizable"
        )  # fmt: skip
        shrinker = Shrinker(plan, "linearizable", tries_max=150)
        short = shrinker.shrink()
        result = run_plan(short, trace=True)
        assert result.rule == "linearizable"
        assert len(short.events) < len(plan.events) / 3
        assert "linearizable: no order explains" in result.trace[-1]
    assert run_plan(short).rule is None


# ---- the disk ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_the_disk_in_memory_is_like_the_one_of_files(tmp_path, seed):
    """The same changes and crashes leave the same log, vote, clock and snapshot on both."""
    rng = random.Random(seed)
    disks = [Disk(tmp_path / str(real), "n1", real_files=real) for real in (False, True)]
    logs = [disk.open() for disk in disks]
    term = 1
    for _ in range(rng.randint(5, 40)):
        term = change(logs, rng, term)
        clock_ms = rng.randrange(1, 1 << 40)
        batches = [log.take(clock_ms=clock_ms, wall_ms=clock_ms + 5) for log in logs]
        assert batches[0] is None or batches[0].rows == batches[1].rows
        if rng.random() < 0.3:
            fate, draw = rng.random(), rng.random()
            for disk, log, batch in zip(disks, logs, batches, strict=True):
                disk.crash(log, batch, fate, random.Random(draw))
            logs = [disk.open() for disk in disks]
        elif batches[0] is not None:
            for log, batch in zip(logs, batches, strict=True):
                log.write(batch)
                log.written(batch)
        assert content(logs[0]) == content(logs[1])
    for log in logs:
        log.close()


def content(log):
    return log[:], log.getCurrentTerm(), log.getVotedForNodeId(), log.snapshot, log.stored_clock


def change(logs, rng, term):
    """One turn's changes, the same in both; gives the term."""
    log = logs[0]
    first, last, snapshot_index = log[0][1], log[-1][1], log.newest_snapshot_index
    vote, cut, drop = rng.random() < 0.3, rng.random() < 0.3, rng.random() < 0.2
    position = rng.randint(max(first, snapshot_index), last) + 1 - first
    entries = [b"\0" + rng.randbytes(rng.choice((5, 3000))) for _ in range(rng.choice((0, 1, 3)))]
    term += vote
    for log in logs:
        if vote:
            log.setCurrentTerm(term, f"n{term % 3}")
        if cut and position < len(log):
            log.deleteEntriesFrom(position)
        for command in entries:
            log.add(command, log[-1][1] + 1, term)
        if drop:
            log.compact(last)
    publish = rng.random() < 0.15
    index, entry_term = rng.choice([entry[1:] for entry in log[:]])
    if publish and index > snapshot_index:
        for log in logs:
            draft = log.snapshot_files.draft_path(index, entry_term)
            size, crc = write_snapshot(draft, [b"state %d" % index])
            log.publish(draft, Snapshot(index, entry_term, size, crc))
    return term


# ---- the search for an order ---------------------------------------------------------------------


def told(kind, arguments, start_ms, end_ms, value, outcome=OK):
    return Operation(kind, b"k", arguments, start_ms, end_ms, outcome, value)


LONG = float("inf")


@pytest.mark.parametrize(
    "operations, possible",
    [
        ([told("set", (b"a",), 0, 1, True), told("get", (), 2, 3, b"a")], True),
        ([told("set", (b"a",), 0, 1, True), told("get", (), 2, 3, None)], False),
        ([told("set", (b"a",), 0, 5, True), told("get", (), 2, 3, None)], True),
        # Two reads in the wrong order, while a write is under way.
        (
            [
                told("set", (b"a",), 0, 9, True),
                told("get", (), 1, 2, b"a"),
                told("get", (), 3, 4, None),
            ],
            False,
        ),
        # A write of unknown outcome may happen late, or never; not twice.
        ([told("set", (b"a",), 0, LONG, None, "unknown"), told("get", (), 5, 6, b"a")], True),
        ([told("set", (b"a",), 0, LONG, None, "unknown"), told("get", (), 5, 6, None)], True),
        (
            [
                told("set", (b"a",), 0, LONG, None, "unknown"),
                told("get", (), 5, 6, b"a"),
                told("set", (b"b",), 7, 8, True),
                told("get", (), 9, 10, b"a"),
            ],
            False,
        ),
        ([told("cas", (b"", b"b"), 0, 1, True)], False),
        # A lease ends when its time is over, not before; it may end late.
        (
            [told("claim", (b"a", 100), 0, 1, True), told("claim", (b"b", 100), 50, 60, True)],
            False,
        ),
        (
            [told("claim", (b"a", 100), 0, 1, True), told("claim", (b"b", 100), 90, 101, True)],
            True,
        ),
        (
            [told("claim", (b"a", 100), 0, 1, True), told("claim", (b"b", 100), 900, 901, False)],
            True,
        ),
        (
            [
                told("claim", (b"a", 100), 0, 1, True),
                told("renew", (b"a", 100), 50, 51, True),
                told("claim", (b"b", 100), 110, 120, True),
            ],
            False,
        ),
        (
            [
                told("claim", (b"a", 100), 0, 1, True),
                told("release", (b"a", 0), 50, 51, True),
                told("claim", (b"b", 100), 52, 60, True),
            ],
            True,
        ),
    ],
)
def test_a_history_can_be_explained_or_not(operations, possible):
    assert explain(operations) is possible
