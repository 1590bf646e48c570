"""How long clients had to wait: after each fault, and whether all is well again at the end.

The gap of a fault is the longest time without an answer to any client that began while the fault
lasted, or within a while after it was healed. It is measured on reads and writes apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from statistics import median

from chaos.findings import Check
from chaos.history import Event, History, Operation
from chaos.requests import changes_nothing

NAME = "availability"
# What a fault does may show up so long after it was healed.
AFTER_MS = 3000.0


@dataclass(frozen=True, slots=True)
class Outage:
    """One fault and what clients felt of it."""

    what: str
    nodes: tuple[str, ...]
    begin_ms: float
    end_ms: float
    write_gap_ms: float | None
    read_gap_ms: float | None
    slowest_ms: float
    failed: int
    unknown: int


def outages(history: History) -> list[Outage]:
    """One for each fault, until it was healed and a while longer, or the next fault began."""
    faults = [event for event in history.events if event.kind == "fault"]
    last = max((o.end_ms or o.start_ms for o in history.operations), default=0.0)
    found = []
    for number, fault in enumerate(faults):
        following = faults[number + 1].time_ms if number + 1 < len(faults) else last
        end = min(_healed(history, fault, last) + AFTER_MS, max(following, fault.time_ms), last)
        if end <= fault.time_ms:
            continue
        within = [o for o in history.operations if _overlaps(o, fault.time_ms, end)]
        answered = [o for o in within if o.outcome == "ok" and o.op != "digest"]
        reads = [o for o in answered if o.op == "get"]
        writes = [o for o in answered if not changes_nothing(o) or o.op == "claim"]
        found.append(
            Outage(
                fault.what,
                fault.nodes,
                fault.time_ms,
                end,
                _gap(writes, fault.time_ms, end),
                _gap(reads, fault.time_ms, end),
                max(((o.end_ms or 0) - o.start_ms for o in answered), default=0.0),
                sum(o.outcome == "fail" for o in within),
                sum(o.outcome == "unknown" for o in within),
            )
        )
    return found


def _healed(history: History, fault: Event, last: float) -> float:
    times = [
        event.time_ms
        for event in history.events
        if event.kind == "heal" and event.what == fault.what and event.time_ms >= fault.time_ms
    ]
    return min(times, default=last)


def _overlaps(operation: Operation, begin: float, end: float) -> bool:
    return operation.start_ms < end and (operation.end_ms is None or operation.end_ms > begin)


def _gap(operations: Sequence[Operation], begin: float, end: float) -> float | None:
    """The longest time between two answers; None if nobody asked."""
    if not operations:
        return None
    times = sorted(min(max(o.end_ms or end, begin), end) for o in operations)
    edges = [begin, *times, end]
    return max(later - earlier for earlier, later in pairwise(edges))


def latencies(operations: Sequence[Operation]) -> dict[str, float]:
    """Median, 99th percentile and worst, in milliseconds."""
    took = sorted(o.end_ms - o.start_ms for o in operations if o.end_ms and o.outcome == "ok")
    if not took:
        return {}
    at_99 = took[min(len(took) - 1, int(len(took) * 0.99))]
    return {"median": round(median(took), 2), "p99": round(at_99, 1), "worst": round(took[-1], 1)}


def check(history: History) -> Check:
    """The figures; and the rule that each node serves again when all faults are healed."""
    result = Check(NAME, of="faults")
    found = outages(history)
    result.looked_at = len(found)
    requests = [o for o in history.operations if o.op != "digest"]
    result.figures = {
        "outages": [asdict(outage) for outage in found],
        "latency_ms": latencies(requests),
        "ok": sum(o.outcome == "ok" for o in requests),
        "fail": sum(o.outcome == "fail" for o in requests),
        "unknown": sum(o.outcome == "unknown" for o in requests),
    }
    for name in ("write_gap_ms", "read_gap_ms"):
        gaps = [gap for outage in found if (gap := getattr(outage, name)) is not None]
        if gaps:
            result.figures[name] = {"median": round(median(gaps)), "worst": round(max(gaps))}
    _recovered(result, history)
    return result


def _recovered(result: Check, history: History) -> None:
    quiet = history.phase_ms("quiet")
    if quiet is None:
        return
    asked = [o for o in history.operations if o.start_ms >= quiet]
    serving = {o.node for o in asked if o.outcome == "ok"}
    for node in sorted(set(history.nodes()) - serving):
        refused = [o for o in asked if o.node == node][:3]
        text = f"{node} answered nothing after all faults were healed"
        if not refused:
            result.undecided(f"nobody asked {node} after all faults were healed")
        else:
            result.broken("recovery", text, *refused)
