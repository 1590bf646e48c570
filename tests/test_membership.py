"""A member that forgot what it promised makes no promise until it has been filled up again."""

from __future__ import annotations

import pytest
from pysyncobj import syncobj

from goblin_raft.consensus import membership
from goblin_raft.consensus.log import Log
from goblin_raft.reply import OK
from tests import simulation
from tests.test_cluster import Cluster

LONG = 3000  # steps: some seven seconds


@pytest.fixture
def world():
    clock = syncobj.monotonicTime
    world = simulation.World(7)
    yield world
    syncobj.monotonicTime = clock
    for node in world.nodes.values():
        node.log.close()


def leaders(world) -> list[str]:
    return [name for name, node in world.nodes.items() if node.replica.node.is_leader]


def is_voter(world, name) -> bool:
    return world.nodes[name].replica.node.is_voter


def steps(world, *, until, most: int = LONG) -> None:
    for _ in range(most):
        if until():
            return
        world.step()
    raise AssertionError("it did not come to that")


def pause(world, count: int = LONG) -> None:
    for _ in range(count):
        world.step()


def cut_off(world, name) -> None:
    for other in simulation.NODES:
        world.cut(name, other)


def join(world, name) -> None:
    for other in simulation.NODES:
        if other != name:
            world.connect(name, other)


def acknowledge(world, name) -> bytes:
    """A key that a client was told is stored."""
    key = b"k%d" % len(world.outcomes)
    while world.outcomes.get(key) != [OK]:
        key = b"k%d" % len(world.outcomes)
        world.write(name)
        steps(world, until=lambda key=key: world.outcomes[key])
    return key


def stored(world, name) -> set[bytes]:
    return set(world.nodes[name].replica.machine.keyspaces[0].values)


def two_of_three_hold_an_entry(world) -> tuple[str, str, str, bytes]:
    """(holder, holder, the third, key): the third has not heard of the entry."""
    steps(world, until=lambda: world.settled() and all(is_voter(world, n) for n in world.nodes))
    (first,) = leaders(world)
    second, third = (name for name in simulation.NODES if name != first)
    cut_off(world, third)
    key = acknowledge(world, first)
    assert key not in stored(world, third)
    return first, second, third, key


def attack(world) -> tuple[str, str, str, bytes]:
    """An entry on A and B; B is wiped; only B and C are there."""
    first, second, third, key = two_of_three_hold_an_entry(world)
    world.crash(first)
    world.wipe(second)
    world.connect(second, third)
    return first, second, third, key


def test_a_wiped_node_elects_nobody_and_is_filled_up(world):
    first, second, _, key = attack(world)
    pause(world)
    assert leaders(world) == []
    assert not is_voter(world, second)
    world.start(first)
    join(world, first)
    steps(world, until=world.settled)
    steps(world, until=lambda: is_voter(world, second))
    assert all(key in stored(world, name) for name in world.nodes)
    assert world.verdict() is None


def test_without_the_rule_the_attack_succeeds(world, monkeypatch):
    monkeypatch.setattr(Log, "is_voter", True)
    _, second, _, key = attack(world)
    steps(world, until=lambda: leaders(world) and world.settled())
    assert key not in stored(world, second)


def test_a_voter_stays_one_over_a_restart(world):
    steps(world, until=lambda: all(is_voter(world, n) for n in world.nodes))
    pause(world, 50)
    world.crash("n2")
    world.start("n2")
    assert is_voter(world, "n2")


def test_a_new_cluster_waits_for_all_of_its_members(world):
    world.crash("n3")
    pause(world)
    assert leaders(world) == []
    world.start("n3")
    join(world, "n3")
    steps(world, until=lambda: leaders(world) and world.settled())


def begun_without_the_third(world) -> tuple[str, str]:
    """A cluster of which n3 has not heard that it began, with an entry; its leader, the other."""
    steps(world, until=lambda: is_voter(world, "n1") and is_voter(world, "n2"))
    cut_off(world, "n3")
    steps(world, until=lambda: len(leaders(world)) == 1)
    (first,) = leaders(world)
    key = acknowledge(world, first)
    assert world.nodes["n3"].replica.node.is_blank
    (second,) = {"n1", "n2"} - {first}
    assert key in stored(world, first)
    world.crash(first)
    world.wipe(second)
    world.connect(second, "n3")
    return first, second


def test_a_majority_of_blank_members_is_no_new_cluster(world):
    begun_without_the_third(world)
    pause(world)
    assert leaders(world) == []


