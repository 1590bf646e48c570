"""Each rule of claims and results is broken by some history, and by no right one, however close."""

from __future__ import annotations

import pytest

from chaos import check_claims, check_results
from chaos.history import History
from tests.chaos.stores import Simulated, failed, lost, ok, op
from tests.chaos.test_check_linear import RIGHT_CLAIMS, job_requests

A = ok("claim c r tA 1", "CLAIMED", 0, 10)
B = "claim c r tB 1"
COMPLETE = (["GOBLIN.CAEXPIRE", "c", "tA", 60000], ["SET", "r", "v", "EX", 60])


def broken(operations, checker=check_claims, **run):
    found = checker.check(History(run, sorted(operations, key=lambda o: o.start_ms)))
    return {finding.rule for finding in found.findings}


CLOSE = {
    "the next one when the lease can be over": [A, ok(B, "CLAIMED", 990, 1000)],
    "its request was under way for long": [A, ok(B, "CLAIMED", 20, 1005)],
    "the answer came when the lease was over": [
        ok("claim c r tA 1", "CLAIMED", 0, 1500), ok(B, "CLAIMED", 1010, 1020),
    ],
    "both may have been the first": [
        ok("claim c r tA 1", "CLAIMED", 0, 1200), ok(B, "CLAIMED", 0, 1100),
    ],
    "released just before": [A, ok("release c tA", 1, 500, 700), ok(B, "CLAIMED", 550, 560)],
    "perhaps released": [A, lost("release c tA", 500), ok(B, "CLAIMED", 550, 560)],
    "perhaps made shorter": [A, lost("renew c tA 10", 500), ok(B, "CLAIMED", 520, 560)],
    "two renewals at once, one shorter": [
        A, ok("renew c tA 5000", 1, 500, 600), ok("renew c tA 10", 1, 550, 560),
        ok(B, "CLAIMED", 600, 610),
    ],
    "deleted": [A, ok("del c", 1, 500, 510), ok(B, "CLAIMED", 511, 512)],
    "refused a little late": [A, ok(B, None, 1900, 2000)],
    "refused after a renewal that may have been the last": [
        A, lost("renew c tA 5000", 900), ok(B, None, 6500, 6510),
    ],
    "refused after a claim without an answer": [lost("claim c r tA 1", 0), ok(B, None, 9000, 9001)],
    "refused after a claim that was answered that nobody knows": [
        lost("claim c r tA 1", 0, 5), ok(B, None, 9000, 9001),
    ],
    "token of a claim without an answer": [
        lost("claim c r tA 1", 0), ok("get c", "tA", 9000, 9001),
    ],
    "renewed by a transaction": [
        A, op("txn", "c", COMPLETE, 500, 510, [1, "OK"]), ok(B, None, 40000, 40001),
    ],
}  # fmt: skip

RULES = {
    "double holder": {
        "one after the other": [A, ok(B, "CLAIMED", 500, 510)],
        "at once": [A, ok(B, "CLAIMED", 2, 12)],
        "just before the end": [A, ok(B, "CLAIMED", 900, 990)],
        "after a renewal": [
            A, ok("renew c tA 1000", 1, 900, 910), ok(B, "CLAIMED", 1500, 1510),
        ],
        "after a renewal in a transaction": [
            A, op("txn", "c", COMPLETE, 500, 510, [1, "OK"]), ok(B, "CLAIMED", 40000, 40001),
        ],
        "after a release of another token": [
            A, ok("release c tX", 0, 20, 30), ok(B, "CLAIMED", 40, 50),
        ],
        "a slow answer does not hide it": [A, ok("claim c r tB 0", "CLAIMED", 100, 600)],
        "a renewal at the last moment counts": [
            A, ok("renew c tA 1000", 1, 980, 1100), ok(B, "CLAIMED", 1200, 1210),
        ],
    },
    "token": {
        "none": [A, ok("get c", None, 500, 510, node="n3")],
        "another": [A, lost(B, 0), ok("get c", "tB", 500, 510, node="n3")],
        "one that nobody has": [A, ok("get c", "tX", 5, 15)],
        "of a failed claim": [failed("claim c r tA 1", 0, 10), ok("get c", "tA", 50, 60)],
        "renewed with another": [A, lost(B, 0), ok("renew c tB 1000", 1, 500, 510)],
        "refused by nobody": [ok(B, None, 5, 10)],
        "of a claim that came later": [
            ok("get c", "tA", 0, 5), ok("claim c r tA 1", "CLAIMED", 6, 9),
        ],
    },
    "claim lost": {
        "at renewal": [A, ok("renew c tA 1000", 0, 500, 510)],
        "at release": [A, ok("release c tA", 0, 500, 510)],
        "after a renewal": [
            A, ok("renew c tA 1000", 1, 500, 510), ok("renew c tA 1000", 0, 1400, 1410),
        ],
    },
    "lease too long": {
        "armed again": [A, ok(B, None, 2100, 2110)],
        "held after its release": [A, ok("release c tA", 1, 20, 30), ok(B, None, 1050, 1060)],
        "shown after it was over": [A, ok("get c", "tA", 2100, 2110)],
        "renewed after it was over": [A, ok("renew c tA 1000", 1, 2100, 2110)],
        "made shorter, and held": [
            A, ok("renew c tA 10", 1, 100, 110), ok(B, None, 1200, 1210),
        ],
    },
}  # fmt: skip
EACH = [(rule, name) for rule, cases in RULES.items() for name in cases]


