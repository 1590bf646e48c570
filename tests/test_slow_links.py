"""Links slower than the time after which a read is asked again make reads slow, not absent."""

from __future__ import annotations

import pytest
from pysyncobj import syncobj

from goblin_raft.consensus.barrier import ASK_AGAIN_AFTER_S
from tests import simulation

ONE_WAY_S = 0.8 * ASK_AGAIN_AFTER_S


@pytest.fixture
def world():
    clock = syncobj.monotonicTime
    world = simulation.World(5)
    world.disk_s = 0.002
    while not (leader(world) and world.settled()):
        world.step()
    world.send = lambda source, messages: slowly(world, source, messages)
    yield world
    syncobj.monotonicTime = clock
    for node in world.nodes.values():
        node.log.close()


def leader(world) -> str | None:
    found = [name for name, node in world.nodes.items() if node.replica.node.is_leader]
    return found[0] if len(found) == 1 else None


def slowly(world, source: str, messages) -> None:
    for target, message in messages:
        body = simulation.encode_frame(message)[simulation.HEADER.size :]
        world.wires[source, target].append((world.now_s + ONE_WAY_S, body))


def test_every_read_is_answered_on_every_node(world):
    answers: list = []
    asked = 0
    for round_number in range(60):
        for name in world.nodes:
            world.nodes[name].replica.read(answers.append)
            asked += 1
        if round_number % 10 == 0:
            world.write(leader(world))
        until_s = world.now_s + 0.05
        while world.now_s < until_s:
            world.step()
    for _ in range(1000):
        world.step()
    assert answers == [None] * asked
