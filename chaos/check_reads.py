"""Read your writes, on every node: a read sees what was acknowledged anywhere before it began.

It needs keys without expiry, and takes it that a value tells which write it was; where several
wrote the same, any of them may be meant. Then three things can be wrong with a read: its value was
certainly replaced before it began, its write began after it ended, or nobody wrote it. What a read
saw was written by the end of that read, so a write of unknown outcome, or a slow one, counts from
then on too: reads never go back.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass

from chaos.findings import Check
from chaos.history import History, Operation
from chaos.model import FOREVER
from chaos.requests import Touch, touches

NAME = "reads"


@dataclass(slots=True)
class Write:
    """A write that may have been executed; it certainly was by `done_ms`."""

    operation: Operation
    done_ms: float
    seen_by: Operation | None = None


def check(history: History) -> Check:
    """All reads of all keys that tell enough."""
    result = Check(NAME, of="reads")
    by_key: dict[str, list[Touch]] = defaultdict(list)
    unfit: set[str] = set()
    for operation in history.operations:
        for touch in touches(operation):
            by_key[touch.key].append(touch)
            if touch.name not in ("GET", "SET", "GOBLIN.CAS") or len(touch.words) > 3:
                unfit.update(map(str, touch.words[:2]))
    across = 0
    for key, on_key in by_key.items():
        if key not in unfit:
            across += _check_key(result, key, on_key)
    result.figures = {"after a write on another node": across}
    return result


def _writes(on_key: list[Touch]) -> dict[str, list[Write]]:
    """By value."""
    writes: dict[str, list[Write]] = defaultdict(list)
    for touch in on_key:
        if touch.name != "GET" and not (touch.known and touch.reply == 0):
            done = touch.operation.end_ms if touch.known else None
            write = Write(touch.operation, FOREVER if done is None else done)
            writes[str(touch.words[-1])].append(write)
    return writes


def _reads(on_key: list[Touch]) -> list[tuple[Operation, str | None]]:
    found: list[tuple[Operation, str | None]] = []
    for touch in on_key:
        if touch.known and touch.name == "GET":
            found.append((touch.operation, None if touch.reply is None else str(touch.reply)))
        elif touch.known and touch.name == "GOBLIN.CAS" and touch.reply == "OK":
            found.append((touch.operation, str(touch.words[1])))
    return found


def _check_key(result: Check, key: str, on_key: list[Touch]) -> int:
    writes = _writes(on_key)
    reads = _reads(on_key)
    result.looked_at += len(reads)
    for operation, value in reads:
        sources = writes.get(value, []) if value is not None else []
        end = FOREVER if operation.end_ms is None else operation.end_ms
        if len(sources) == 1 and end < sources[0].done_ms:
            sources[0].done_ms, sources[0].seen_by = end, operation
    every = [write for of_value in writes.values() for write in of_value]
    done = sorted((w for w in every if w.done_ms < FOREVER), key=lambda w: w.done_ms)
    times = [write.done_ms for write in done]
    newest: list[Write] = []  # of those done so far, the one that began last
    for write in done:
        later = not newest or write.operation.start_ms > newest[-1].operation.start_ms
        newest.append(write if later else newest[-1])
    across = 0
    for operation, value in reads:
        before = bisect_left(times, operation.start_ms)
        last = newest[before - 1] if before else None
        across += last is not None and last.operation.node != operation.node
        _check_read(result, key, operation, value, writes, last)
    return across


def _check_read(
    result: Check,
    key: str,
    read: Operation,
    value: str | None,
    writes: dict[str, list[Write]],
    last: Write | None,
) -> None:
    if value is None:
        if last is not None:
            text = f"{read.node} found nothing in {key} after a write to it was acknowledged"
            result.broken("stale read", text, *_evidence(last), read)
        return
    sources = writes.get(value, [])
    begun = [w for w in sources if read.end_ms is None or w.operation.start_ms <= read.end_ms]
    if not sources:
        result.broken("read from nowhere", f"{key} held {value}, which nobody wrote", read)
    elif not begun:
        text = f"{read.node} read {value} from {key} before it was written"
        result.broken("read from the future", text, read, sources[0].operation)
    elif last is not None and all(w.done_ms < last.operation.start_ms for w in begun):
        text = f"{read.node} read {value} from {key} after it was replaced"
        newest = max(begun, key=lambda w: w.done_ms)
        result.broken("stale read", text, *_evidence(newest), *_evidence(last), read)


def _evidence(write: Write) -> list[Operation]:
    acknowledged = write.operation.end_ms is not None and write.operation.outcome == "ok"
    if write.seen_by is None or (acknowledged and write.seen_by.end_ms == write.operation.end_ms):
        return [write.operation]
    return [write.operation, write.seen_by]
