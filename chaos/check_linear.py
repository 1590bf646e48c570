"""Linearizability: all answers about one key, or one group of keys, fit one order of execution.

Keys that no operation names together are independent, so each group is searched by itself. The
search decides everything at once: stale reads, lost or doubled writes, leases that end early, two
holders, results that change. What it finds is shrunk to the operations that prove it.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence

from chaos.findings import Check
from chaos.history import History, Operation
from chaos.model import EARLY_MS, Store
from chaos.requests import compared, has_deadlines, keys_of, seen, written
from chaos.search import Result, search
from chaos.shrink import relevant, shortest_beginning, shrink

NAME = "linearizable"
OPS = ("get", "set", "cas", "incr", "del", "claim", "publish", "renew", "release", "txn")
# More broken keys than this say nothing new, and each costs time to shrink.
SHRUNK_MAX = 3
SHRINK_S = 5.0
SHRINK_STEP_S = 2.0


def groups(operations: Sequence[Operation]) -> list[list[Operation]]:
    """The operations by independent groups of keys."""
    parent: dict[str, str] = {}

    def root(key: str) -> str:
        while parent.setdefault(key, key) != key:
            parent[key] = parent[parent[key]]
            key = parent[key]
        return key

    first: list[str] = []
    for operation in operations:
        keys = sorted(keys_of(operation))
        first.append(keys[0])
        for key in keys:
            parent[root(key)] = root(keys[0])
    found: dict[str, list[Operation]] = defaultdict(list)
    for operation, key in zip(operations, first, strict=True):
        found[root(key)].append(operation)
    return list(found.values())


def check(history: History, limit_s: float = 60.0) -> Check:
    """Search each group; a group that takes too long is not passed."""
    result = Check(NAME)
    early_ms = history.run.get("early_ms", EARLY_MS)
    executed = [o for o in history.of(*OPS) if o.outcome != "fail"]
    parts = groups(executed)
    until = time.monotonic() + limit_s
    steps = 0
    undecided: list[str] = []
    for done, part in enumerate(parts):
        store = Store(timed=any(map(has_deadlines, part)), early_ms=early_ms)
        # What is left of the time is shared evenly, and what a group does not need is the next's.
        share_s = 4 * max(until - time.monotonic(), 0.1) / (len(parts) - done + 3)
        found = search(part, store, share_s)
        steps += found.steps
        result.looked_at += sum(o.outcome == "ok" for o in part)
        if found.valid == "unknown":
            undecided.append(part[0].key)
        elif not found.valid:
            _explain(result, part, store, found)
    if undecided:
        result.undecided(f"no decision within {limit_s:.0f} s about {', '.join(undecided[:5])}")
    result.figures = {"groups": len(parts), "steps": steps}
    return result


def _explain(result: Check, part: list[Operation], store: Store, found: Result) -> None:
    names = ", ".join(sorted({key for operation in part for key in keys_of(operation)})[:4])
    text = f"no order of execution gives these answers about {names}"
    if len(result.findings) >= SHRUNK_MAX:
        result.broken("linearizable", text, *found.stuck)
        return

    def invalid(operations: Sequence[Operation]) -> bool:
        return search(operations, store, SHRINK_STEP_S).valid is False

    beginning = shortest_beginning(part, invalid, SHRINK_S)
    found = search(beginning, store, SHRINK_STEP_S)
    suspected = {value for _, value, _ in found.state[1]}.union(*map(_values, found.stuck))
    proof = shrink(beginning, suspected, _values, invalid, SHRINK_S)
    shown = relevant(proof, _values)
    others = len(proof) - len(shown)
    if others:
        text += f" ({others} more may have been executed, and do not help)"
    result.broken("linearizable", text, *shown)


def _values(operation: Operation) -> set[str]:
    return written(operation) | seen(operation) | compared(operation)
