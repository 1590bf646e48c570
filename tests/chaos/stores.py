"""Histories for the checkers' tests: of a correct store with random clients, and by brute force."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

from chaos.history import Operation
from chaos.model import EMPTY, FOREVER, Store

# Stands for the token that holds the claim when the request is sent.
HOLDER = "(holder)"


def op(name, key, args=(), start=0.0, end=None, value=None, *, outcome=None, process=0, node="n1"):
    """An operation, ok if it has an end."""
    outcome = outcome or ("unknown" if end is None else "ok")
    return Operation(process, node, name, key, tuple(args), start, end, outcome, value)


def ok(text, value, start, end, **more):
    """`ok("set k 1", "OK", 0, 10)`: one that was answered."""
    name, key, *args = text.split()
    numbers = [int(a) if a.isdigit() and name in ("claim", "publish", "renew") else a for a in args]
    return op(name, key, numbers, start, end, value, **more)


def lost(text, start, end=None, **more):
    """One of unknown outcome."""
    return replace(ok(text, None, start, end, **more), outcome="unknown")


def failed(text, start, end, **more):
    """One that was certainly not executed."""
    return replace(ok(text, None, start, end, **more), outcome="fail", error="CLUSTERDOWN")


def brute_force(operations, model: Store) -> bool:
    """The definition: some subset of the unknown and all known ones, in some order that fits."""
    known = [o for o in operations if o.outcome == "ok"]
    unknown = [o for o in operations if o.outcome == "unknown"]
    for count in range(len(unknown) + 1):
        for chosen in itertools.combinations(unknown, count):
            for order in itertools.permutations([*known, *chosen]):
                if _fits(order, model):
                    return True
    return False


def _fits(order, model: Store) -> bool:
    latest_start = 0.0
    state = EMPTY
    for operation in order:
        end = operation.end_ms if operation.outcome == "ok" else FOREVER
        if end < latest_start:
            return False
        latest_start = max(latest_start, operation.start_ms)
        after = model.step(state, operation)
        if after is None:
            if operation.outcome == "ok":
                return False
        else:
            state = after
    return True


def slow_search(operations, model: Store) -> bool:
    """The definition, without all permutations: only what was put and the state are remembered."""
    operations = [o for o in operations if o.outcome != "fail"]
    known = {i for i, o in enumerate(operations) if o.outcome == "ok"}
    seen = set()
    stack = [(frozenset(), EMPTY)]
    while stack:
        put, state = stack.pop()
        if known <= put:
            return True
        if (put, state) in seen:
            continue
        seen.add((put, state))
        first_end = min(operations[i].end_ms for i in known - put)
        for i, operation in enumerate(operations):
            if i not in put and operation.start_ms <= first_end:
                after = model.step(state, operation)
                if after is not None:
                    stack.append((put | {i}, after))
    return False


class Simulated:
    """A correct store in virtual time: each request takes effect at one moment within its interval.

    `mistakes` makes it a wrong one: a set of words that `_execute` looks at.
    """

    def __init__(self, seed: int, mistakes: frozenset[str] = frozenset()) -> None:
        self.random = random.Random(seed)
        self.mistakes = mistakes
        self.now = 0.0
        self.values: dict[str, tuple[str, float | None]] = {}
        self.older: dict[str, str] = {}
        self.made = 0  # how often a mistake was made

    def get(self, key: str) -> str | None:
        held = self.values.get(key)
        if held is None or (held[1] is not None and held[1] <= self.now):
            return None
        return held[0]

    def wrong(self, mistake: str, share: float = 0.1) -> bool:
        if mistake in self.mistakes and self.random.random() < share:
            self.made += 1
            return True
        return False

    def execute(self, name, key, args):
        held = self.get(key)
        match name:
            case "get":
                if key in self.older and held is not None and self.wrong("stale"):
                    return self.older[key]
                return held
            case "set" | "publish":
                if self.wrong("lost write", 0.3):
                    return "OK"
                if held is not None:
                    self.older[key] = held
                expiry = self.now + args[1] * 1000 if len(args) > 1 else None
                self.values[key] = (str(args[0]), expiry)
                return "OK"
            case "cas":
                if held != str(args[0]) and not (held is not None and self.wrong("blind cas")):
                    return 0
                self.older[key] = held
                self.values[key] = (str(args[1]), self.values[key][1])
                return "OK"
            case "del":
                return int(held is not None and self.values.pop(key) is not None)
            case "incr":
                number = int(held or 0) + args[0]
                self.values[key] = (str(number), None)
                return number
            case "txn":
                expected = [words for words in args if words[0] == "expect"]
                if any(self.get(words[1]) != words[2] for words in expected):
                    return None
                done = [words for words in args if words[0] != "expect"]
                return [self.execute(words[0], words[1], tuple(words[2:])) for words in done]
            case "claim":
                result_key, token, seconds = args
                if held is not None and not self.wrong("two holders"):
                    result = self.get(result_key)
                    return None if result is None else ["result", result]
                self.values[key] = (token, self.now + seconds * 1000)
                return "CLAIMED"
            case "renew":
                if held != args[0]:
                    return 0
                if not self.wrong("lost renewal", 0.5):
                    self.values[key] = (args[0], self.now + args[1])
                return 1
            case "release":
                if held != args[0]:
                    return 0
                del self.values[key]
                return 1
        raise ValueError(name)

    def _filled(self, key, argument):
        if isinstance(argument, list):
            return [self._filled(argument[1], word) for word in argument]
        return (self.get(key) or "nobody") if argument == HOLDER else argument

    def history(self, requests, clients: int, unknown_share: float = 0.1) -> list[Operation]:
        """Clients that send these requests, one after the other each, in parallel together."""
        operations = []
        free_at = [self.random.uniform(0, 20) for _ in range(clients)]
        planned = []
        for name, key, args in requests:
            client = min(range(clients), key=free_at.__getitem__)
            start = free_at[client]
            effect = start + self.random.uniform(0.1, 30)
            end = effect + self.random.uniform(0.1, 30)
            free_at[client] = end + self.random.uniform(0.1, 10)
            planned.append((effect, client, name, key, args, start, end))
        for effect, client, name, key, args, start, end in sorted(planned, key=lambda p: p[0]):
            self.now = effect
            args = tuple(self._filled(key, argument) for argument in args)
            node = f"n{client % 3 + 1}"
            if self.random.random() < unknown_share:
                if self.random.random() < 0.5:
                    self.execute(name, key, args)
                operations.append(
                    op(name, key, args, start, end, None, outcome="unknown", process=client)
                )
                continue
            value = self.execute(name, key, args)
            operations.append(op(name, key, args, start, end, value, process=client, node=node))
        return sorted(operations, key=lambda o: o.start_ms)
