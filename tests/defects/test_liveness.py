"""Where stock pysyncobj gets stuck, disturbs a healthy leader, or leaves clients unanswered: r06,
r09, r16, r17 and their kin of docs/consensus.md. Each scenario is played on both."""

from __future__ import annotations

import pytest

from goblin_raft.consensus import replication
from goblin_raft.consensus.snapshot_transfer import RESEND_AFTER_S


def test_r06a_a_node_that_was_away_does_not_depose_the_leader(clusters):
    def scenario(c):
        c.healthy()
        term = c.term("A")
        c.crash("C")
        c.append("A", "x")
        c.settle("A", "B")
        c.start("C")
        # Its election timeout passes before it can reach anybody, and the others hear A.
        lonely_timeout(c, "C")
        c.tick("C")
        c.connect("A", "C")
        c.connect("B", "C")
        c.tick("C")
        c.exchange()
        for node in "ABC":
            c.tick(node)
        c.exchange()
        return c.is_leader("A") and c.term("A") == term

    assert scenario(clusters.stock(files=True)) is False
    assert scenario(clusters.ours()) is True


def lonely_timeout(c, node) -> None:
    """The election timeout of this node passes; the others go on hearing their leader."""
    if hasattr(c.nodes[node], "raft"):
        c.nodes[node].raft.leader_heard_s = float("-inf")
        c.nodes[node].raft._election_deadline_s = 0.0
    else:
        c.nodes[node].set("raftElectionDeadline", 0)


def test_r06b_one_dead_link_does_not_cut_a_leader_off(clusters):
    """A and B do not reach each other; both reach C. B leads; A, which cannot win, keeps asking."""

    def scenario(c):
        c.healthy()
        c.cut("A", "B")
        c.depose("A")
        c.elect("B", "C")
        c.settle("B", "C")
        term = c.term("B")
        for _ in range(5):
            lonely_timeout(c, "A")
            c.tick("A")
            c.exchange("A", "C")
        c.append("B", "x")
        c.settle("B", "C")
        return c.told["x"], c.term("C") - term

    told, raised = scenario(clusters.stock())
    assert (told, raised > 0) == ([], True)
    assert scenario(clusters.ours()) == (["done"], 0)


def test_r06b_a_leader_that_was_deposed_unheard_learns_so(clusters):
    """In stock a message of an earlier term gets no answer at all."""

    def scenario(c):
        c.healthy()
        c.cut("A", "B")
        c.elect("B", "C")
        c.settle("B", "C")
        c.beat("A")
        c.exchange("A", "C")
        return c.is_leader("A")

    assert scenario(clusters.stock()) is True
    assert scenario(clusters.ours()) is False


def test_r09a_a_forwarded_command_lost_with_its_connection_is_answered(clusters):
    def scenario(c):
        c.healthy()
        c.submit("B", "forwarded")
        c.tick("B")
        assert c.wires["B", "A"]
        c.cut("A", "B")
        c.connect("A", "B")
        for _ in range(5):
            c.settle("A", "B", "C")
        return c.told["forwarded"], c.state("C").get("forwarded")

    assert scenario(clusters.stock()) == ([], None)
    assert scenario(clusters.ours()) == (["done"], 1)


def test_r09b_a_restarted_node_does_not_take_an_answer_to_its_former_life(clusters):
    """The command of B's former life waits at the leader while B starts anew."""

    def scenario(c):
        c.healthy()
        c.submit("B", "first")
        c.tick("B")
        for message in c.wires["B", "A"]:
            c.arrive("B", "A", message)  # no tick of A yet
        c.restart("B")
        c.connect("A", "B")
        c.connect("B", "C")
        for _ in range(3):
            c.beat("A")
            c.exchange("A", "C")
            c.deliver("A", "B", 1)
            c.deliver("B", "A")
        c.submit("B", "second")
        for _ in range(3):
            c.tick("B")
            c.settle("A", "B", "C")
        return c.told["second"], c.state("C")

    ours = scenario(clusters.ours())
    assert ours == (["done"], {"first": 1, "second": 1})

    c = clusters.stock()
    c.healthy()
    c.submit("B", "first")
    c.tick("B")
    c.deliver("B", "A")
    c.restart("B")
    c.connect("A", "B")
    c.connect("B", "C")
    node = c.nodes["A"]
    node.set("raftNextIndex", dict.fromkeys(node.get("raftNextIndex"), 2))
    node.get("sendAppendEntries")()
    c.deliver("A", "B")
    c.submit("B", "second")
    c.tick("B")
    c.deliver("B", "A")
    c.tick("A")
    c.settle("A", "B", "C")
    assert c.told["second"] == ["done, with the result of first"]


@pytest.mark.parametrize("by_snapshot", [False, True])
def test_r09c_clients_of_a_deposed_leader_are_answered(clusters, by_snapshot):
    """Five commands wait at A when it is cut off and replaced. What came of them is known when A is
    back, by the log or by a snapshot; a client that is told nothing waits for ever."""
    names = [f"z{number}" for number in range(5)]

    def scenario(c):
        c.healthy()
        c.isolate("A")
        c.append("A", *names)
        c.elect("B", "C")
        if by_snapshot:
            c.append("B", *[f"n{number}" for number in range(9)])
        c.settle("B", "C")
        if by_snapshot:
            c.snapshot("B")
            c.settle("B", "C")
        c.connect("A", "B")
        for _ in range(8):
            c.settle("B", "A", "C")
        assert (c.log("A")[0][0] > 1) == by_snapshot
        c.clock.now_s += 10  # beyond every deadline
        c.tick("A")
        return [name for name in names if len(c.told[name]) != 1], c.state("C")

    waiting, _ = scenario(clusters.small("stock"))
    assert waiting
    waiting, state = scenario(clusters.small("ours"))
    assert waiting == []
    assert [state[name] for name in names] == [1] * 5


