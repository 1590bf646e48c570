"""Results of claims are never lost and never changed: what was published is what callers are told.

Like check_claims.py it looks at what is certain. A published result is there from the end of the
request that published it until its start + expiry. Whoever asks within that time must be told a
result; and never one that nobody published, or that was certainly replaced before he asked.
"""

from __future__ import annotations

from collections import defaultdict

from chaos.findings import Check
from chaos.history import History, Operation
from chaos.model import EARLY_MS, FOREVER
from chaos.requests import Touch, touches

NAME = "results"


def check(history: History) -> Check:
    """All rules on all result keys."""
    result = Check(NAME, of="answers about a result")
    early_ms = float(history.run.get("early_ms", EARLY_MS))
    keys = {str(operation.args[0]) for operation in history.of("claim")}
    by_key: dict[str, list[Touch]] = defaultdict(list)
    for operation in history.operations:
        for touch in touches(operation):
            if touch.name == "GOBLIN.CLAIM":
                if touch.known and touch.reply != "CLAIMED":
                    by_key[str(touch.words[1])].append(touch)
            elif touch.key in keys:
                by_key[touch.key].append(touch)
    for key, on_key in by_key.items():
        if all(touch.name in ("SET", "GET", "GOBLIN.CLAIM") for touch in on_key):
            _check_key(result, key, on_key, early_ms)
    return result


def _check_key(result: Check, key: str, on_key: list[Touch], early_ms: float) -> None:
    published = [touch for touch in on_key if touch.name == "SET"]
    sure = [(p, *_sure(p, published, early_ms)) for p in published if p.known]
    for touch in on_key:
        if touch.name == "SET" or not touch.known:
            continue
        result.looked_at += 1
        operation = touch.operation
        told = _told(touch)
        if told is None:
            for publication, begin, end in sure:
                if begin < operation.start_ms and _end(operation) < end:
                    text = f"{operation.node} had no result in {key}, which was published"
                    result.broken("result lost", text, publication.operation, operation)
                    break
            continue
        sources = [
            p
            for p in published
            if str(p.words[1]) == told and p.operation.start_ms <= _end(operation)
        ]
        if not sources:
            text = f"{operation.node} gave {told} as the result {key}; nobody had published that"
            result.broken("result from nowhere", text, operation)
            continue
        newest = max(_end(source.operation) if source.known else FOREVER for source in sources)
        for later in published:
            if (
                later.known
                and str(later.words[1]) != told
                and later.operation.start_ms > newest
                and _end(later.operation) < operation.start_ms
            ):
                text = f"{operation.node} gave the result {told} of {key} after it was replaced"
                evidence = (sources[0].operation, later.operation, operation)
                result.broken("result stale", text, *evidence)
                break


def _told(touch: Touch) -> str | None:
    reply = touch.reply[1] if isinstance(touch.reply, list) else touch.reply
    return None if reply is None else str(reply)


def _sure(publication: Touch, published: list[Touch], early_ms: float) -> tuple[float, float]:
    """From when until when a result is there for sure; others may replace it by shorter ones."""
    begin = _end(publication.operation)
    ends = [
        other.operation.start_ms + _life_ms(other) - early_ms
        for other in published
        if not (other.known and _end(other.operation) < publication.operation.start_ms)
    ]
    return begin, min(ends)


def _life_ms(publication: Touch) -> float:
    words = publication.words
    if len(words) < 4:
        return FOREVER
    return float(words[3]) * (1000 if words[2] == "EX" else 1)


def _end(operation: Operation) -> float:
    return FOREVER if operation.end_ms is None else operation.end_ms
