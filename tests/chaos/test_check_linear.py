"""The search agrees with the definition; right histories pass, wrong ones do not, proofs are small.

Most of the trust in the checkers rests here: the search is compared with brute force on thousands
of small random histories, right and wrong, and with the answers of a simulated store on large ones.
"""

from __future__ import annotations

import random

import pytest

from chaos import check_linear
from chaos.history import History
from chaos.model import Store
from chaos.requests import has_deadlines
from chaos.search import search
from tests.chaos.stores import HOLDER, Simulated, brute_force, failed, lost, ok, op


def verdict(*operations, **run):
    return check_linear.check(History(run, sorted(operations, key=lambda o: o.start_ms)))


# ---- by hand -----------------------------------------------------------------------------------

SET_1 = ok("set k 1", "OK", 0, 10)
SET_2 = ok("set k 2", "OK", 20, 30)

RIGHT = {
    "nothing at all": [],
    "read of an absent key": [ok("get k", None, 0, 1)],
    "read after write": [SET_1, ok("get k", "1", 11, 12)],
    "read beside the write sees the old value": [SET_1, SET_2, ok("get k", "1", 21, 29)],
    "read beside the write sees the new value": [SET_1, SET_2, ok("get k", "2", 21, 29)],
    "two reads beside the write, old then new": [
        SET_1, SET_2, ok("get k", "1", 21, 23), ok("get k", "2", 24, 26),
    ],
    "unknown write that took effect": [lost("set k 1", 0), ok("get k", "1", 50, 60)],
    "unknown write that did not": [lost("set k 1", 0), ok("get k", None, 50, 60)],
    "unknown write that took effect late": [
        lost("set k 1", 0), ok("get k", None, 50, 60), ok("get k", "1", 70, 80),
    ],
    "unknown write after another write": [
        lost("set k 1", 0), SET_2, ok("get k", "2", 40, 50), ok("get k", "1", 60, 70),
    ],
    "chain of unknown ones, each needed by the next": [
        lost("set k 1", 0), lost("cas k 1 2", 5), lost("cas k 2 3", 6), ok("get k", "3", 90, 99),
    ],
    "either of two explains the lost cas, and the first is seen later": [
        SET_1, lost("set k 7", 0), lost("set k 8", 0), ok("cas k 1 5", 0, 11, 12), SET_2,
        ok("get k", "7", 40, 41),
    ],
    "either of two explains the lost cas, and the second is seen later": [
        SET_1, lost("set k 7", 0), lost("set k 8", 0), ok("cas k 1 5", 0, 11, 12), SET_2,
        ok("get k", "8", 40, 41),
    ],
    "cas that won": [SET_1, ok("cas k 1 2", "OK", 11, 12), ok("get k", "2", 13, 14)],
    "cas that lost": [SET_1, ok("cas k 7 8", 0, 11, 12), ok("get k", "1", 13, 14)],
    "failed writes do not count": [failed("set k 1", 0, 5), ok("get k", None, 6, 7)],
    "equal moments are not an order": [SET_1, ok("get k", None, 10, 12)],
    "counting": [op("incr", "k", (), 0, 5, 1), op("incr", "k", (2,), 6, 7, 3)],
    "deleting": [SET_1, ok("del k", 1, 11, 12), ok("get k", None, 13, 14), ok("del k", 0, 15, 16)],
}  # fmt: skip

