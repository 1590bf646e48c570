"""When the followers are told what is committed: at once if one of them waits, else soon."""

from __future__ import annotations

import pytest
from pysyncobj import syncobj

from goblin_raft.consensus import node as consensus_node
from tests import simulation

FOR_EVER_S = 1e9
# Far below a heartbeat, which carries the commit index as well.
SOON_S = 0.03


@pytest.fixture
def world():
    clock = syncobj.monotonicTime
    world = simulation.World(5)
    world.random.choice = lambda options: options[0]  # no slow disk
    for node in world.nodes.values():
        node.replica.node.heartbeat_s = 0.5
    steps(world, until=lambda: leader(world) is not None and world.settled())
    yield world
    syncobj.monotonicTime = clock
    for node in world.nodes.values():
        node.log.close()


def leader(world) -> str | None:
    found = [name for name, node in world.nodes.items() if node.replica.node.is_leader]
    return found[0] if len(found) == 1 else None


def steps(world, *, until, most: int = 4000) -> float:
    """Seconds that it took."""
    began_s = world.now_s
    for _ in range(most):
        if until():
            return world.now_s - began_s
        world.step()
    raise AssertionError("it did not come to that")


def written(world, name: str) -> float:
    """Seconds that a write through this node took."""
    before = world.acknowledged
    world.write(name)
    return steps(world, until=lambda: world.acknowledged > before)


def test_a_follower_that_forwarded_gets_its_outcome_at_once(world, monkeypatch):
    monkeypatch.setattr(consensus_node, "PUBLISH_COMMIT_AFTER_S", FOR_EVER_S)
    follower = next(name for name in world.nodes if name != leader(world))
    took = sorted(written(world, follower) for _ in range(20))
    assert took[10] < 2 * SOON_S


def test_a_read_on_a_follower_does_not_wait_either(world, monkeypatch):
    monkeypatch.setattr(consensus_node, "PUBLISH_COMMIT_AFTER_S", FOR_EVER_S)
    follower = next(name for name in world.nodes if name != leader(world))
    took = []
    for _ in range(20):
        written(world, leader(world))
        answers = []
        world.nodes[follower].replica.read(answers.append)
        took.append(steps(world, until=lambda answers=answers: answers))
        assert answers == [None]
    assert sorted(took)[10] < 2 * SOON_S


def test_without_anybody_waiting_the_next_entry_carries_it(world, monkeypatch):
    monkeypatch.setattr(consensus_node, "PUBLISH_COMMIT_AFTER_S", FOR_EVER_S)
    sent = []
    send = world.send
    world.send = lambda source, messages: (sent.extend(messages), send(source, messages))
    for _ in range(20):
        written(world, leader(world))
    bare = [m for _, m in sent if m["type"] == "append_entries" and not m["entries"]]
    assert not [m for m in bare if not m["answer"]], "the commit index went out alone"


def test_it_goes_out_by_itself_when_no_entry_follows(world):
    took = []
    for _ in range(20):
        written(world, leader(world))
        took.append(
            steps(
                world,
                until=lambda: len({n.replica.node.last_applied for n in world.nodes.values()}) == 1,
            )
        )
    assert sorted(took)[10] < SOON_S