def test_r16_a_long_conflicting_tail_is_repaired(clusters):
    """A has entries of its own and missed more than one message's worth: two hints fight."""

    def scenario(c):
        c.healthy()
        c.isolate("A")
        c.append("A", "stale1", "stale2", "stale3")
        c.elect("B", "C")
        c.append("B", *[f"good{number}" for number in range(20)])
        c.settle("B", "C")
        c.crash("B")
        c.connect("A", "C")
        c.elect("C", "A")
        for _ in range(50):
            c.beat("C")
            c.exchange("A", "C")
            c.tick("A")
        return c.log("A") == c.log("C")

    assert scenario(clusters.small("stock")) is False
    assert scenario(clusters.small("ours")) is True


def test_r16_repair_does_not_take_a_heartbeat_for_each_entry(clusters):
    count = 60

    def scenario(c):
        c.healthy()
        c.isolate("A")
        c.append("A", *[f"stale{number}" for number in range(count)])
        c.elect("B", "C")
        c.append("B", *[f"good{number}" for number in range(count)])
        c.settle("B", "C")
        c.connect("A", "B")
        if not hasattr(c.nodes["B"], "raft"):
            last = c.log("B")[-1][0]
            node = c.nodes["B"]
            node.set("raftNextIndex", dict.fromkeys(node.get("raftNextIndex"), last + 1))
        messages, send = [], c.send
        c.send = lambda a, b, message: messages.append(b) or send(a, b, message)
        for beats in range(1, 1000):
            c.beat("B")
            c.exchange("A", "B")
            if c.log("A")[: len(c.log("B"))] == c.log("B"):
                return beats, messages.count("A")
        raise AssertionError("never")

    assert scenario(clusters.stock())[0] >= count
    beats, messages = scenario(clusters.ours())
    assert beats <= 3
    assert messages <= 20  # not one for each entry


def test_r17_nothing_spins_while_a_snapshot_is_written(clusters):
    """In stock the leader sends one empty message after the other until a heartbeat period is over,
    as long as its own dump is being written."""

    def scenario(c, begin_snapshot):
        c.healthy()
        c.isolate("C")
        c.append("A", *[f"x{number}" for number in range(6)])
        c.settle("A", "B")
        c.snapshot("A")
        c.append("A", "y")
        c.settle("A", "B")
        c.connect("A", "C")
        c.wires["A", "C"].clear()
        begin_snapshot(c)
        c.beat("A")
        return len(c.wires["A", "C"])

    def stock_begins(c):
        serializer = c.nodes["A"].get("serializer")
        serializer._Serializer__pid = 12345
        serializer._Serializer__useFork = False
        # Time passes while it spins: a millisecond each time that it looks at the clock.
        c.nodes["A"].conf.appendEntriesPeriod = 0.1
        c.clock.__class__ = Running

    def we_begin(c):
        c.nodes["A"].replica.snapshots.request()
        assert c.begin_turn("A").snapshot is not None
        c.wires["A", "C"].clear()

    ours = scenario(clusters.ours(), we_begin)
    assert ours <= 2  # a heartbeat, and an offer of the snapshot that there is
    assert scenario(clusters.stock(), stock_begins) > 20


class Running:
    """A clock that goes on by a millisecond whenever it is read."""

    _now_s = 2000.0

    @property
    def now_s(self) -> float:
        self._now_s += 0.001
        return self._now_s

    @now_s.setter
    def now_s(self, _) -> None:
        """It goes on by itself."""


def test_a_stopped_follower_costs_a_bounded_amount_of_memory(clusters):
    """C is connected and answers nothing. Stock sends it everything."""
    count = 3 * replication.WINDOW_MESSAGES_MAX

    def scenario(c):
        c.healthy()
        for number in range(count):
            c.append("A", f"x{number}")
            if number % 20 == 0:
                c.beat("A")
                c.exchange("A", "B")
        c.beat("A")
        entries = [m for m in c.wires["A", "C"] if m.get("entries")]
        return sum(len(message["entries"]) for message in entries)

    assert scenario(clusters.stock()) == count
    assert scenario(clusters.ours()) <= replication.WINDOW_MESSAGES_MAX


def test_chunks_are_answered_so_that_a_transfer_keeps_its_leader(clusters):
    """B is down; C is filled up by a snapshot. In stock the leader hears nothing meanwhile."""

    def scenario(c):
        c.healthy()
        c.isolate("C")
        c.append("A", *[f"x{number}" for number in range(20)])
        c.settle("A", "B")
        c.snapshot("A")
        c.append("A", "y")
        c.settle("A", "B")
        c.isolate("B")
        c.connect("A", "C")
        c.beat("A")
        answers = 0
        for _ in range(6):
            c.deliver("A", "C", 1)
            answers += len(c.wires["C", "A"])
            c.deliver("C", "A")
            c.clock.now_s += RESEND_AFTER_S / 10
        return answers

    assert scenario(clusters.small("stock")) == 0
    assert scenario(clusters.small("ours")) >= 5
