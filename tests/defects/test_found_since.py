"""Defects of our own, beyond the list of stock's: docs/consensus.md, O1 and on."""

from __future__ import annotations

import asyncio
import socket

import pytest

from goblin_raft.config import Config
from goblin_raft.consensus.log import Log
from goblin_raft.consensus.snapshot_transfer import RESEND_AFTER_S, Loading
from goblin_raft.consensus.snapshots import Snapshot, write_snapshot
from goblin_raft.consensus.transport import Network
from tests.conftest import free_port


def test_o1_a_restarted_node_takes_no_read_index_meant_for_its_former_life(clusters):
    """B asks for an index, restarts, and gets the answer to that first question after it has asked
    its own first one. In between a write was acknowledged."""
    c = clusters.ours()
    c.healthy()
    c.nodes["B"].replica.read(lambda failure: None)
    c.tick("B")
    c.deliver("B", "A")
    c.restart("B")
    c.connect("A", "B")
    c.beat("A")
    c.deliver("A", "B")
    c.deliver("A", "C")
    c.deliver("C", "A")  # C confirms the term: the answer to B's question leaves
    assert [m["type"] for m in c.wires["A", "B"]][-1] == "read_index"
    c.append("A", "new")
    c.deliver("A", "C")
    c.deliver("C", "A")
    assert c.told["new"] == ["done"]
    seen = []
    c.nodes["B"].replica.read(lambda failure: seen.append((failure, "new" in c.state("B"))))
    c.tick("B")
    while c.wires["A", "B"] and not seen:
        c.deliver("A", "B", 1)
    c.exchange()
    c.settle("A", "B", "C")
    assert seen == [(None, True)]


def test_o2_pre_votes_won_for_one_term_are_not_used_in_a_later_one(clusters):
    """A has won its pre-votes when C's request comes first; A votes for C, and is cut off. Its next
    timeout must ask again, and so raise nobody's term."""
    c = clusters.ours()
    c.nobody_leads()
    c.connect("A", "B")
    c.connect("B", "C")
    for candidate in "AC":
        c.time_out(candidate)
        c.tick(candidate)
        c.deliver(candidate, "B")
    c.deliver("B", "C")  # C has its pre-votes, and campaigns
    c.connect("A", "C")
    c.tick("C")
    request = {
        "type": "request_vote",
        "term": c.term("C"),
        "last_log_index": c.log("C")[-1][0],
        "last_log_term": c.log("C")[-1][1],
        "transfer": False,
    }
    assert c.term("C") == 2
    for message in c.wires["B", "A"]:
        c.arrive("B", "A", message)
    c.arrive("C", "A", request)
    c.tick("A")
    assert c.nodes["A"].log.getVotedForNodeId() == "C"
    c.deliver("A", "C")
    assert c.is_leader("C")
    c.isolate("A")
    c.nodes["A"].raft._election_deadline_s = 0.0
    c.tick("A")
    assert c.term("A") == c.term("C") == 2


def test_o3_leadership_is_not_handed_to_a_node_that_hangs(clusters):
    """B has every entry and its connection stands, but it has not answered for a while."""
    c = clusters.ours()
    c.healthy()
    c.clock.now_s += 0.2
    c.beat("A")
    c.exchange("A", "C")
    c.nodes["A"].replica.hand_over()
    c.tick("A")
    asked = [t for t in "BC" if any(m["type"] == "timeout_now" for m in c.wires["A", t])]
    assert asked == ["C"]


def test_o4_a_command_is_sent_again_when_the_way_to_the_leader_was_lost_for_a_moment(clusters):
    """Loss, return and the leader's next message all come in one turn."""
    c = clusters.ours()
    c.healthy()
    c.submit("B", "forwarded")
    c.tick("B")
    c.cut("A", "B")
    c.connect("A", "B")
    c.beat("A")
    c.deliver("A", "B")
    assert [m["type"] for m in c.wires["B", "A"]].count("forward") == 1


