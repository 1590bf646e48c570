"""Whether the history of one key has an order that explains every answer (Wing and Gong's search,
with Lowe's memory of what was tried); knows nothing of how the cluster works.

An operation that was never answered, or whose outcome is unknown, may have happened at any time
after its beginning, or never. A lease may end when its time has passed since the operation that
gave it *began*, and not before; that it ended is never certain, because it may end late.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

FOREVER = float("inf")
TRIES_MAX = 30_000
# Stamps are whole milliseconds, and steady clocks differ (docs/guarantees.md).
ROUNDING_MS = 1.5
RATE = 1 - 500e-6

OK, UNKNOWN = "ok", "unknown"


@dataclass
class Operation:
    """What a client asked and was told."""

    kind: str
    key: bytes
    arguments: tuple[Any, ...]
    start_ms: float
    end_ms: float = FOREVER
    outcome: str = UNKNOWN
    value: Any = None

    def __str__(self) -> str:
        end = "..." if self.end_ms == FOREVER else f"{self.end_ms:.1f}"
        told = self.value if self.outcome == OK else self.outcome
        return f"{self.start_ms:.1f}-{end} {self.kind} {self.key!r} {self.arguments} -> {told!r}"


State = tuple[bytes | None, float]  # the value, and from when on it may be gone
EMPTY: State = (None, FOREVER)


def next_states(state: State, operation: Operation) -> list[State]:
    """The states in which the operation can leave the key, given what it answered."""
    if state[0] is not None and state[1] <= operation.end_ms:
        both = [*_next(state, operation), *_next(EMPTY, operation)]
        return list(dict.fromkeys(both))
    return _next(state, operation)


def _next(state: State, operation: Operation) -> list[State]:
    kind, told, known = operation.kind, operation.value, operation.outcome == OK
    held = state[0]
    if kind in ("get", "peek"):
        return [state] if told == held else []
    if kind == "set":
        return [(operation.arguments[0], FOREVER)]
    if kind == "cas":
        old, new = operation.arguments
        did = held == old
        return [(new, state[1]) if did else state] if not known or did == bool(told) else []
    token, lease_ms = operation.arguments
    free_ms = operation.start_ms + lease_ms * RATE - ROUNDING_MS
    if kind == "claim":
        did = held is None
        after: State = (token, free_ms)
    else:
        did = held == token
        after = (token, free_ms) if kind == "renew" else EMPTY
    return [after if did else state] if not known or did == bool(told) else []


def explain(operations: list[Operation]) -> bool | None:
    """Whether there is an order; None when the search was given up."""
    operations = [o for o in operations if o.outcome == OK or o.kind not in ("get", "peek")]
    operations.sort(key=lambda o: (o.end_ms, o.start_ms))
    needed = sum(1 << i for i, o in enumerate(operations) if o.outcome == OK)
    stack: list[tuple[int, State]] = [(0, EMPTY)]
    tried = {stack[0]}
    while stack:
        done, state = stack.pop()
        if done & needed == needed:
            return True
        if len(tried) > TRIES_MAX:
            return None
        found = []
        limit_ms = FOREVER
        for i, operation in enumerate(operations):  # by their end
            if done >> i & 1:
                continue
            if operation.start_ms <= limit_ms:
                found += [
                    (done | 1 << i, after)
                    for after in next_states(state, operation)
                    if operation.outcome == OK or after != state
                ]
            if operation.outcome == OK:
                limit_ms = min(limit_ms, operation.end_ms)
        for item in reversed(found):
            if item not in tried:
                tried.add(item)
                stack.append(item)
    return False