def test_if_a_majority_of_blank_members_were_enough_it_would_lose_data(world, monkeypatch):
    begun_without_the_third(world)
    real = membership.Membership.peer_is_blank

    def peer_is_blank(self, peer_id):
        real(self, peer_id)
        if not self.is_voter and self.is_blank:
            self.become_voter("a majority")

    monkeypatch.setattr(membership.Membership, "peer_is_blank", peer_is_blank)
    steps(world, until=lambda: leaders(world) and world.settled())


def learner_beside_a_leader(world) -> tuple[str, str, str]:
    """(leader, a learner that follows it, a node that is down)."""
    first, second, third, _ = two_of_three_hold_an_entry(world)
    world.crash(third)
    world.wipe(second)
    world.connect(first, second)
    pause(world, 20)
    return first, second, third


def test_what_a_learner_stores_and_says_counts_for_no_majority(world):
    first, second, third = learner_beside_a_leader(world)
    key = b"k%d" % len(world.outcomes)
    world.write(first)
    answers: list[object] = []
    world.nodes[first].replica.read(answers.append)
    pause(world)
    assert leaders(world) == []  # a leader and a learner are no quorum
    assert OK not in world.outcomes[key]
    assert None not in answers
    assert len(answers) == 1
    assert not is_voter(world, second)
    world.start(third)
    for name in (first, second):
        world.connect(name, third)
    steps(world, until=world.settled)
    steps(world, until=lambda: is_voter(world, second))
    acknowledge(world, second)


def test_a_learner_never_takes_over(world):
    steps(world, until=lambda: world.settled() and all(is_voter(world, n) for n in world.nodes))
    (first,) = leaders(world)
    second, third = (name for name in simulation.NODES if name != first)
    cut_off(world, third)
    world.wipe(second)
    world.connect(first, second)
    for _ in range(60):
        world.nodes[first].replica.hand_over()
        world.step()
        assert second not in leaders(world)


def test_the_leader_notices_that_a_follower_lost_what_it_acknowledged(world, caplog):
    steps(world, until=lambda: world.settled() and all(is_voter(world, n) for n in world.nodes))
    (first,) = leaders(world)
    second = next(name for name in simulation.NODES if name != first)
    acknowledge(world, first)
    steps(world, until=world.settled)
    assert world.nodes[first].replica.node.losses(second) == 0
    world.wipe(second)
    join(world, second)
    steps(world, until=lambda: is_voter(world, second))
    assert world.nodes[first].replica.node.losses(second) == 1
    assert "follower.lost_entries" in caplog.text


def test_a_follower_that_restarts_with_its_disk_raises_no_alarm(world):
    steps(world, until=world.settled)
    (first,) = leaders(world)
    second = next(name for name in simulation.NODES if name != first)
    for _ in range(5):
        acknowledge(world, first)
        world.crash(second)
        world.start(second)
        join(world, second)
        steps(world, until=world.settled)
    assert world.nodes[first].replica.node.losses(second) == 0


@pytest.mark.cluster
def test_a_real_node_whose_directory_was_emptied_is_filled_up(tmp_path):
    cluster = Cluster(tmp_path)
    try:
        for number in range(50):
            assert cluster.insist(1, "SET", f"k{number}", "v") == b"OK"
        leader = cluster.leader()
        assert cluster.info(leader)["raft_state"] == "up"
        wiped = next(node for node in (1, 2, 3) if node != leader)
        cluster.kill(wiped)
        cluster.wait_for(lambda: f"id=n{wiped}" in peer_line(cluster, leader, wiped, "connected=0"))
        for path in (tmp_path / f"n{wiped}").iterdir():
            if path.name not in ("command", "node.log"):
                path.unlink()
        cluster.restart(wiped)
        cluster.wait_for(lambda: cluster.info(wiped)["raft_state"] == "up")
        line = cluster.wait_for(lambda: peer_line(cluster, leader, wiped, "voter=1"))
        assert "lost_entries=1" in line
        cluster.kill(leader)  # the wiped one and the third hold everything
        for number in range(50):
            assert cluster.insist(wiped, "GET", f"k{number}") == b"v"
    finally:
        cluster.stop()


def peer_line(cluster, asked: int, node: int, wanted: str) -> str:
    """What one node says of another, if it says that; else nothing."""
    lines = [line for name, line in cluster.info(asked).items() if name.startswith("raft_peer")]
    return next((line for line in lines if f"id=n{node}," in line and wanted in line), "")
