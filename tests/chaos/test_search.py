"""The search leaves out much of what a plain one would try; it must never matter.

Each history is one that a correct store gave to clients that lost many of their answers, and then
mostly one answer is changed. So about half of them are right, and the others wrong by a little.
"""

from __future__ import annotations

import os
import random
from dataclasses import replace

import pytest

from chaos.model import Store
from chaos.requests import has_deadlines
from chaos.search import search
from tests.chaos.stores import HOLDER, Simulated, brute_force, slow_search


def registers(rng):
    """Few keys, values that are written once, and some that are written often."""
    fresh = (str(number) for number in range(1000))
    while True:
        value = rng.choice((next(fresh), "a", "b"))
        yield rng.choice((
            ("get", "k", ()), ("get", "k", ()), ("set", "k", (value,)),
            ("cas", "k", (rng.choice("ab012345"), value)), ("del", "k", ()),
        ))  # fmt: skip


def counters(rng):
    while True:
        yield rng.choice((("get", "k", ()), ("incr", "k", (1,)), ("incr", "k", (2,))))


def jobs(rng):
    """Leases about as long as requests, so that much of it is a question of moments."""
    tokens = [f"t{number}" for number in range(1000)]
    for number in range(1000):
        lease_s = rng.choice((0.02, 0.05, 0.2))
        token = rng.choice((HOLDER, HOLDER, tokens[max(0, number - 2)]))
        yield rng.choice((
            ("claim", "c", ("r", tokens[number], lease_s)),
            ("claim", "c", ("r", tokens[number], lease_s)),
            ("publish", "r", (f"v{number}", rng.choice((0.03, 9)))),
            ("renew", "c", (token, rng.choice((10, 60)))),
            ("release", "c", (token,)),
            ("get", rng.choice("cr"), ()),
            ("txn", "", (["renew", "c", token, 60], ["set", "r", f"w{number}"])),
        ))  # fmt: skip


def transactions(rng):
    """Two keys that are read and written together, bound to what was read, and apart."""
    for number in range(1000):
        yield rng.choice((
            ("txn", "", (["get", "a"], ["get", "b"])),
            ("txn", "", (["set", "a", f"x{number}"], ["set", "b", f"x{number}"])),
            ("txn", "", (["expect", "a", HOLDER], ["set", "a", f"y{number}"], ["get", "b"])),
            ("txn", "", (["incr", "n", 1], ["set", "b", f"z{number}"])),
            ("get", rng.choice("ab"), ()),
            ("set", rng.choice("ab"), (f"s{number}",)),
        ))  # fmt: skip


def answers(kind, operation, rng):
    """Another answer that such a request may get."""
    values = [f"{letter}{number}" for letter in "txyzsvw" for number in range(8)]
    match operation.op:
        case "get":
            return rng.choice([None, *"ab0123", *values])
        case "cas":
            return rng.choice(("OK", 0))
        case "incr":
            return operation.value + rng.choice((-1, 1, 2))
        case "claim":
            return rng.choice(("CLAIMED", None, ["result", rng.choice(values)]))
        case "renew" | "release" | "del":
            return 1 - operation.value
        case "txn" if isinstance(operation.value, list):
            value = list(operation.value)
            at = rng.randrange(len(value))
            if value[at] != "OK":
                value[at] = rng.choice([None, *values]) if not isinstance(value[at], int) else 9
            return value
    return operation.value


def history_of(kind, seed: int, count: int):
    """A right one, or one that was right."""
    store = Simulated(seed)
    rng = store.random
    requests = [request for request, _ in zip(kind(rng), range(count), strict=False)]
    history = store.history(requests, clients=rng.choice((2, 3, 5)), unknown_share=0.4)
    known = [i for i, operation in enumerate(history) if operation.outcome == "ok"]
    if known and rng.random() < 0.75:
        i = rng.choice(known)
        history[i] = replace(history[i], value=answers(kind, history[i], rng))
    return history


# More on demand: python -m pytest tests/chaos/test_search.py, with GOBLIN_CHAOS_SEEDS=20000
RUNS = int(os.environ.get("GOBLIN_CHAOS_SEEDS", "500"))


@pytest.mark.parametrize("kind", [registers, counters, jobs, transactions])
def test_what_is_left_out_never_matters(kind):
    found = {True: 0, False: 0}
    for seed in range(RUNS):
        history = history_of(kind, seed, random.Random(seed).randint(4, 12))
        store = Store(timed=any(map(has_deadlines, history)))
        expected = slow_search(history, store)
        assert search(history, store).valid is expected, f"seed {seed}"
        found[expected] += 1
    assert min(found.values()) > RUNS // 6


@pytest.mark.parametrize("kind", [registers, counters, jobs, transactions])
def test_the_slow_search_is_the_definition(kind):
    for seed in range(150):
        history = history_of(kind, seed, 5)
        store = Store(timed=any(map(has_deadlines, history)))
        assert slow_search(history, store) is brute_force(history, store), f"seed {seed}"
