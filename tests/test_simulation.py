"""Random schedules of a whole cluster; and that a planted bug is found by them."""

from __future__ import annotations

import pytest
from pysyncobj import syncobj

from goblin_raft.consensus import barrier, replica, replication
from goblin_raft.consensus.errors import Fatal
from goblin_raft.origins import Origins
from tests import simulation


@pytest.fixture(autouse=True)
def real_clock():
    yield
    syncobj.monotonicTime = simulation_clock


simulation_clock = syncobj.monotonicTime


@pytest.mark.parametrize("first", range(0, 200, 20))
def test_no_schedule_breaks_a_promise(first):
    acknowledged = 0
    for seed in range(first, first + 20):
        wrong, acks = simulation.run(seed)
        assert wrong is None, f"seed {seed}: {wrong}"
        acknowledged += acks
    assert acknowledged > 5_000  # the schedules do let work through


def caught(seeds: int) -> bool:
    for seed in range(seeds):
        try:
            wrong, _ = simulation.run(seed)
        except (Fatal, AssertionError):  # an invariant in the code spoke first
            return True
        if wrong:
            return True
    return False


def test_a_copy_applied_twice_is_caught(monkeypatch):
    monkeypatch.setattr(Origins, "admit", lambda self, proposal, now_ms: True)
    assert caught(100)


def test_a_read_without_the_barrier_is_caught(monkeypatch):
    monkeypatch.setattr(barrier.ReadBarrier, "read", lambda self, ready, now_s: ready(None))
    assert caught(100)


def test_an_acknowledgement_before_the_disk_is_caught(monkeypatch):
    real = replica.Replica.turn

    def turn(self):
        found = real(self)
        return replica.Turn(found.now + found.held, [], found.batch, found.snapshot)

    monkeypatch.setattr(replica.Replica, "turn", turn)
    assert caught(300)


def test_acknowledging_more_than_was_proved_is_caught(monkeypatch):
    real = replication.Replication._append

    def append(self, previous, entries):
        real(self, previous, entries)
        return self._log[-1][1]

    monkeypatch.setattr(replication.Replication, "_append", append)
    assert caught(300)