def test_o5_a_second_snapshot_waits_while_the_first_is_loaded(clusters, monkeypatch):
    """The connection was lost while B loads what it has received, and A has a newer one. Nothing is
    sent to and fro meanwhile; when the first is loaded, the second follows."""
    c = clusters.small("ours")
    c.healthy()
    c.isolate("B")
    c.append("A", *[f"x{number}" for number in range(20)])
    c.settle("A", "C")
    c.snapshot("A")
    step, stuck = Loading.step, [True]
    monkeypatch.setattr(Loading, "step", lambda self: False if stuck[0] else step(self))
    c.connect("A", "B")
    c.beat("A")
    pass_messages(c, 60)
    assert c.nodes["B"].raft.loading is not None
    c.append("A", *[f"y{number}" for number in range(20)])
    c.settle("A", "C")
    c.snapshot("A")
    c.cut("A", "B")
    c.connect("A", "B")
    c.beat("A")
    assert pass_messages(c, 60) < 10
    stuck[0] = False
    for _ in range(40):
        c.clock.now_s += RESEND_AFTER_S / 4
        c.beat("A")
        pass_messages(c, 60)
        c.exchange("A", "C")
    assert c.state("B") == c.state("A")


def pass_messages(c, most) -> int:
    """Between A and B, a turn each; how many rounds it took until all was silent."""
    for done in range(most):
        turn = c.begin_turn("B")
        c.end_turn("B", turn)
        c.deliver("B", "A")
        wire = c.wires["A", "B"]
        if not wire:
            return done
        while wire:
            c.arrive("A", "B", wire.popleft())
    return most


def written(log) -> None:
    batch = log.take(clock_ms=1, wall_ms=1)
    log.write(batch)
    log.written(batch)


def received(log, index: int, term: int, tmp_path) -> Snapshot:
    """All of a snapshot from elsewhere, on disk and not installed."""
    source = tmp_path / f"elsewhere-{index}"
    snapshot = Snapshot(index, term, *write_snapshot(source, [b"state"]))
    log.receive_part(snapshot, 0, source.read_bytes())
    written(log)
    return snapshot


def test_o6_a_part_of_the_next_snapshot_does_not_harm_the_one_that_is_installed(tmp_path):
    """Both in one batch: the first bytes of another snapshot delete all other parts."""
    log = Log(tmp_path / "n1", node_id="n1", cluster_name="goblin")
    first = received(log, 50, 3, tmp_path)
    log.install(first)
    second = Snapshot(80, 3, 1000, 5)
    log.receive_part(second, 0, b"abc")
    written(log)
    assert log.snapshot == first
    assert list(log.snapshot_blocks()) == [b"state"]
    assert log.snapshot_files.received(second) == 3
    log.close()


def test_o7_a_draft_that_is_done_while_a_newer_snapshot_is_being_written_is_forgotten(tmp_path):
    log = Log(tmp_path / "n1", node_id="n1", cluster_name="goblin")
    for index in range(2, 21):
        log.add(b"\0entry", index, 1)
    written(log)
    newer = received(log, 50, 3, tmp_path)
    draft = log.snapshot_files.draft_path(12, 1)
    own = Snapshot(12, 1, *write_snapshot(draft, [b"older state"]))
    log.install(newer)
    batch = log.take(clock_ms=1, wall_ms=1)  # the disk thread has it now
    log.publish(draft, own)
    log.write(batch)
    log.written(batch)
    log.add(b"\0entry", 51, 3)
    written(log)
    assert log.snapshot == newer
    log.close()
    log = Log(tmp_path / "n1", node_id="n1", cluster_name="goblin")
    assert list(log.snapshot_blocks()) == [b"state"]
    log.close()


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="not on this system")
def test_o8_both_ends_of_a_session_notice_silence():
    """What the kernel was asked to do; what comes of it: tests/chaos/test_netns.py."""
    ports = [free_port(), free_port()]
    peers = ",".join(f"n{i}=127.0.0.1:{port}" for i, port in enumerate(ports, 1))

    async def story():
        networks = [
            Network(
                Config(node_id=f"n{i}", raft=f"127.0.0.1:{port}", peers=peers),
                on_message=lambda peer, message: None,
                on_link=lambda peer, up: None,
            )
            for i, port in enumerate(ports, 1)
        ]
        for network in networks:
            await network.listen()
            network.dial()
        while not all(network._outgoing and network._incoming for network in networks):  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        options = set()
        for network in networks:
            for session in [*network._outgoing.values(), *network._incoming.values()]:
                connection = session.transport.get_extra_info("socket")
                options.add(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT))
        for network in networks:
            await network.close()
        return options

    assert asyncio.run(asyncio.wait_for(story(), 10)) == {Config().quorum_timeout_ms}


