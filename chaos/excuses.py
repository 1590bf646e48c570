"""What is left of the operations of unknown outcome: which are alike, and which can still serve.

The search can use each of them once to explain an answer. Without more knowledge it would have to
tell apart all the ways in which it used some of them: a factor of two for each. But two that differ
only in a value that nobody mentions (any more) serve equally well, so only their number counts; and
one whose token can never be held again serves no more.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from chaos.history import Operation
from chaos.requests import compared, keys_changed, keys_that_matter, needs_value, seen, written

ALWAYS = 1 << 60

Held = tuple[tuple[str, str, bool], ...]


class Excuses:
    """The unknown operations of one search, by their position in order of their starts."""

    def __init__(self, known: list[Operation], unknown: list[Operation], *, timed: bool) -> None:
        self.known = known
        # With leases, or several keys at once, one operation can serve another in many ways.
        self.simple = not timed and all(o.op in ("get", "set", "cas", "del") for o in unknown)
        self.changes = [keys_changed(operation) for operation in unknown]
        self.change_several = any(len(keys) > 1 for keys in self.changes)
        self.matters = [keys_that_matter(operation) for operation in unknown]
        # By value: who writes it. By operation: which values it asks for itself.
        self.writers: dict[str, int] = {}
        self.asks = [compared(operation) for operation in unknown]
        for u, operation in enumerate(unknown):
            for value in written(operation):
                self.writers[value] = self.writers.get(value, 0) | 1 << u
        # Up to which known operation a value is mentioned, or written; ALWAYS if by an unknown one.
        mentioned: dict[str, int] = {}
        made: dict[str, int] = {}
        for i, operation in enumerate(known):
            for value in written(operation) | seen(operation) | compared(operation):
                mentioned[value] = i
            for value in written(operation):
                made[value] = i
        among_unknown = Counter(v for o in unknown for v in written(o) | compared(o))
        for operation in unknown:
            made.update(dict.fromkeys(written(operation), ALWAYS))
        self.kinds: list[int] = []  # each the set of those that are alike, but for a value
        self.twins: list[int | None] = []
        # Its values are mentioned up to here: from then on only its kind counts.
        self.serves_until: list[int] = []
        self.tokens: list[frozenset[str]] = []
        places: dict[Any, int] = {}
        last: dict[Any, int] = {}
        for u, operation in enumerate(unknown):
            values = written(operation)
            kind = _kind(operation, values)
            self.kinds.append(0) if kind not in places else None
            self.kinds[places.setdefault(kind, len(self.kinds) - 1)] |= 1 << u
            until = -1
            for value in values:
                until = max(until, mentioned.get(value, -1))
                if among_unknown[value] > 1:
                    until = ALWAYS
            tokens = compared(operation)
            for token in tokens:
                until = max(until, made.get(token, -1))
            self.serves_until.append(until)
            self.tokens.append(frozenset(tokens))
            alike = until == -1 and not tokens
            self.twins.append(last.get(kind) if alike else None)
            if alike:
                last[kind] = u
        self.own = [self._own_from(low) for low in range(len(known) + 1)]

    def _own_from(self, low: int) -> int:
        return sum(1 << u for u, until in enumerate(self.serves_until) if until >= low)

    def serving(self, needy: list[int]) -> int:
        """Those that may help one of these known operations, at first or second hand."""
        if not self.simple or not all(needs_value(self.known[i]) for i in needy):
            return self._on_keys(set().union(*(keys_that_matter(self.known[i]) for i in needy)))
        found = 0
        values = set().union(*(seen(self.known[i]) for i in needy))
        while values:
            more = self.writers.get(values.pop(), 0) & ~found
            found |= more
            values = values.union(*(self.asks[u] for u in _bits(more)))
        return found

    def _on_keys(self, keys: set[str]) -> int:
        found = 0
        while True:
            more = 0
            for u, changed in enumerate(self.changes):
                if changed & keys:
                    more |= 1 << u
            if more == found:
                return found
            found = more
            keys = keys.union(*(self.matters[u] for u in _bits(found)))

    def is_next(self, u: int, mask: int) -> bool:
        """Whether it is the first of those alike that is not used up: the others can wait."""
        twin = self.twins[u]
        return twin is None or bool(mask >> twin & 1)

    def used_up(self, mask: int, low: int, held: Held) -> tuple[int, list[int]]:
        """Which of the used ones could still serve as themselves, and how many of each kind."""
        own = mask & self.own[low]
        rest = mask & ~own
        counts = [(rest & kind).bit_count() for kind in self.kinds]
        for u in _bits(rest):
            if self.tokens[u] and any(value in self.tokens[u] for _, value, _ in held):
                own |= 1 << u
        return own, counts


def _kind(operation: Operation, values: set[str]) -> Any:
    if operation.op == "txn":
        return ("txn", str(operation.args))
    return (
        operation.op,
        operation.key,
        tuple(str(word) for word in operation.args if str(word) not in values),
    )


def _bits(mask: int) -> list[int]:
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found
