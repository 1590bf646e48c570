"""Exactly once, by counting: every acknowledged increment counts once, a failed one never.

Whatever a counter shows lies between what was certainly added before the request that shows it
began, and what may have been added by its end. The last reads, after everything has ended, make
that: acknowledged <= final <= acknowledged + unknown. Increments are INCRBY, or a compare-and-set
or a watched transaction from n to n + 1; two of those that won with one n are a lost update.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import accumulate

from chaos.findings import Check
from chaos.history import History, Operation
from chaos.model import FOREVER
from chaos.requests import commands_of

NAME = "counters"


@dataclass(slots=True)
class Counter:
    """What happened to one key."""

    base: int = 0
    added: list[tuple[Operation, int]] = field(default_factory=list)
    maybe: list[tuple[Operation, int]] = field(default_factory=list)
    shown: list[tuple[Operation, int]] = field(default_factory=list)
    won_from: dict[int, Operation] = field(default_factory=dict)
    doubles: list[tuple[int, Operation, Operation]] = field(default_factory=list)
    unfit: bool = False


def check(history: History) -> Check:
    """All keys that nothing but increments and reads were done to, after one first value."""
    result = Check(NAME, of="increments")
    counters: dict[str, Counter] = defaultdict(Counter)
    for operation in history.operations:
        if operation.outcome != "fail" and operation.op != "digest":
            _take(counters, operation)
    for key, counter in counters.items():
        if not counter.unfit and (counter.added or counter.maybe):
            _check_key(result, key, counter)
    return result


def _number(value: object) -> int | None:
    text = str(value)
    return int(text) if text.lstrip("-").isdigit() else None


def _take(counters: dict[str, Counter], operation: Operation) -> None:
    known, value, args = operation.outcome == "ok", operation.value, operation.args
    counter = counters[operation.key]
    match operation.op:
        case "get" if known:
            number = 0 if value is None else _number(value)
            counter.unfit |= number is None
            counter.shown.append((operation, number or 0))
        case "get":
            pass
        case "set" if known and len(args) == 1 and not counter.added and not counter.maybe:
            counter.base = _number(args[0]) or 0
            counter.unfit |= _number(args[0]) is None
        case "incr":
            amount = int(args[0]) if args else 1
            (counter.added if known else counter.maybe).append((operation, amount))
            counter.unfit |= amount < 1
            if known:
                counter.shown.append((operation, int(value)))
        case "cas":
            _compare_and_set(counter, operation, args[0], args[1], known, value == "OK")
        case "txn":
            _transaction(counters, operation)
        case _:
            counter.unfit = True


def _transaction(counters: dict[str, Counter], operation: Operation) -> None:
    commands = commands_of(operation)
    watched = {words[1]: words[2] for words in commands if words[0] == "WATCH"}
    known, value = operation.outcome == "ok", operation.value
    for name, *words in commands:
        counter = counters[words[0]]
        if name == "SET" and words[0] in watched and len(words) == 2:
            old, won = watched[words[0]] or 0, value is not None
            _compare_and_set(counter, operation, old, words[1], known, won)
        elif name not in ("WATCH", "GET"):
            counter.unfit = True


def _compare_and_set(
    counter: Counter,
    operation: Operation,
    old: object,
    new: object,
    known: bool,
    won: bool,
) -> None:
    before, after = _number(old), _number(new)
    if before is None or after != before + 1:
        counter.unfit = True
        return
    if not known:
        counter.maybe.append((operation, 1))
    elif won:
        counter.added.append((operation, 1))
        other = counter.won_from.setdefault(before, operation)
        if other is not operation:
            counter.doubles.append((before, other, operation))


def _check_key(result: Check, key: str, counter: Counter) -> None:
    result.looked_at += len(counter.added) + len(counter.maybe)
    for number, first, second in counter.doubles:
        text = f"two increments of {key} both won from {number}"
        result.broken("lost update", text, first, second)
    ended = _sums((o.end_ms or FOREVER, amount) for o, amount in counter.added)
    started = _sums((o.start_ms, amount) for o, amount in [*counter.added, *counter.maybe])
    last_end = max((o.end_ms or 0.0 for o, _ in counter.added), default=0.0)
    final: tuple[Operation, int] | None = None
    for operation, number in counter.shown:
        end = FOREVER if operation.end_ms is None else operation.end_ms
        times, sums = ended
        least = counter.base + sums[bisect_left(times, operation.start_ms)]
        if operation.op == "incr":
            least += int(operation.args[0]) if operation.args else 1
        times, sums = started
        most = counter.base + sums[bisect_right(times, end)]
        if number < least:
            text = f"{key} was {number} when at least {least} had been acknowledged"
            result.broken("increment lost", text, operation)
        elif number > most:
            text = f"{key} was {number} when at most {most} can have been added"
            result.broken("counted twice", text, operation)
        if operation.op == "get" and operation.start_ms > last_end:
            final = (operation, number)
    if final is None:
        result.undecided(f"{key} was not read after its last increment")
        return
    sure, maybe = (sum(n for _, n in part) for part in (counter.added, counter.maybe))
    result.figures[key] = f"{sure} acknowledged, {maybe} unknown, final {final[1] - counter.base}"


def _sums(pairs: Iterable[tuple[float, int]]) -> tuple[list[float], list[int]]:
    ordered = sorted(pairs)
    sums = [0, *accumulate(amount for _, amount in ordered)]
    return [time for time, _ in ordered], sums
