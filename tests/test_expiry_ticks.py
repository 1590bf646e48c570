"""Ticks end leases in time, and many leases that end one after another share them."""

from __future__ import annotations

import pytest
from pysyncobj import syncobj

from tests import simulation

LEASES = 200
# A turn of the simulated engine, and a write to each disk on the way to a majority.
COMMIT_MS = 40


@pytest.fixture
def world():
    clock = syncobj.monotonicTime
    world = simulation.World(5)
    world.disk_s = 0.002
    while not (any(n.replica.node.is_leader for n in world.nodes.values()) and world.settled()):
        world.step()
    yield world
    syncobj.monotonicTime = clock
    for node in world.nodes.values():
        node.log.close()


def test_leases_that_end_one_after_another_share_ticks(world):
    leader = next(n.replica for n in world.nodes.values() if n.replica.node.is_leader)
    replies = []
    # One millisecond apart, by the clock that stamps.
    leader.propose(
        [["GOBLIN.CLAIM", 0, b"k%d" % i, b"r%d" % i, b"t", 1000 + i] for i in range(LEASES)],
        LEASES * 50,
        replies.extend,
    )
    while not replies:
        world.step()
    first_deadline_ms = leader.machine.next_deadline_ms()
    before = leader.log[-1][1]
    keys = leader.machine.keyspaces[0]
    latest_ms = 0
    while keys.values:
        world.step()
        nearest_ms = leader.machine.next_deadline_ms()
        if nearest_ms is not None:
            latest_ms = max(latest_ms, leader.clock_ms() - nearest_ms)
    ticks = leader.log[-1][1] - before
    assert leader.clock_ms() >= first_deadline_ms + LEASES - 1, "not before its length"
    assert LEASES / COMMIT_MS < ticks <= LEASES / 10 + 2
    assert latest_ms <= 10 + COMMIT_MS, "and soon after it"
