"""Who may lead, and when: PreVote, stickiness, check-quorum, lost connections, handing over. Whole
replicas, stepped by hand (tests/defects/clusters.py)."""

from __future__ import annotations

import pytest

from goblin_raft.consensus.elections import LOST_LEADER_WAIT_MIN_S, LOST_LEADER_WAIT_SPREAD_S
from goblin_raft.consensus.replica import HAND_OVER_S, SILENT_HEARTBEATS
from tests.defects.conftest import clock, clusters  # noqa: F401 fixtures

ELECTION_MIN_S, ELECTION_MAX_S, QUORUM_S, HEARTBEAT_S = 0.5, 1.0, 1.0, 0.05


@pytest.fixture
def c(clusters):  # noqa: F811
    """A healthy cluster; A leads."""
    cluster = clusters.ours()
    cluster.healthy()
    return cluster


def pass_time(c, seconds: float, *nodes: str, step_s: float = 0.02) -> None:
    """Time passes for these nodes as it does for real ones, and messages among them arrive."""
    end_s = c.clock.now_s + seconds
    while c.clock.now_s < end_s:
        c.clock.now_s += step_s
        for node in nodes:
            c.tick(node)
        c.exchange(*nodes)


def leader_of(c, *nodes: str) -> str | None:
    found = [node for node in nodes if c.is_leader(node)]
    return found[0] if len(found) == 1 else None


def vote_request(c, node: str, *, term: int, transfer: bool = False) -> dict:
    index, last_term = c.log(node)[-1]
    return {
        "type": "request_vote",
        "term": term,
        "last_log_index": index,
        "last_log_term": last_term,
        "transfer": transfer,
    }


# ---- PreVote ------------------------------------------------------------------------------------


def test_a_node_that_is_alone_raises_no_term(c):
    term = c.term("C")
    c.isolate("C")
    pass_time(c, 10, "C")
    assert c.term("C") == term
    assert not c.is_leader("C")


def test_a_node_that_was_alone_for_long_changes_nothing_when_it_returns(c):
    term = c.term("A")
    c.isolate("C")
    pass_time(c, 5, "A", "B", "C")
    c.append("A", "meanwhile")
    c.settle("A", "B")
    c.connect("A", "C")
    c.connect("B", "C")
    pass_time(c, 2, "A", "B", "C")
    assert (leader_of(c, "A", "B", "C"), c.term("A")) == ("A", term)
    assert c.state("C") == {"meanwhile": 1}


def test_a_node_with_less_is_refused_before_it_raises_a_term(c):
    c.isolate("C")
    c.append("A", "x")
    c.settle("A", "B")
    c.crash("A")
    term = c.term("B")
    c.connect("B", "C")
    c.time_out("C")
    c.tick("C")
    c.deliver("C", "B")
    answers = [m for m in c.wires["B", "C"] if m["type"] == "pre_vote_answer"]
    assert [answer["granted"] for answer in answers] == [False]
    c.exchange("B", "C")
    assert not c.is_leader("C")
    assert c.term("B") == c.term("C") == term


# ---- stickiness ---------------------------------------------------------------------------------


def test_who_hears_a_leader_grants_nobody_else_a_pre_vote(c):
    c.nodes["C"].raft._election_deadline_s = 0.0
    c.tick("C")
    c.deliver("C", "A")
    c.deliver("C", "B")
    for node in "AB":
        answers = [m for m in c.wires[node, "C"] if m["type"] == "pre_vote_answer"]
        assert [answer["granted"] for answer in answers] == [False], node


def test_who_hears_a_leader_does_not_even_take_a_term_from_a_candidate(c):
    term = c.term("B")
    for node in "AB":
        c.arrive("C", node, vote_request(c, "C", term=term + 5))
        c.tick(node)
        assert c.term(node) == term
    assert c.is_leader("A")


def test_a_leader_that_is_silent_for_long_enough_is_followed_by_another(c):
    # Its connections stay, as when its machine has lost its power: no closing is seen.
    pass_time(c, ELECTION_MIN_S - 0.05, "B", "C")
    assert leader_of(c, "B", "C") is None
    pass_time(c, 3 * ELECTION_MAX_S, "B", "C")
    assert leader_of(c, "B", "C") is not None


# ---- check-quorum -------------------------------------------------------------------------------


def test_a_leader_without_a_majority_steps_down(c):
    c.isolate("A")
    pass_time(c, QUORUM_S - 0.1, "A")
    assert c.is_leader("A")
    pass_time(c, 0.2, "A")
    assert not c.is_leader("A")
    c.submit("A", "x")
    pass_time(c, 2, "A")
    assert c.told["x"] == ["refused"]