@pytest.mark.parametrize("name", CLOSE)
def test_close_but_right(name):
    assert broken(CLOSE[name]) == set()


@pytest.mark.parametrize("name", RIGHT_CLAIMS)
def test_what_the_search_lets_pass_passes_here(name):
    assert broken(RIGHT_CLAIMS[name]) == set()
    assert broken(RIGHT_CLAIMS[name], check_results) == set()


@pytest.mark.parametrize("rule, name", EACH)
def test_each_rule_can_be_broken(rule, name):
    assert rule in broken(RULES[rule][name])


def test_a_run_may_allow_more():
    assert broken(RULES["lease too long"]["armed again"], late_ms=5000) == set()
    assert broken([A, ok(B, "CLAIMED", 900, 990)], early_ms=100) == set()


P = ok("publish r v 60", "OK", 20, 30)
TOLD = "claim c r tB 1"
RIGHT_RESULTS = {
    "told": [A, P, ok(TOLD, ["result", "v"], 40, 50)],
    "not yet": [A, P, ok(TOLD, None, 25, 26)],
    "no longer": [A, ok("publish r v 1", "OK", 20, 30), ok(TOLD, None, 1010, 1020)],
    "published without an answer": [
        A, lost("publish r v 60", 20), ok(TOLD, ["result", "v"], 40, 50),
    ],
    "not published without an answer": [A, lost("publish r v 60", 20), ok(TOLD, None, 40, 50)],
    "replaced, by a shorter one": [
        A, P, ok("publish r w 1", "OK", 100, 110), ok(TOLD, None, 1500, 1510),
    ],
    "published beside another": [
        A, P, ok("publish r w 60", "OK", 25, 35), ok(TOLD, ["result", "v"], 40, 50),
    ],
}  # fmt: skip
WRONG_RESULTS = {
    "result lost": [A, P, ok(TOLD, None, 40, 50)],
    "result from nowhere": [A, P, ok(TOLD, ["result", "w"], 40, 50)],
    "result stale": [
        A, P, ok("publish r w 60", "OK", 100, 110), ok("get r", "v", 120, 130),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT_RESULTS)
def test_right_results(name):
    assert broken(RIGHT_RESULTS[name], check_results) == set()


@pytest.mark.parametrize("rule", WRONG_RESULTS)
def test_wrong_results(rule):
    assert broken(WRONG_RESULTS[rule], check_results) == {rule}


@pytest.mark.parametrize("seed", range(10))
def test_a_correct_store_breaks_no_rule(seed):
    store = Simulated(seed)
    history = store.history(job_requests(store.random, 1500), clients=6)
    assert broken(history) == set()
    assert broken(history, check_results) == set()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("mistake", ["two holders", "lost renewal"])
def test_a_wrong_store_breaks_one(seed, mistake):
    store = Simulated(seed, frozenset({mistake}))
    history = store.history(job_requests(store.random, 1500), clients=6)
    assert store.made
    assert broken(history) & {"double holder", "token", "claim lost"}
