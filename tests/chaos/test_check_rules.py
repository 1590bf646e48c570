"""Counters, errors, reads, transactions, convergence, gaps: right passes, wrong is found."""

from __future__ import annotations

import pytest

from chaos import (
    availability,
    check_convergence,
    check_counters,
    check_errors,
    check_reads,
    check_transactions,
)
from chaos.history import Event, History
from tests.chaos.stores import Simulated, failed, lost, ok, op
from tests.chaos.test_check_linear import RIGHT, WRONG, register_requests


def check(checker, operations, events=(), **run):
    return checker.check(History(run, sorted(operations, key=lambda o: o.start_ms), list(events)))


def broken(checker, operations, **run):
    return {finding.rule for finding in check(checker, operations, **run).findings}


# ---- counters ------------------------------------------------------------------------------------


def plus(start, end, value=None, **more):
    return op("incr", "k", (1,), start, end, value, **more)


def final(number, start=1000.0):
    return ok("get k", str(number), start, start + 10)


RIGHT_COUNTS = {
    "all acknowledged": [plus(0, 1, 1), plus(2, 3, 2), final(2)],
    "one unknown that counted": [plus(0, 1, 1), plus(2, None), final(2)],
    "one unknown that did not": [plus(0, 1, 1), plus(2, None), final(1)],
    "one failed": [plus(0, 1, 1), plus(2, 3, outcome="fail"), final(1)],
    "by compare and set": [
        ok("set k 5", "OK", 0, 1), ok("cas k 5 6", "OK", 2, 3), ok("cas k 5 6", 0, 4, 5), final(6),
    ],
    "by watched transaction": [
        op("txn", "k", (["WATCH", "k", None], ["SET", "k", 1]), 0, 1, ["OK"]),
        op("txn", "k", (["WATCH", "k", "1"], ["SET", "k", 2]), 2, 3, ["OK"]),
        op("txn", "k", (["WATCH", "k", "1"], ["SET", "k", 2]), 2, 3, None, outcome="ok"), final(2),
    ],
    "read on the way": [plus(0, 10, 1), ok("get k", None, 2, 3), ok("get k", "1", 4, 5), final(1)],
}  # fmt: skip
WRONG_COUNTS = {
    "increment lost": [
        [plus(0, 1, 1), plus(2, 3, 2), final(1)],
        [plus(0, 1, 1), plus(2, 3, 1), final(2)],
        [plus(0, 1, 1), ok("get k", "0", 2, 3), final(1)],
        [ok("set k 5", "OK", 0, 1), ok("cas k 5 6", "OK", 2, 3), final(5)],
    ],
    "counted twice": [
        [plus(0, 1, 1), plus(2, 3, 2), final(3)],
        [plus(0, 1, 1), plus(2, None), final(3)],
        [plus(0, 1, 1), plus(2, 3, outcome="fail"), final(2)],
        [ok("get k", "1", 0, 1), plus(2, 3, 1), final(1)],
    ],
    "lost update": [
        [ok("set k 5", "OK", 0, 1), ok("cas k 5 6", "OK", 2, 3), ok("cas k 5 6", "OK", 4, 5),
         final(6)],
        [op("txn", "k", (["WATCH", "k", None], ["SET", "k", 1]), 0, 1, ["OK"]),
         op("txn", "k", (["WATCH", "k", None], ["SET", "k", 1]), 2, 3, ["OK"]), final(1)],
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT_COUNTS)
def test_right_counts(name):
    found = check(check_counters, RIGHT_COUNTS[name])
    assert found.valid is True
    assert found.looked_at


@pytest.mark.parametrize("rule", WRONG_COUNTS)
def test_wrong_counts(rule):
    for operations in WRONG_COUNTS[rule]:
        assert rule in broken(check_counters, operations), operations


def test_a_counter_that_was_not_read_at_the_end_is_undecided():
    assert check(check_counters, [plus(0, 1, 1)]).valid == "unknown"


def test_what_is_no_counter_is_left_alone():
    moves = [
        op("txn", "", (["expect", "k", "5"], ["set", "k", "6"]), 0, 1, ["OK"]),
        op("txn", "", (["expect", "k", "6"], ["set", "k", "5"]), 2, 3, ["OK"]),
        op("txn", "", (["expect", "k", "5"], ["set", "k", "6"]), 4, 5, ["OK"]),
    ]
    assert broken(check_counters, moves) == set()
    assert check(check_counters, [ok("set k a", "OK", 0, 1), ok("get k", "a", 2, 3)]).looked_at == 0
    assert broken(check_counters, [ok("cas k 5 9", "OK", 0, 1), final(9)]) == set()


# ---- errors --------------------------------------------------------------------------------------

RIGHT_ERRORS = [
    [failed("set k 1", 0, 1), ok("get k", None, 2, 3)],
    [failed("set k 1", 0, 1), ok("set k 1", "OK", 2, 3), ok("get k", "1", 4, 5)],
    [failed("set k 1", 0, 1), lost("set k 1", 2), ok("get k", "1", 4, 5)],
    [failed("claim c r t 1", 0, 1), ok("renew c t 1000", 0, 2, 3)],
]
WRONG_ERRORS = [
    [failed("set k 1", 0, 1), ok("get k", "1", 2, 3)],
    [failed("set k 1", 0, 1), ok("cas k 1 2", "OK", 2, 3)],
    [failed("claim c r t 1", 0, 1), ok("renew c t 1000", 1, 2, 3)],
    [failed("claim c r t 1", 0, 1), ok("get c", "t", 2, 3)],
    [failed("publish r v 60", 0, 1), ok("claim c r t 1", ["result", "v"], 2, 3)],
    [failed("cas k 1 2", 0, 1), op("txn", "k", (["MGET", "k", "j"],), 2, 3, [["2", None]])],
    [op("txn", "k", (["SET", "k", "9"],), 0, 1, outcome="fail"), ok("get k", "9", 2, 3)],
]  # fmt: skip


def test_errors():
    for operations in RIGHT_ERRORS:
        assert broken(check_errors, operations) == set(), operations
    for operations in WRONG_ERRORS:
        assert broken(check_errors, operations) == {"error truth"}, operations
    counted = check(check_errors, WRONG_ERRORS[0])
    assert counted.looked_at == 1
    assert counted.figures == {"CLUSTERDOWN": 1}


# ---- reads ---------------------------------------------------------------------------------------

# Wrong, but not by what a single read tells.
ONLY_THE_SEARCH = {
    "two winners of one cas",
    "cas that should have won",
    "counted twice",
    "deleted what was not there",
    "chain with a link that began too late",
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_the_search_lets_pass_has_right_reads(name):
    assert broken(check_reads, RIGHT[name]) == set()


@pytest.mark.parametrize("name", sorted(set(WRONG) - ONLY_THE_SEARCH))
def test_wrong_reads(name):
    assert broken(check_reads, WRONG[name])


def test_a_stale_read_on_another_node():
    write = ok("set k 1", "OK", 0, 10, node="n1")
    found = check(check_reads, [write, ok("get k", None, 11, 12, node="n2")])
    assert [finding.rule for finding in found.findings] == ["stale read"]
    assert found.figures == {"after a write on another node": 1}


def test_a_value_that_was_written_twice_may_be_either():
    again = [ok("set k 1", "OK", 0, 10), ok("set k 2", "OK", 20, 30), ok("set k 1", "OK", 40, 50)]
    assert broken(check_reads, [*again, ok("get k", "1", 51, 52)]) == set()
    assert broken(check_reads, [*again, ok("get k", "2", 51, 52)]) == {"stale read"}
    assert broken(check_reads, [*again[:2], ok("get k", "1", 31, 32), again[2]]) == {"stale read"}


@pytest.mark.parametrize("seed", range(5))
def test_reads_of_simulated_stores(seed):
    right, wrong = Simulated(seed), Simulated(seed, frozenset({"stale"}))
    history = right.history(register_requests(right.random, 1000), clients=6)
    assert broken(check_reads, history) == set()
    history = wrong.history(register_requests(wrong.random, 1000), clients=6)
    assert broken(check_reads, history) == {"stale read"}


# ---- transactions --------------------------------------------------------------------------------

MOVE = op("txn", "", (["incr", "a", -5], ["incr", "b", 5]), 2, 3, [45, 55])
FULL = [ok("set a 50", "OK", 0, 1), ok("set b 50", "OK", 0, 1)]


def look(a, b, start=4.0):
    return op("txn", "", (["get", "a"], ["get", "b"]), start, start + 1, [a, b])


def test_transactions():
    right = check(check_transactions, [*FULL, look("50", "50", 1), MOVE, look("45", "55")])
    assert right.valid is True
    assert right.looked_at == 2
    assert right.figures == {"moves": 1, "aborted": 0}
    for a, b in (("45", "50"), ("50", "55"), (None, "55")):
        assert broken(check_transactions, [*FULL, MOVE, look(a, b)]) == {"atomicity"}
    by_mget = op("txn", "", (["MGET", "a", "b"],), 4, 5, [["45", "50"]])
    assert broken(check_transactions, [*FULL, MOVE, by_mget]) == {"atomicity"}
    part = op("txn", "", (["get", "a"],), 4, 5, ["45"])
    assert check(check_transactions, [*FULL, MOVE, part]).looked_at == 0


# ---- convergence ---------------------------------------------------------------------------------


def digest(node, index, state, start=0.0):
    return op("digest", "", (), start, start + 1, [index, state], node=node)


FINAL = Event(50.0, "phase", "final")
NODES = ("n1", "n2", "n3")


def test_convergence():
    late = [digest(node, 9, "x", 60) for node in NODES]
    assert check(check_convergence, late, [FINAL]).valid is True
    fork = [*late[:2], digest("n3", 9, "y", 60)]
    found = check(check_convergence, fork, [FINAL])
    assert [finding.rule for finding in found.findings] == ["convergence"]
    assert len(found.findings[0].operations) == 2
    early_fork = [digest("n1", 3, "x"), digest("n2", 3, "y"), *late]
    assert check(check_convergence, early_fork, [FINAL]).valid is False
    behind = [*late[:2], digest("n3", 8, "y", 60)]
    assert check(check_convergence, behind, [FINAL]).valid == "unknown"
    before = [digest(node, 9, "x", 10) for node in NODES]
    assert check(check_convergence, before, [FINAL]).valid == "unknown"


# ---- availability --------------------------------------------------------------------------------


def test_gaps_are_measured_while_a_fault_lasts_and_a_while_longer():
    answered = [
        ok("set k 1", "OK", t, t + 5) for t in (*range(0, 1000, 10), *range(1400, 9000, 10))
    ]
    events = [Event(1000, "fault", "kill"), Event(1100, "heal", "kill")]
    found = check(availability, answered, events)
    (outage,) = found.figures["outages"]
    assert outage["write_gap_ms"] == 405
    assert outage["read_gap_ms"] is None
    assert found.figures["write_gap_ms"] == {"median": 405, "worst": 405}
    assert found.figures["latency_ms"]["median"] == 5


def test_a_fault_that_nobody_survives_is_a_gap_to_its_end():
    events = [Event(1000, "fault", "kill"), Event(5000, "heal", "kill")]
    found = check(availability, [ok("get k", None, 0, 1010), failed("get k", 1100, 5000)], events)
    (outage,) = found.figures["outages"]
    assert outage["read_gap_ms"] == 3990
    assert outage["failed"] == 1


def test_all_nodes_must_serve_again():
    quiet = [Event(100.0, "phase", "quiet")]
    on = {node: ok("get k", None, 200, 210, node=node) for node in NODES}
    assert check(availability, on.values(), quiet).valid is True
    dead = [on["n1"], on["n2"], failed("get k", 200, 210, node="n3")]
    assert check(availability, dead, quiet).valid is False
    earlier = ok("get k", None, 50, 60, node="n3")
    assert check(availability, [*dead[:2], earlier], quiet).valid == "unknown"
