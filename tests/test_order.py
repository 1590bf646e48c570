"""What leaves a node when: nothing that others rely on before it is on disk, and no answer to a
read before it is certain that the state is fresh. Whole replicas, stepped by hand."""

from __future__ import annotations

import pytest

from goblin_raft.consensus.errors import Fatal
from tests.defects.conftest import clock, clusters  # noqa: F401 fixtures


@pytest.fixture
def c(clusters):  # noqa: F811
    """A healthy cluster; A leads."""
    cluster = clusters.ours()
    cluster.healthy()
    return cluster


def kinds(messages) -> list[str]:
    return [message["type"] for _, message in messages]


def arrive_all(c, source, target) -> None:
    """Without a turn of the target."""
    wire = c.wires[source, target]
    while wire:
        c.arrive(source, target, wire.popleft())


# ---- disk ---------------------------------------------------------------------------------------


def test_an_acknowledgement_leaves_when_its_entry_is_on_disk(c):
    c.append("A", "x")
    arrive_all(c, "A", "B")
    turn = c.begin_turn("B")
    assert turn.batch is not None
    assert "append_answer" in kinds(turn.held)
    assert "append_answer" not in kinds(turn.now)
    before = c.nodes["B"].log.durable_index
    c.crash("B")  # before the batch was written
    c.start("B")
    assert c.log("B")[-1][0] == before
    c.settle("A")
    assert c.told["x"] == []  # nobody counted it


def test_a_leader_sends_an_entry_before_it_has_written_it(c):
    """Both disks work at the same time."""
    c.submit("A", "x")
    turn = c.begin_turn("A")
    assert kinds(turn.now).count("append_entries") == 2
    assert turn.batch is not None


def test_a_leader_counts_its_own_copy_when_it_is_on_disk(c):
    """The engine takes no turn while a batch is being written. If one were taken all the same, the
    node would end before it answers anybody."""
    c.submit("A", "x")
    c.begin_turn("A")
    c.deliver("A", "B")
    c.deliver("A", "C")
    arrive_all(c, "B", "A")
    arrive_all(c, "C", "A")
    with pytest.raises(Fatal, match="before it was on the leader's disk"):
        c.begin_turn("A")
    assert c.told["x"] == []


def test_an_entry_that_only_the_leader_had_not_written_is_not_lost(c):
    """It was sent, and acknowledged by both; the leader dies before its own write ends."""
    c.submit("A", "x")
    c.begin_turn("A")
    c.deliver("A", "B")
    c.deliver("A", "C")
    c.crash("A")
    c.elect("B", "C")
    c.settle("B", "C")
    c.start("A")
    c.connect("A", "B")
    c.settle("B", "A", "C")
    assert c.state("A") == c.state("B") == c.state("C") == {"x": 1}
    assert c.told["x"] == []  # its client was with A: it lost its connection


def test_a_candidate_asks_for_votes_when_its_own_is_on_disk(c):
    c.isolate("A")
    c.time_out("B")
    c.tick("B")
    c.deliver("B", "C")
    arrive_all(c, "C", "B")
    turn = c.begin_turn("B")
    assert turn.batch.vote[:2] == (2, "B")
    assert "request_vote" not in kinds(turn.now)
    assert "request_vote" in kinds(turn.held)


def test_a_higher_term_is_on_disk_before_it_is_told(c):
    """A node that forgot a term which it had told of could vote in it once more."""
    c.isolate("A")
    c.elect("B", "C", heard=False)
    c.beat("B")
    c.restart("C")
    c.connect("B", "C")
    c.beat("B")
    arrive_all(c, "B", "C")
    turn = c.begin_turn("C")
    for target, message in turn.now:
        assert message.get("term", 0) <= c.nodes["C"].log.getCurrentTerm(), (target, message)
    assert "append_answer" not in kinds(turn.now) or turn.batch is None


