"""A follower that is too far behind gets the leader's snapshot: whole clusters, held still."""

from __future__ import annotations

import pytest
from pysyncobj import syncobj

from goblin_raft.consensus import snapshot_transfer
from goblin_raft.consensus.snapshots import write_snapshot
from goblin_raft.reply import OK
from tests import simulation

CHUNK = 50


@pytest.fixture
def world(monkeypatch):
    """A healthy cluster whose small snapshots travel in many chunks."""
    clock = syncobj.monotonicTime
    monkeypatch.setattr(snapshot_transfer, "CHUNK_BYTES", CHUNK)
    world = simulation.World(7)
    for node in world.nodes.values():
        node.replica.snapshots._log_bytes_max = 10**9  # only when a test asks
    steps(world, until=lambda: leader(world) is not None and at_rest(world))
    yield world
    syncobj.monotonicTime = clock
    for node in world.nodes.values():
        node.log.close()


def steps(world, *, until, most: int = 4000) -> None:
    for _ in range(most):
        if until():
            return
        world.step()
    raise AssertionError("it did not come to that")


def at_rest(world) -> bool:
    return world.settled() and all(node.writing is None for node in world.nodes.values())


def leader(world) -> str | None:
    found = [name for name, node in world.nodes.items() if node.replica.node.is_leader]
    return found[0] if len(found) == 1 else None


def write(world, node: str, count: int) -> None:
    """So many keys, acknowledged, each in an entry of its own."""
    for _ in range(count):
        world.write(node)
        wanted = world.acknowledged + 1
        steps(world, until=lambda wanted=wanted: world.acknowledged == wanted)


def snapshot_at(world, name: str) -> None:
    """A snapshot of this node, and the log before it gone."""
    node = world.nodes[name]
    node.replica.snapshots.request()
    node.replica.snapshots._log_bytes_max = 1  # nothing stays behind it
    before = node.log.newest_snapshot_index
    steps(world, until=lambda: node.log.snapshot and node.log.snapshot.last_index > before)
    steps(world, until=lambda: node.log[0][1] >= node.log.snapshot.last_index - 1)
    node.replica.snapshots._log_bytes_max = 10**9


def cut_off(world, name: str) -> None:
    for other in world.nodes:
        if other != name:
            world.cut(name, other)


def join(world, name: str) -> None:
    for other in world.nodes:
        if other != name:
            world.connect(name, other)


def behind(world) -> tuple[str, str]:
    """The leader, and a follower that is cut off and lacks what only a snapshot holds now."""
    ahead = leader(world)
    follower = min(name for name in world.nodes if name != ahead)
    write(world, ahead, 3)
    cut_off(world, follower)
    write(world, ahead, 40)
    snapshot_at(world, ahead)
    return ahead, follower


def sent(world, kind: str) -> list[dict]:
    """Messages of this kind from now on, as they are sent."""
    seen, send = [], world.send

    def watch(source, messages):
        seen.extend(message for _, message in messages if message["type"] == kind)
        send(source, messages)

    world.send = watch
    return seen


def test_it_is_installed_and_entries_follow(world):
    ahead, follower = behind(world)
    term = world.nodes[ahead].replica.node.term
    chunks = sent(world, "snapshot_chunk")
    join(world, follower)
    write(world, ahead, 5)  # traffic goes on meanwhile
    steps(world, until=lambda: at_rest(world))
    log = world.nodes[follower].log
    assert log.snapshot is not None
    assert log[0][1] == log.snapshot.last_index > 3
    assert world.verdict() is None
    assert (leader(world), world.nodes[ahead].replica.node.term) == (ahead, term)
    assert len([chunk for chunk in chunks if chunk["data"]]) > 5
    assert max(len(chunk["data"]) for chunk in chunks) == CHUNK


def test_one_chunk_is_under_way_at_a_time(world):
    _ahead, follower = behind(world)
    chunks, answers = sent(world, "snapshot_chunk"), sent(world, "snapshot_answer")
    join(world, follower)
    while world.nodes[follower].log.snapshot is None:
        world.step()
        assert len(chunks) - len(answers) <= 1


def test_a_lost_connection_costs_no_more_than_a_chunk(world):
    _ahead, follower = behind(world)
    chunks = sent(world, "snapshot_chunk")
    join(world, follower)
    steps(world, until=lambda: sum(bool(chunk["data"]) for chunk in chunks) >= 4)
    cut_off(world, follower)
    got = world.nodes[follower].replica.node.receiving[1]
    assert got > 0
    del chunks[:]
    join(world, follower)
    steps(world, until=lambda: any(chunk["data"] for chunk in chunks))
    assert next(chunk["offset"] for chunk in chunks if chunk["data"]) >= got
    steps(world, until=lambda: at_rest(world))
    assert world.verdict() is None


