"""Looks for an order in which one correct store could have given all answers of a history.

The search is Wing and Gong's with Lowe's memory: put next any operation that began before every
operation still to be put had ended, go back when the model refuses, and never come twice to one
(set of operations put, state). It knows nothing of what operations mean; the model says that.

An operation of unknown outcome may come anywhere after its start, or nowhere. Trying each of them
everywhere would cost a factor of two for each, so they are put only directly before an operation
that needs them: where u and then x could as well be x and then u, or x alone, only those are tried.
Every order can be brought to that form by leaving such a u out or moving it back, one step at a
time, and each step makes the order shorter or an unknown operation later, so that comes to an end.

A limit of time or memory ends the search with "unknown": it never passes what it has not shown.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import le
from typing import Any, Literal, NamedTuple

from chaos.excuses import Excuses
from chaos.history import Operation
from chaos.model import EMPTY, FOREVER, State, Store
from chaos.requests import changes_nothing, writes_blindly

Valid = bool | Literal["unknown"]

PLACES_MAX = 1_000_000
LOOK_AT_CLOCK_EVERY = 256


@dataclass(frozen=True, slots=True)
class Result:
    """What the search found: whether there is an order, and how far the best attempt came."""

    valid: Valid
    steps: int
    # Of the attempt that put the most: what could not be put next, each with the state it met.
    stuck: tuple[Operation, ...] = ()
    state: State = EMPTY


class _Place(NamedTuple):
    """How far an attempt is. Everything known before `low` is put, and what `mask` says after."""

    low: int
    mask: int
    unknown_mask: int
    state: State


def search(operations: Iterable[Operation], model: Store, limit_s: float = FOREVER) -> Result:
    """Whether the operations that may have been executed can be put in order."""
    return _Search(operations, model, limit_s).run()


class _LimitReached(Exception):
    """The search has used up its time."""


class _Search:
    def __init__(self, operations: Iterable[Operation], model: Store, limit_s: float) -> None:
        ordered = sorted(operations, key=lambda operation: operation.start_ms)
        self.known = [o for o in ordered if o.outcome == "ok"]
        self.unknown = [o for o in ordered if o.outcome == "unknown"]
        self.ends = [FOREVER if o.end_ms is None else o.end_ms for o in self.known]
        self.model = model
        self.until = time.monotonic() + limit_s
        self.steps = 0
        self.reads = [changes_nothing(operation) for operation in self.known]
        self.excuses = Excuses(self.known, self.unknown, timed=model.timed)
        # By what is put and what is held: what the places visited had used up, and their times.
        self.visited: dict[tuple[Any, ...], list[tuple[int, list[int], tuple[float, ...]]]] = {}
        self.places = 0

    def run(self) -> Result:
        if not self.known:
            return Result(True, 0)
        best, best_count = _Place(0, 0, 0, EMPTY), 0
        stack = [self._next(best)]
        while stack:
            try:
                place = next(stack[-1], None)
            except _LimitReached:
                return self._result("unknown", best)
            if place is None:
                stack.pop()
                continue
            if place.low == len(self.known):
                return Result(True, self.steps)
            if not self._is_new(place):
                continue
            count = place.low + place.mask.bit_count()
            if count > best_count:
                best, best_count = place, count
            if self.places > PLACES_MAX:
                return self._result("unknown", best)
            stack.append(self._next(place))
        return self._result(False, best)

    def _is_new(self, place: _Place) -> bool:
        """Whether no place visited is as good: with the same put and held, no later, and with
        nothing used up that could still serve here."""
        now, items = place.state
        held = tuple((key, value, deadline is None) for key, value, deadline in items)
        times = (now, *(deadline for _, _, deadline in items if deadline is not None))
        used, counts = self.excuses.used_up(place.unknown_mask, place.low, held)
        free = ~used
        known = self.visited.setdefault((place.low, place.mask, held), [])
        for other_used, other_counts, others in known:
            if (
                not other_used & free
                and all(map(le, other_counts, counts))
                and all(map(le, others, times))
            ):
                return False
        known.append((used, counts, times))
        self.places += 1
        return True

    def _step(self, state: State, operation: Operation) -> State | None:
        self.steps += 1
        if self.steps % LOOK_AT_CLOCK_EVERY == 0 and time.monotonic() > self.until:
            raise _LimitReached
        return self.model.step(state, operation)

    def _result(self, valid: Valid, best: _Place) -> Result:
        stuck = tuple(self.known[i] for i in self._candidates(best)[0])
        return Result(valid, self.steps, stuck, best.state)

    def _candidates(self, place: _Place) -> tuple[list[int], float]:
        """What may be put next, and the moment by which something of it must have happened."""
        found = []
        first_end = FOREVER
        for i in range(place.low, len(self.known)):
            if place.mask >> (i - place.low) & 1:
                continue
            if self.known[i].start_ms > first_end:
                break
            found.append(i)
            first_end = min(first_end, self.ends[i])
        return found, first_end

    def _next(self, place: _Place) -> Iterator[_Place]:
        """All places one known operation further."""
        candidates, first_end = self._candidates(place)
        if place.state[0] > first_end:
            return  # what ends first would come too late
        reached = []
        needy = []
        for i in candidates:
            after = self._step(place.state, self.known[i])
            if after == place.state and self.reads[i]:
                # It never changes anything and fits here: here is as good as anywhere later.
                yield self._put(place, i, place.unknown_mask, after)
                return
            if after is not None:
                reached.append((i, after))
            if self._may_need_others(place.state, self.known[i], after):
                needy.append(i)
        reached.sort(key=lambda pair: self.ends[pair[0]])
        for i, after in reached:
            yield self._put(place, i, place.unknown_mask, after)
        if not needy:
            return
        for state, mask, last in self._by_unknown(place, self.excuses.serving(needy), first_end):
            for i in needy:
                after = self._step(state, self.known[i])
                if after is not None and not self._can_do_without(last, self.known[i], after):
                    yield self._put(place, i, mask, after)

    def _may_need_others(self, state: State, operation: Operation, after: State | None) -> bool:
        """Whether unknown operations directly before it might make a difference to it.

        They can where it is not possible without them. Where it is, it either does not touch what
        they change or writes over it, except when it had to wait for a deadline that they might
        have moved, and when it writes over only a part of what they write.
        """
        if after is None:
            return True
        waited = self.model.timed and after[0] > max(state[0], operation.start_ms)
        return waited or (self.excuses.change_several and writes_blindly(operation))

    def _by_unknown(
        self, place: _Place, serving: int, first_end: float
    ) -> Iterator[tuple[State, int, tuple[int, State]]]:
        """The states after one or more unknown operations, fewest first, with what is used up; and
        for the last of them, which it was and in which state."""
        best: dict[tuple[tuple[str, str], ...], list[tuple[int, State]]] = {}
        reached = deque([(place.state, place.unknown_mask)])
        best[_held(place.state)] = [(place.unknown_mask, place.state)]
        while reached:
            state, mask = reached.popleft()
            left = serving & ~mask
            while left:
                u = (left & -left).bit_length() - 1
                left &= left - 1
                operation = self.unknown[u]
                if operation.start_ms > first_end:
                    break
                if not self.excuses.is_next(u, mask):
                    continue
                after = self._step(state, operation)
                if after is None or after[0] > first_end:
                    continue
                used = mask | 1 << u
                known = best.setdefault(_held(after), [])
                if any(not other & ~used and _as_good(one, after) for other, one in known):
                    continue
                known.append((used, after))
                reached.append((after, used))
                yield after, used, (u, state)

    def _can_do_without(self, last: tuple[int, State], operation: Operation, end: State) -> bool:
        """Whether `operation` can come without the unknown one before it, or before that one."""
        u, state = last
        alone = self._step(state, operation)
        if alone is None:
            return False
        if _as_good(alone, end):
            return True
        swapped = self._step(alone, self.unknown[u])
        return swapped is not None and _as_good(swapped, end)

    def _put(self, place: _Place, i: int, unknown_mask: int, state: State) -> _Place:
        low, mask = place.low, place.mask | 1 << (i - place.low)
        while mask & 1:
            mask >>= 1
            low += 1
        if low < len(self.known):
            state = self.model.not_before(state, self.known[low].start_ms)
        return _Place(low, mask, unknown_mask, state)


def _held(state: State) -> tuple[tuple[str, str], ...]:
    return tuple((key, value) for key, value, _ in state[1])


def _as_good(one: State, other: State) -> bool:
    """Whether one state holds what another holds, and is no later in anything."""
    if one[0] > other[0] or len(one[1]) != len(other[1]):
        return False
    for (key, value, deadline), (other_key, other_value, other_deadline) in zip(
        one[1], other[1], strict=True
    ):
        if key != other_key or value != other_value:
            return False
        if deadline != other_deadline and (
            deadline is None or other_deadline is None or deadline > other_deadline
        ):
            return False
    return True
