"""Leadership is handed over at once, also while followers send on all that their clients want."""

from __future__ import annotations

import pytest
from pysyncobj import syncobj

from tests import simulation


@pytest.fixture
def world():
    clock = syncobj.monotonicTime
    world = simulation.World(3)
    yield world
    syncobj.monotonicTime = clock
    for node in world.nodes.values():
        node.log.close()


def leader(world) -> str | None:
    found = [name for name, node in world.nodes.items() if node.replica.node.is_leader]
    return found[0] if len(found) == 1 else None


def steps(world, *, until, most: int = 4000) -> None:
    for _ in range(most):
        if until():
            return
        world.step()
    raise AssertionError("it did not come to that")


def test_forwarded_commands_do_not_hold_it_up(world):
    steps(world, until=lambda: leader(world) is not None and world.settled())
    for _ in range(5):
        old = leader(world)
        world.nodes[old].replica.hand_over()
        began_s = world.now_s
        while leader(world) in (old, None):
            for name in world.nodes:
                if name != old:
                    world.write(name)
            world.step()
            assert world.now_s - began_s < 0.25, "longer than a transfer may take"
        steps(world, until=world.settled)
    assert world.verdict() is None
