"""Makes a history that no correct store can give small, so that a person sees what is wrong.

Each step weakens the history in a way that a correct store's history survives, so what is left is
still a proof:

- the end is cut off: what had not ended by then may have been executed or not;
- an operation whose answer says that it changed nothing is left out;
- the answer of another one is forgotten: it becomes one of unknown outcome.

Operations of unknown outcome stay in the proof, since any of them might be the excuse, but who
reads the proof wants those alone that could matter: `relevant` keeps what shares a value with them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from chaos.history import Operation
from chaos.requests import changes_nothing

Invalid = Callable[[Sequence[Operation]], bool]


def forgotten(operation: Operation) -> Operation:
    """The same operation, if nobody had seen its answer."""
    return replace(operation, outcome="unknown", value=None, end_ms=None, error="not needed")


def cut_off(operations: Sequence[Operation], at_ms: float) -> list[Operation]:
    """What was known at a moment."""
    return [
        operation
        if operation.end_ms is not None and operation.end_ms <= at_ms
        else forgotten(operation)
        for operation in operations
        if operation.start_ms <= at_ms
    ]


def shrink(
    operations: Sequence[Operation],
    suspected: set[str],
    values: Callable[[Operation], set[str]],
    invalid: Invalid,
    limit_s: float,
) -> list[Operation]:
    """The smallest part that still proves it, as far as the time suffices.

    What mentions a suspected value, or a value that is mentioned together with one, is mostly the
    whole proof, so that is tried first.
    """
    until = time.monotonic() + limit_s
    left = list(operations)
    nearby = suspected.union(*(values(o) for o in left if values(o) & suspected))
    for wanted in (suspected, nearby):
        guess = _without(left, {id(o) for o in left if not values(o) & wanted})
        if invalid(guess):
            left = guess
            break
    size = len(left)
    while size >= 1:
        at = 0
        while at < len(left) and time.monotonic() < until:
            part = left[at : at + size]
            weaker = _without(left, {id(operation) for operation in part})
            if any(operation.outcome == "ok" for operation in part) and invalid(weaker):
                at += len(weaker) - len(left)
                left = weaker
            at += size
        size //= 2
    return left


def _without(operations: list[Operation], forgotten_ids: set[int]) -> list[Operation]:
    """The history if the answers of these operations were not known."""
    left = []
    for operation in operations:
        if operation.outcome == "unknown" or id(operation) not in forgotten_ids:
            left.append(operation)
        elif not changes_nothing(operation):
            left.append(forgotten(operation))
    return left


def shortest_beginning(
    operations: Sequence[Operation], invalid: Invalid, limit_s: float
) -> list[Operation]:
    """Up to the first answer that cannot be right. What holds for a beginning holds for all."""
    until = time.monotonic() + limit_s
    ordered = sorted(operations, key=lambda operation: operation.start_ms)
    ends = sorted({o.end_ms for o in ordered if o.outcome == "ok" and o.end_ms is not None})
    low, high = 0, len(ends) - 1
    while low < high and time.monotonic() < until:
        middle = (low + high) // 2
        if invalid(cut_off(ordered, ends[middle])):
            high = middle
        else:
            low = middle + 1
    return cut_off(ordered, ends[high]) if ends else ordered


def relevant(
    operations: Sequence[Operation], values: Callable[[Operation], set[str]]
) -> list[Operation]:
    """Those whose answers matter, and those of unknown outcome that share a value with them."""
    known = [operation for operation in operations if operation.outcome == "ok"]
    wanted = set().union(*map(values, known))
    return [o for o in operations if o.outcome == "ok" or values(o) & wanted]