def test_a_leader_that_was_not_answered_for_some_heartbeats_takes_nothing_new(c):
    """What it has not proposed it can still refuse with certainty."""
    c.isolate("A")
    pass_time(c, (SILENT_HEARTBEATS + 1) * HEARTBEAT_S, "A")
    assert c.is_leader("A")
    last = c.log("A")[-1]
    c.submit("A", "x")
    pass_time(c, 3, "A")
    assert c.log("A")[-1] == last
    assert c.told["x"] == ["refused"]


def test_one_of_two_followers_is_majority_enough(c):
    c.isolate("C")
    term = c.term("A")
    pass_time(c, 5, "A", "B")
    assert (leader_of(c, "A", "B"), c.term("A")) == ("A", term)


# ---- a lost connection to the leader ------------------------------------------------------------


def test_closed_connections_of_the_leader_are_noticed_before_any_timeout(c):
    """kill -9: the kernel closes them. Another leads before an election_min (500 ms) is over."""
    c.crash("A")
    began_s = c.clock.now_s
    while leader_of(c, "B", "C") is None:
        pass_time(c, 0.004, "B", "C", step_s=0.002)
        assert c.clock.now_s - began_s < ELECTION_MIN_S
    assert c.clock.now_s - began_s < LOST_LEADER_WAIT_MIN_S + LOST_LEADER_WAIT_SPREAD_S + 0.05


def test_one_closed_connection_of_a_healthy_leader_costs_no_election(c):
    term = c.term("A")
    for _ in range(10):
        c.cut("A", "B")
        pass_time(c, 0.2, "A", "B", "C")
        c.connect("A", "B")
        pass_time(c, 0.1, "A", "B", "C")
    assert (leader_of(c, "A", "B", "C"), c.term("A")) == ("A", term)


# ---- handing over -------------------------------------------------------------------------------


def test_leadership_is_handed_over_without_a_timeout(c):
    began_s = c.clock.now_s
    c.nodes["A"].replica.hand_over()
    c.tick("A")
    c.exchange()
    assert leader_of(c, "A", "B", "C") in ("B", "C")
    assert c.clock.now_s - began_s < 0.001  # no time has passed but that of the turns themselves


def test_commands_that_arrive_meanwhile_are_done_by_the_next_leader(c):
    c.nodes["A"].replica.hand_over()
    for node in "ABC":
        c.submit(node, f"from-{node}")
        c.tick(node)
    c.exchange()
    pass_time(c, 1, "A", "B", "C")
    assert c.told == {f"from-{node}": ["done"] for node in "ABC"}
    assert c.state("A") == {f"from-{node}": 1 for node in "ABC"}
    assert not c.is_leader("A")


def test_it_waits_for_a_follower_with_all_entries(c):
    """Both lag; the last entries arrive, and then one of them is asked."""
    c.append("A", "x", "y")
    c.nodes["A"].replica.hand_over()
    c.tick("A")
    asked = [m for t in "BC" for m in c.wires["A", t] if m["type"] == "timeout_now"]
    assert asked == []
    c.exchange()
    assert leader_of(c, "A", "B", "C") in ("B", "C")
    assert c.told == {"x": ["done"], "y": ["done"]}


def test_it_is_given_up_when_nobody_takes_over(c):
    """Whoever is asked hangs. Commands wait meanwhile, and are done when the leader goes on."""
    send = c.send
    c.send = lambda a, b, message: message["type"] == "timeout_now" or send(a, b, message)
    c.nodes["A"].replica.hand_over()
    c.submit("A", "x")
    began_s = c.clock.now_s
    while not c.told["x"]:
        c.clock.now_s += 0.02
        c.beat("A")
        c.exchange()
        assert c.clock.now_s - began_s < HAND_OVER_S
    assert c.told["x"] == ["done"]
    assert c.clock.now_s - began_s > HAND_OVER_S / 4
    assert c.is_leader("A")


def test_only_the_leader_of_this_term_can_ask_to_take_over(c):
    term = c.term("B")
    for source, asked_term in (("C", term), ("A", term - 1), ("A", term + 1)):
        c.arrive(source, "B", {"type": "timeout_now", "term": asked_term})
        c.tick("B")
        assert c.term("B") == term
        assert not c.is_leader("B")


def test_a_vote_in_a_transfer_is_given_by_who_hears_the_leader(c):
    term = c.term("C")
    c.arrive("B", "C", vote_request(c, "B", term=term + 1, transfer=True))
    c.tick("C")
    assert c.term("C") == term + 1
    assert [m["granted"] for m in c.wires["C", "B"] if m["type"] == "vote_answer"] == [True]


def test_a_transfer_gives_no_votes_to_a_node_with_less(c):
    request = vote_request(c, "B", term=c.term("C") + 1, transfer=True)
    request["last_log_index"] -= 1
    c.arrive("B", "C", request)
    c.tick("C")
    assert [m["granted"] for m in c.wires["C", "B"] if m["type"] == "vote_answer"] == [False]