WRONG = {
    "acknowledged write is lost": [SET_1, ok("get k", None, 11, 12)],
    "stale read": [SET_1, SET_2, ok("get k", "1", 31, 32)],
    "value from nowhere": [SET_1, ok("get k", "9", 11, 12)],
    "value before it was written": [ok("get k", "1", 0, 1), ok("set k 1", "OK", 2, 3)],
    "new value, then old again": [
        SET_1, SET_2, ok("get k", "2", 21, 23), ok("get k", "1", 24, 26),
    ],
    "unknown write seen, then gone": [
        SET_1, lost("set k 2", 20), ok("get k", "2", 30, 31), ok("get k", "1", 40, 41),
    ],
    "unknown write took effect twice": [
        lost("set k 1", 0), ok("get k", "1", 10, 11), SET_2, ok("get k", "2", 31, 32),
        ok("get k", "1", 33, 34),
    ],
    "unknown write before its start": [ok("get k", "1", 0, 1), lost("set k 1", 5)],
    "write that was said not to be executed": [failed("set k 1", 0, 5), ok("get k", "1", 6, 7)],
    "two winners of one cas": [
        SET_1, ok("cas k 1 2", "OK", 11, 15), ok("cas k 1 3", "OK", 11, 15),
    ],
    "cas that should have won": [SET_1, ok("cas k 1 2", 0, 11, 15)],
    "cas on what is not there": [SET_1, ok("cas k 5 2", "OK", 11, 15)],
    "chain with a link that began too late": [
        lost("set k 1", 0), lost("cas k 1 2", 95), lost("cas k 2 3", 6), ok("get k", "3", 90, 94),
    ],
    "counted twice": [op("incr", "k", (), 0, 5, 1), op("incr", "k", (), 6, 7, 3)],
    "deleted what was not there": [ok("del k", 1, 0, 1)],
    "write skew of two readers": [
        SET_1, SET_2, ok("get k", "2", 21, 22, process=1), ok("get k", "1", 23, 24, process=2),
        ok("get k", "2", 25, 26, process=1),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_right(name):
    assert verdict(*RIGHT[name]).valid is True


@pytest.mark.parametrize("name", WRONG)
def test_wrong(name):
    found = verdict(*WRONG[name])
    assert found.valid is False
    assert found.findings[0].operations


# ---- leases and results ------------------------------------------------------------------------

A = ok("claim c r tA 1", "CLAIMED", 0, 10)
B = "claim c r tB 1"
RIGHT_CLAIMS = {
    "refused while held": [A, ok(B, None, 500, 510)],
    "free after the lease": [A, ok(B, "CLAIMED", 1011, 1020)],
    "free as soon as the lease can be over": [A, ok(B, "CLAIMED", 900, 1000)],
    "held a little longer": [A, ok(B, None, 1100, 1200)],
    "free after release": [A, ok("release c tA", 1, 20, 30), ok(B, "CLAIMED", 31, 40)],
    "release beside the next claim": [A, ok("release c tA", 1, 20, 30), ok(B, "CLAIMED", 21, 22)],
    "release without an answer": [A, lost("release c tA", 20), ok(B, "CLAIMED", 31, 40)],
    "released without an answer, which only a later claim shows": [
        A, lost("release c tA", 20), ok(B, "CLAIMED", 900, 1100),
        ok("claim c r tC 1", "CLAIMED", 1850, 1950),
    ],
    "renewed": [A, ok("renew c tA 2000", 1, 500, 510), ok(B, None, 1500, 1510)],
    "renewed, then free": [A, ok("renew c tA 900", 1, 500, 510), ok(B, "CLAIMED", 1405, 1420)],
    "made shorter": [A, ok("renew c tA 100", 1, 200, 210), ok(B, "CLAIMED", 320, 330)],
    "made shorter without an answer": [A, lost("renew c tA 100", 200), ok(B, "CLAIMED", 320, 330)],
    "too late to renew": [A, ok("renew c tA 1000", 0, 1020, 1030), ok(B, "CLAIMED", 1031, 1040)],
    "claim without an answer holds": [lost("claim c r tA 1", 0), ok(B, None, 500, 510)],
    "claim without an answer does not": [lost("claim c r tA 1", 0), ok(B, "CLAIMED", 500, 510)],
    "result": [A, ok("publish r v 60", "OK", 20, 30), ok(B, ["result", "v"], 40, 50)],
    "result while it is written": [A, ok("publish r v 60", "OK", 20, 50), ok(B, None, 30, 40)],
    "result outlives the claim, which is free": [
        A, ok("publish r v 60", "OK", 20, 30), ok(B, "CLAIMED", 1040, 1050),
        ok("get r", "v", 1060, 1061),
    ],
    "result expires": [A, ok("publish r v 1", "OK", 20, 30), ok("get r", None, 1031, 1040)],
    "done in one step": [
        A,
        op("txn", "c", (["GOBLIN.CAEXPIRE", "c", "tA", 60000], ["SET", "r", "v", "EX", 60]),
           20, 30, [1, "OK"]),
        ok(B, ["result", "v"], 5000, 5010),
    ],
}  # fmt: skip
WRONG_CLAIMS = {
    "two holders": [A, ok(B, "CLAIMED", 500, 510)],
    "two holders at once": [A, ok(B, "CLAIMED", 2, 12)],
    "lease ends early": [A, ok(B, "CLAIMED", 900, 998)],
    "lease ends early after renewal": [
        A, ok("renew c tA 1000", 1, 500, 510), ok(B, "CLAIMED", 1400, 1450),
    ],
    "renewal found nothing too early": [A, ok("renew c tA 1000", 0, 500, 510)],
    "renewed after it was over": [
        A, ok("get c", None, 1020, 1030), ok("renew c tA 1000", 1, 1040, 1050),
    ],
    "released by somebody else": [A, ok("release c tX", 1, 20, 30)],
    "released twice": [A, ok("release c tA", 1, 20, 30), ok("release c tA", 1, 40, 50)],
    "still held after release": [A, ok("release c tA", 1, 20, 30), ok(B, None, 40, 50)],
    "refused by nobody": [ok(B, None, 500, 510)],
    "the wrong token": [A, ok("get c", "tB", 20, 30)],
    "a failed claim holds": [failed("claim c r tA 1", 0, 10), ok(B, None, 500, 510)],
    "result lost": [A, ok("publish r v 60", "OK", 20, 30), ok(B, None, 40, 50)],
    "result changed": [A, ok("publish r v 60", "OK", 20, 30), ok(B, ["result", "w"], 40, 50)],
    "result before it was written": [A, ok(B, ["result", "v"], 12, 15),
                                     ok("publish r v 60", "OK", 20, 30)],
    "result without an answer, seen and lost": [
        A, lost("publish r v 60", 20), ok(B, ["result", "v"], 40, 50),
        ok("get r", None, 60, 70),
    ],
    "unknown claim took effect twice": [
        lost("claim c r tA 1", 0), ok("get c", "tA", 10, 20), ok("release c tA", 1, 30, 40),
        ok("get c", "tA", 50, 60),
    ],
    "half of a completion": [
        A,
        op("txn", "c", (["GOBLIN.CAEXPIRE", "c", "tA", 60000], ["SET", "r", "v", "EX", 60]),
           20, 30, [1, "OK"]),
        ok(B, None, 40, 50),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT_CLAIMS)
def test_right_claims(name):
    assert verdict(*RIGHT_CLAIMS[name]).valid is True


@pytest.mark.parametrize("name", WRONG_CLAIMS)
def test_wrong_claims(name):
    assert verdict(*WRONG_CLAIMS[name]).valid is False


def test_a_run_may_allow_more():
    early = WRONG_CLAIMS["lease ends early"]
    assert verdict(*early, early_ms=200).valid is True


# ---- the search and the definition -------------------------------------------------------------


def small_history(rng: random.Random, timed: bool) -> list:
    """A few operations with any answers at all: sometimes right, often wrong."""
    operations = []
    for _ in range(rng.randint(2, 5)):
        start = rng.uniform(0, 60)
        end = start + rng.choice((1, 5, 30))
        outcome = "unknown" if rng.random() < 0.35 else "ok"
        if timed:
            name, args, values = rng.choice((
                ("claim", ("r", rng.choice("ab"), rng.choice((0.01, 0.03))),
                 ("CLAIMED", "CLAIMED", None, ["result", "1"])),
                ("renew", (rng.choice("ab"), rng.choice((5, 30))), (1, 0)),
                ("release", (rng.choice("ab"),), (1, 0)),
                ("get", (), (None, "a", "b")),
            ))  # fmt: skip
            key = "c"
            if rng.random() < 0.2:
                name, key, args, values = "publish", "r", ("1", 0.02), ("OK",)
        else:
            key = "k"
            name, args, values = rng.choice((
                ("set", (rng.choice("12"),), ("OK",)),
                ("get", (), (None, "1", "2", "3")),
                ("cas", rng.choice((("1", "2"), ("2", "3"), ("3", "1"))), ("OK", "OK", 0)),
            ))  # fmt: skip
        operations.append(op(name, key, args, start, end, rng.choice(values), outcome=outcome))
    return operations


@pytest.mark.parametrize("timed", [False, True])
def test_the_search_agrees_with_the_definition(timed):
    rng = random.Random(5 + timed)
    answers = {True: 0, False: 0}
    for _ in range(2000):
        history = small_history(rng, timed)
        store = Store(timed=timed)
        expected = brute_force(history, store)
        assert search(history, store).valid is expected, history
        answers[expected] += 1
    assert min(answers.values()) > 200


# ---- transactions --------------------------------------------------------------------------------

FULL = [ok("set a 50", "OK", 0, 1), ok("set b 50", "OK", 0, 1)]


def move(start, end, value, a=("50", "45"), b=("50", "55")):
    watched = (["expect", "a", a[0]], ["expect", "b", b[0]])
    done = (["set", "a", a[1]], ["set", "b", b[1]], ["get", "a"])
    return op("txn", "", (*watched, *done), start, end, value)


def look(a, b, start):
    return op("txn", "", (["get", "a"], ["get", "b"]), start, start + 1, [a, b])


RIGHT_TRANSACTIONS = {
    "moved": [*FULL, move(2, 3, ["OK", "OK", "45"]), look("45", "55", 4)],
    "aborted": [*FULL, move(2, 3, None), look("50", "50", 4)],
    "perhaps done, bound to what was perhaps done": [
        lost("set a 1", 0),
        op("txn", "", (["expect", "a", "1"], ["set", "b", "z"]), 0, None),
        ok("get b", "z", 5, 6),
    ],
    "perhaps moved": [*FULL, move(2, None, None), look("45", "55", 4)],
    "perhaps not moved": [*FULL, move(2, None, None), look("50", "50", 4)],
    "moved late": [*FULL, move(2, None, None), look("50", "50", 4), look("45", "55", 6)],
}
WRONG_TRANSACTIONS = {
    "half moved": [*FULL, move(2, 3, ["OK", "OK", "45"]), look("45", "50", 4)],
    "aborted, and moved": [*FULL, move(2, 3, None), look("45", "55", 4)],
    "moved twice from one look": [*FULL, move(2, 3, ["OK", "OK", "45"]),
                                  move(4, 5, ["OK", "OK", "45"])],
    "read under WATCH what was not there": [*FULL, move(2, 3, ["OK", "OK", "45"], a=("49", "45"))],
    "an error inside": [*FULL, move(2, 3, ["OK", {"error": "ERR"}, "45"])],
    "a reply from the future": [*FULL, move(2, 3, ["OK", "OK", "50"])],
    "perhaps moved, seen and gone": [
        *FULL, move(2, None, None), look("45", "55", 4), look("50", "50", 6),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT_TRANSACTIONS)
def test_right_transactions(name):
    assert verdict(*RIGHT_TRANSACTIONS[name]).valid is True


@pytest.mark.parametrize("name", WRONG_TRANSACTIONS)
def test_wrong_transactions(name):
    assert verdict(*WRONG_TRANSACTIONS[name]).valid is False


# ---- a simulated store -------------------------------------------------------------------------


def register_requests(rng, count, keys=2):
    """Reads, writes and comparisons with what was written lately."""
    written = ["0"]
    for number in range(count):
        key = f"k{rng.randrange(keys)}"
        dice = rng.random()
        if dice < 0.4:
            yield "get", key, ()
        elif dice < 0.75:
            written.append(str(number))
            yield "set", key, (written[-1],)
        else:
            yield "cas", key, (rng.choice(written[-4:]), f"c{number}")


def job_requests(rng, count, jobs=6):
    """Workers that race for jobs, with leases short enough to end while others wait."""
    tokens = ["t"]
    for number in range(count):
        job = f"j{rng.randrange(jobs)}"
        dice = rng.random()
        if dice < 0.5:
            tokens.append(f"t{number}")
            yield "claim", f"{job}:c", (f"{job}:r", tokens[-1], rng.choice((0.05, 0.2, 2)))
        elif dice < 0.6:
            yield "publish", f"{job}:r", (f"v{number}", rng.choice((0.1, 5)))
        elif dice < 0.75:
            yield "renew", f"{job}:c", (HOLDER, rng.choice((20, 600)))
        elif dice < 0.85:
            yield "release", f"{job}:c", (rng.choice((HOLDER, rng.choice(tokens))),)
        else:
            yield "get", f"{job}:c", ()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("requests", [register_requests, job_requests])
def test_a_correct_store_passes(seed, requests):
    store = Simulated(seed)
    history = store.history(requests(store.random, 600), clients=6)
    assert any(map(has_deadlines, history)) == (requests is job_requests)
    assert verdict(*history).valid is True


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    "requests, mistake",
    [
        (register_requests, "stale"),
        (register_requests, "lost write"),
        (register_requests, "blind cas"),
        (job_requests, "two holders"),
        (job_requests, "lost renewal"),
        (job_requests, "lost write"),
    ],
)
def test_a_wrong_store_is_found(seed, requests, mistake, monkeypatch):
    monkeypatch.setattr(check_linear, "SHRINK_S", 2.0)
    store = Simulated(seed, frozenset({mistake}))
    history = store.history(requests(store.random, 600), clients=4, unknown_share=0.05)
    assert store.made
    found = verdict(*history)
    assert found.valid is False
    assert min(len(finding.operations) for finding in found.findings) <= 8


def test_many_clients_and_lost_answers_are_decided_in_time():
    store = Simulated(1)
    history = store.history(register_requests(store.random, 2000), clients=20, unknown_share=0.03)
    assert verdict(*history).valid is True


def test_what_takes_too_long_is_not_passed():
    writes = [ok(f"set k {i}", "OK", 0, 100) for i in range(16)]
    reads = [ok("get k", f"{i}", 50, 60 + i) for i in range(16)] + [ok("get k", "x", 101, 102)]
    found = check_linear.check(History({}, [*writes, *reads]), limit_s=0.2)
    assert found.valid == "unknown"
    assert "k" in found.note


# ---- proofs ------------------------------------------------------------------------------------


def test_a_proof_is_small_among_thousands():
    store = Simulated(3)
    history = store.history(register_requests(store.random, 700, keys=1), clients=5)
    old = next(o for o in history if o.op == "set" and o.outcome == "ok")
    wrong = ok("get k0", old.args[0], history[-1].end_ms + 50, history[-1].end_ms + 60)
    found = verdict(*history, wrong)
    (finding,) = found.findings
    assert wrong in finding.operations
    assert len(finding.operations) <= 8
    assert "k0" in finding.text


def test_a_proof_does_not_blame_what_it_left_out():
    """Without the write there would be nothing wrong to see, or something else."""
    found = verdict(SET_1, SET_2, ok("get k", "1", 31, 32), ok("get k", "2", 33, 34))
    assert [o.op for o in found.findings[0].operations] == ["set", "set", "get"]