def test_o9_a_restarted_node_proposes_nothing_before_it_has_caught_up(clusters):
    """A led and died. It hears of the next leader first, and of all that it lacks after that. A
    command that it sent on in between would wait behind all that A must apply before."""
    c = clusters.ours()
    c.healthy()
    c.append("A", "a", "b")
    c.settle("A", "B", "C")
    c.crash("A")
    c.clock.now_s += 2  # nobody has heard a leader for a while
    c.elect("B", "C")
    c.append("B", "c", "d")
    c.settle("B", "C")
    c.start("A")
    c.connect("A", "B")
    c.submit("A", "new")
    forwarded_at = []
    c.beat("B")
    for _ in range(20):
        c.deliver("B", "A", 1)
        if any(m["type"] == "forward" for m in c.wires["A", "B"]):
            forwarded_at.append(c.nodes["A"].raft.last_applied)
            break
        c.deliver("A", "B")
    assert forwarded_at == [c.nodes["B"].raft.commit_index]


def test_o9_a_leader_that_was_started_again_appends_nothing_before_it_has_caught_up(
    clusters, monkeypatch
):
    """The outcomes of new commands would wait behind its whole log."""
    monkeypatch.setattr("goblin_raft.consensus.node.APPLY_ENTRIES_PER_TICK", 1)
    c = clusters.ours()
    c.healthy()
    c.append("A", "a", "b", "c")
    c.settle("A", "B", "C")
    for node in "ABC":
        c.restart(node)
    c.connect_all()
    c.elect("A", "B", heard=False)
    c.submit("A", "new")
    c.end_turn("A", c.begin_turn("A"))
    assert c.nodes["A"].raft.last_applied < c.nodes["A"].raft.stored_index
    assert "new" not in str(c.nodes["A"].log[-1])
    c.settle("A", "B", "C")
    assert c.told["new"] == ["done"]


def test_o10_a_node_with_a_long_tail_of_its_own_is_repaired(clusters):
    """A has seven entries that nobody else has. What B sends it is refused for two reasons: what
    continues A's own tail, and what lies beyond its end. Refusals of one kind, late, must not undo
    what B learnt from the other: without C, B needs A, and went round in circles for ever."""
    c = clusters.small("ours")
    c.healthy()
    c.cut("A", "C")
    c.append("A", "h", "i", "j")
    c.deliver("A", "B")
    c.isolate("A")
    c.append("A", *"abcdefg")
    c.depose("A")
    c.elect("B", "C", heard=False)
    c.append("B", "k", "l")
    c.depose("B")
    c.connect("A", "B")
    c.elect("B", "C", heard=False)  # and takes A to be where it is itself
    c.isolate("C")
    c.append("B", *"mnopqrstuvw")
    assert c.log("A")[-1][0] < c.log("B")[-1][0]
    for _ in range(20):  # as they come: all that was sent, then all the answers
        c.beat("B")
        c.deliver("B", "A")
        c.deliver("A", "B")
    assert c.log("A") == c.log("B")


def test_o11_what_a_later_leader_removes_in_the_same_turn_is_not_acknowledged(clusters):
    """B hears A, and C of a later term, before it has written anything: by the time that answers
    may leave, A's entry is gone."""
    c = clusters.ours()
    c.healthy()
    (index, term), clock_ms = c.log("B")[-1], int(c.clock.now_s * 1000)

    def entries(term):
        return {
            "type": "append_entries", "term": term, "commit_index": 1, "prev_index": index,
            "prev_term": c.log("B")[-1][1], "entries": [(b"\x01", index + 1, term)],
            "clock_ms": clock_ms, "answer": True,
        }  # fmt: skip

    c.arrive("A", "B", entries(term))
    c.arrive("C", "B", entries(term + 1))
    turn = c.begin_turn("B")
    answers = [(to, m["term"]) for to, m in turn.held if m["type"] == "append_answer"]
    assert answers == [("C", term + 1)]
    c.end_turn("B", turn)
    assert c.log("B")[-1] == (index + 1, term + 1)