def test_a_restart_in_the_middle_goes_on_where_it_was(world):
    _ahead, follower = behind(world)
    chunks = sent(world, "snapshot_chunk")
    join(world, follower)
    steps(world, until=lambda: sum(bool(chunk["data"]) for chunk in chunks) >= 4)
    world.crash(follower)
    del chunks[:]
    world.start(follower)
    join(world, follower)
    steps(world, until=lambda: any(chunk["data"] for chunk in chunks))
    assert next(chunk["offset"] for chunk in chunks if chunk["data"]) > 0
    steps(world, until=lambda: at_rest(world))
    assert world.verdict() is None


def test_a_restart_after_it_begins_from_it(world):
    _ahead, follower = behind(world)
    join(world, follower)
    steps(world, until=lambda: at_rest(world))
    index = world.nodes[follower].log.snapshot.last_index
    digest = world.nodes[follower].replica.machine.digest()
    world.crash(follower)
    world.start(follower)
    assert world.nodes[follower].replica.node.last_applied == index
    join(world, follower)
    steps(world, until=lambda: at_rest(world))
    assert world.nodes[follower].replica.machine.digest() == digest


def test_bytes_that_went_bad_on_the_way_are_found_and_a_new_snapshot_is_sent(world):
    ahead, follower = behind(world)
    log = world.nodes[ahead].log
    path = log.snapshot_files.path(*log.snapshot.last_entry)
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 2] ^= 4  # on the leader's disk, while it runs
    path.write_bytes(whole)
    answers = sent(world, "snapshot_answer")
    join(world, follower)
    steps(world, until=lambda: any(answer["damaged"] for answer in answers))
    assert world.nodes[follower].log.snapshot is None
    steps(world, until=lambda: at_rest(world))
    assert world.verdict() is None


def test_a_leader_with_one_follower_left_keeps_its_place_while_it_sends(world):
    ahead, follower = behind(world)
    third = next(name for name in world.nodes if name not in (ahead, follower))
    world.disk_s = 0.08  # so that the transfer takes longer than quorum_timeout
    term = world.nodes[ahead].replica.node.term
    join(world, follower)
    cut_off(world, third)
    started_s = world.now_s
    steps(world, until=lambda: world.nodes[follower].log.snapshot is not None)
    assert world.now_s - started_s > 0.4
    assert (leader(world), world.nodes[ahead].replica.node.term) == (ahead, term)


def test_the_new_leader_goes_on_with_its_own_snapshot(world):
    ahead, follower = behind(world)
    third = next(name for name in world.nodes if name not in (ahead, follower))
    write(world, ahead, 1)
    snapshot_at(world, third)
    chunks = sent(world, "snapshot_chunk")
    join(world, follower)
    steps(world, until=lambda: sum(bool(chunk["data"]) for chunk in chunks) >= 2)
    world.crash(ahead)
    steps(world, until=lambda: leader(world) == third)
    steps(world, until=lambda: world.nodes[follower].log.snapshot is not None)
    write(world, third, 3)
    world.start(ahead)
    join(world, ahead)
    steps(world, until=lambda: at_rest(world))
    assert world.verdict() is None


def test_what_the_follower_proposed_before_is_not_done_twice(world):
    """Its proposal is in the snapshot; it sends it again; the machine has seen it."""
    ahead, follower = behind(world)
    join(world, follower)
    steps(world, until=lambda: world.nodes[follower].replica.node.leader_id == ahead)
    for _ in range(5):
        world.write(follower)
    steps(world, until=lambda: at_rest(world))
    assert world.verdict() is None
    last = world.outcomes[b"k%d" % (len(world.outcomes) - 1)]
    assert last == [OK] or last[0].code in ("UNCERTAIN", "CLUSTERDOWN")


def test_a_draft_older_than_what_was_installed_is_forgotten(world):
    """D10: the follower's own snapshot is complete after the leader's came in."""
    _ahead, follower = behind(world)
    node = world.nodes[follower]
    node.replica.snapshots.request()
    steps(world, until=lambda: node.snapshot is not None)
    last_entry, blocks, _ = node.snapshot
    node.snapshot = None  # it takes long
    join(world, follower)
    steps(world, until=lambda: at_rest(world))
    installed = node.log.snapshot
    draft = node.log.snapshot_files.draft_path(*last_entry)
    node.replica.snapshots.taken(draft, *write_snapshot(draft, blocks))
    for _ in range(200):
        world.step()
    assert node.log.snapshot == installed