def test_no_more_is_acknowledged_than_a_message_proved(c):
    """A has a tail of its own; B's message proves nothing about it."""
    c.isolate("A")
    c.append("A", *[f"stale{number}" for number in range(5)])
    c.elect("B", "C")
    previous = c.log("B")[-2]
    c.links |= {("A", "B")}
    message = {
        "type": "append_entries",
        "term": c.term("B"),
        "commit_index": 100,
        "prev_index": previous[0],
        "prev_term": previous[1],
        "entries": [],
        "clock_ms": 0,
        "answer": True,
    }
    c.arrive("B", "A", message)
    c.tick("A")
    (answer,) = [m for m in c.wires["A", "B"] if m["type"] == "append_answer"]
    assert (answer["success"], answer["next_index"]) == (True, previous[0] + 1)
    assert c.commit_index("A") == previous[0]


# ---- reads --------------------------------------------------------------------------------------


class Reads:
    """What a read saw: the names that were there, or that it failed."""

    def __init__(self, c, node) -> None:
        self.seen: list[object] = []
        c.nodes[node].replica.read(
            lambda failure: self.seen.append(
                sorted(c.state(node)) if failure is None else failure.code
            )
        )
        c.tick(node)


def test_a_read_needs_a_majority_after_it_came(c):
    c.append("A", "x")
    c.settle("A", "B", "C")
    read = Reads(c, "A")
    assert read.seen == []
    c.exchange("A", "B")
    assert read.seen == [["x"]]


def test_a_leader_that_was_replaced_answers_no_read(c):
    c.isolate("A")
    c.elect("B", "C")
    c.append("B", "new")
    c.settle("B", "C")
    assert c.told["new"] == ["done"]
    read = Reads(c, "A")
    assert c.is_leader("A")  # it does not know yet
    for _ in range(20):
        c.clock.now_s += 0.2
        c.tick("A")
    assert read.seen == ["CLUSTERDOWN"]


def test_a_confirmation_of_an_earlier_round_does_not_count(c):
    """Between the two a write was acknowledged by others: the first read began before it and may
    miss it, the second must not."""
    first = Reads(c, "A")
    for target in "BC":
        c.deliver("A", target)
    old = [message for message in c.wires["B", "A"] if message["type"] == "read_probe_answer"]
    assert old
    c.isolate("A")
    c.elect("B", "C")
    c.append("B", "new")
    c.settle("B", "C")
    c.clock.now_s += 0.3  # another round follows one that is long without an answer
    second = Reads(c, "A")
    c.tick("A")
    for message in old:
        c.arrive("B", "A", message)
    c.tick("A")
    assert first.seen == [[]]
    assert second.seen == []


def test_a_new_leader_reads_only_after_an_entry_of_its_own_term(c):
    """B has "x", which A has answered, and does not know that it is committed."""
    c.cut("A", "C")
    c.append("A", "x")
    c.deliver("A", "B")
    c.deliver("B", "A")
    assert c.told["x"] == ["done"]
    c.crash("A")
    c.elect("B", "C", heard=False)
    assert c.state("B") == {}
    read = Reads(c, "B")
    # C confirms the term, and has not got B's first entry.
    probes = [message for message in c.wires["B", "C"] if message["type"] == "read_probe"]
    c.nodes["C"].raft._leader = c.nodes["C"].raft._peer_by_id["B"]
    for message in probes:
        c.arrive("B", "C", message)
    c.wires["B", "C"].clear()
    c.tick("C")
    c.deliver("C", "B")
    assert read.seen == []
    c.settle("B", "C")
    assert read.seen == [["x"]]


def test_a_follower_waits_until_it_has_applied_what_the_leader_says(c):
    """It has "x" in its log, and does not know that it is committed."""
    c.append("A", "x")
    c.deliver("A", "B")
    c.deliver("A", "C")
    c.deliver("C", "A")
    assert c.told["x"] == ["done"]
    assert c.state("B") == {}
    read = Reads(c, "B")
    c.deliver("B", "A")
    c.deliver("A", "C")
    c.deliver("C", "A")
    answer = [message for message in c.wires["A", "B"] if message["type"] == "read_index"]
    assert answer
    assert answer[0]["index"] == c.commit_index("A")
    c.wires["A", "B"].remove(answer[0])
    c.wires["A", "B"].appendleft(answer[0])  # before the message with the commit index
    c.deliver("A", "B", 1)
    assert (read.seen, c.state("B")) == ([], {})
    c.deliver("A", "B")
    assert read.seen == [["x"]]
