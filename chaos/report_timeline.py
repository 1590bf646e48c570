"""The timeline of a run: faults, leaders, what each node answered, how long it took, who held what.

Everything is drawn over one axis of time, and operations are counted in columns of time, so that a
run of an hour makes a picture as small and as readable as one of ten seconds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from chaos import check_claims
from chaos.history import History, Operation
from chaos.report_svg import (
    Point,
    Scale,
    area,
    bar,
    lanes,
    line,
    path,
    steps,
    svg,
    tag,
    text,
    time_text,
    title,
)
from chaos.requests import changes_nothing

WIDTH = 1200.0
LEFT = 96.0
RIGHT = WIDTH - 12
COLUMNS = 300
LANE = 15.0
LANES_MAX = 8
NODE_HEIGHT = 46.0
LATENCY_HEIGHT = 150.0
# Log scale of latencies, in powers of ten of a millisecond.
LOW, HIGH = -1, 4
SLOWEST = 60
HELD_KEYS = 8
HELD_MAX = 600


class Timeline:
    """Draws panel after panel, from top to bottom."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.operations = [o for o in history.operations if o.op != "digest"]
        times = [event.time_ms for event in history.events]
        times += [o.end_ms or o.start_ms for o in history.operations]
        self.x = Scale(0.0, max([*times, 1.0]), LEFT, RIGHT)
        self.nodes = history.nodes()
        self.width_ms = (self.x.end - self.x.begin) / COLUMNS
        self.edges = [self.x(self.x.begin + i * self.width_ms) for i in range(COLUMNS + 1)]
        self.faults = _spans(history)
        self.y = 0.0
        self.parts: list[str] = []

    def draw(self) -> str:
        self._phases()
        self._faults()
        self._leaders()
        top = self.y
        for node in self.nodes:
            self._answers(node)
        self._latencies()
        self._holders()
        self._axis()
        shade = "".join(
            tag("rect", x=self.x(b), y=top, width=max(self.x(e) - self.x(b), 1.0),
                height=self.y - top, class_="shade")
            for b, e, _, _ in self.faults
        )  # fmt: skip
        return svg(WIDTH, self.y + 26, shade + "".join(self.parts), "timeline of the run")

    def add(self, *parts: str) -> None:
        self.parts += parts

    def column(self, time_ms: float) -> int:
        return min(max(int((time_ms - self.x.begin) / self.width_ms), 0), COLUMNS - 1)

    # ---- what happened to the cluster ----------------------------------------------------------

    def _phases(self) -> None:
        phases = [e for e in self.history.events if e.kind == "phase"]
        for i, event in enumerate(phases):
            begin = self.x(event.time_ms)
            end = self.x(phases[i + 1].time_ms if i + 1 < len(phases) else self.x.end)
            self.add(bar(begin, end, 2, 3, f"phase phase-{event.what}", event.what))
            if end - begin > 8 * len(event.what):
                self.add(text(begin, 17, event.what, "small"))
        self.y = 26.0 if phases else 4.0

    def _faults(self) -> None:
        if not self.faults:
            return
        gap_ms = 4 * self.width_ms
        placed = lanes([(begin, end) for begin, end, _, _ in self.faults], gap_ms)
        count = min(max(placed) + 1, LANES_MAX)
        self.add(text(LEFT - 8, self.y + 11, "faults", "label", "end"))
        for (begin, end, what, nodes), lane in zip(self.faults, placed, strict=True):
            y = self.y + min(lane, LANES_MAX - 1) * LANE
            named = f"{what} {' '.join(nodes)}".strip()
            hint = f"{named}, {time_text(round(begin))} for {time_text(round(end - begin))}"
            x1, x2 = self.x(begin), self.x(end)
            self.add(bar(x1, x2, y, LANE - 3, "fault", hint))
            for words in (named, what):
                if x2 - x1 > 6.2 * len(words):
                    self.add(text(x1 + 3, y + 9.5, words, "in-bar"))
                    break
        self.y += count * LANE + 5

    def _leaders(self) -> None:
        leaders = [e for e in self.history.events if e.kind == "leader" and e.nodes]
        if not leaders:
            return
        self.add(text(LEFT - 8, self.y + 11, "leader", "label", "end"))
        for i, event in enumerate(leaders):
            end = leaders[i + 1].time_ms if i + 1 < len(leaders) else self.x.end
            node = event.nodes[0]
            hint = f"{node} leads, term {event.what}, from {time_text(round(event.time_ms))}"
            x1, x2 = self.x(event.time_ms), self.x(end)
            self.add(bar(x1, x2, self.y, LANE - 3, f"node-{self._place(node)}", hint))
            if x2 - x1 > 7 * len(node):
                self.add(text(x1 + 3, self.y + 9.5, node, "in-bar"))
        self.y += LANE + 8

    def _place(self, node: str) -> int:
        return self.nodes.index(node) % 7 if node in self.nodes else 7

    # ---- what clients saw ----------------------------------------------------------------------

    def _answers(self, node: str) -> None:
        """How many requests ended in each column, by outcome, one upon the other."""
        counts = {outcome: [0] * COLUMNS for outcome in ("ok", "fail", "unknown")}
        for operation in self.operations:
            if operation.node == node:
                end = operation.start_ms if operation.end_ms is None else operation.end_ms
                counts[operation.outcome][self.column(end)] += 1
        most = max(map(sum, zip(*counts.values(), strict=True)), default=0) or 1
        base = self.y + NODE_HEIGHT - 6
        room = NODE_HEIGHT - 12
        low = [base] * COLUMNS
        self.add(text(LEFT - 8, self.y + 18, node, "label", "end"))
        self.add(bar(LEFT - 5, LEFT - 2, base - room, room, f"node-{self._place(node)}"))
        per_s = 1000 / self.width_ms
        self.add(text(LEFT - 8, self.y + 31, f"max {most * per_s:.0f}/s", "small", "end"))
        self.add(line(LEFT, base, RIGHT, base, "rule"))
        for outcome, numbers in counts.items():
            # What is rare and bad must be seen: a pixel and a half at least.
            high = [
                y - (max(n / most * room, 1.5 if outcome != "ok" else 0.5) if n else 0)
                for y, n in zip(low, numbers, strict=True)
            ]
            self.add(area(self.edges, low, high, f"out-{outcome}"))
            low = high
        self.y += NODE_HEIGHT

    def _latency_y(self, ms: float) -> float:
        share = (math.log10(max(ms, 10**LOW)) - LOW) / (HIGH - LOW)
        return self.y + LATENCY_HEIGHT - 12 - min(share, 1.0) * (LATENCY_HEIGHT - 24)

    def _latencies(self) -> None:
        self.add(text(LEFT - 8, self.y + 12, "latency", "label", "end"))
        for power in range(LOW, HIGH + 1):
            y = self._latency_y(10**power)
            self.add(line(LEFT, y, RIGHT, y, "rule"))
            if power < HIGH:
                self.add(text(LEFT - 8, y + 3, time_text(10**power), "small", "end"))
        answered = [o for o in self.operations if o.outcome == "ok" and o.end_ms is not None]
        reads = [o for o in answered if changes_nothing(o) and o.op != "claim"]
        wrote = [o for o in answered if not (changes_nothing(o) and o.op != "claim")]
        for kind, operations in (("write", wrote), ("read", reads)):
            self._band(kind, operations)
        for operation in sorted(answered, key=_took, reverse=True)[:SLOWEST]:
            kind = "read" if changes_nothing(operation) and operation.op != "claim" else "write"
            x, y = self.x(operation.end_ms or 0), self._latency_y(_took(operation))
            hint = title(f"{_took(operation):.0f} ms: {operation}")
            self.add(tag("circle", hint, cx=x, cy=y, r=2, class_=f"dot {kind}"))
        for operation in [o for o in self.operations if o.outcome == "unknown"][:SLOWEST]:
            x = self.x(operation.start_ms)
            self.add(bar(x, x, self.y, 5, "out-unknown", str(operation)))
        self.y += LATENCY_HEIGHT

    def _band(self, kind: str, operations: Sequence[Operation]) -> None:
        """Median and worst of each column; where nothing ended there is nothing."""
        columns: list[list[float]] = [[] for _ in range(COLUMNS)]
        for operation in operations:
            columns[self.column(operation.end_ms or 0)].append(_took(operation))
        runs: list[list[int]] = []
        for i, column in enumerate(columns):
            if column and runs and runs[-1][-1] == i - 1:
                runs[-1].append(i)
            elif column:
                runs.append([i])
        for run in runs:
            edges = self.edges[run[0] : run[-1] + 2]
            middle = [self._latency_y(median(columns[i])) for i in run]
            worst = [self._latency_y(max(columns[i])) for i in run]
            self.add(area(edges, middle, worst, f"band {kind}"))
            self.add(path(steps(edges, middle), f"median {kind}"))

    def _holders(self) -> None:
        """Who held the most contested claims, for as long as that is certain."""
        held = {key: own for key, own in check_claims.tenures(self.history).items() if own}
        keys = sorted(held, key=lambda key: -len(held[key]))[:HELD_KEYS]
        if not keys:
            return
        self.y += 6
        self.add(text(LEFT - 8, self.y + 6, "held for sure", "label", "end"))
        self.y += 12
        left = HELD_MAX
        for key in sorted(keys, key=lambda key: held[key][0].claim.start_ms):
            self.add(text(LEFT - 8, self.y + 9, _short(key, 15), "small", "end"))
            self.add(line(LEFT, self.y + 11, RIGHT, self.y + 11, "rule"))
            self._held(key, [t for t in held[key] if t.sure_from < t.sure_to][:left])
            left = max(left - len(held[key]), 0)
            self.y += 13

    def _held(self, key: str, tenures: list[check_claims.Tenure]) -> None:
        """By the node that was asked; where two held it at once, that and nothing else is seen."""
        twice: list[str] = []
        sure_to, token = 0.0, ""
        for tenure in sorted(tenures, key=lambda tenure: tenure.sure_from):
            x1, x2 = self.x(tenure.sure_from), self.x(tenure.sure_to)
            hint = f"{key} held by {tenure.token}, claimed at {tenure.claim.node}"
            place = self._place(tenure.claim.node)
            self.add(bar(x1, x2, self.y, 10, f"held node-{place}", hint, 1))
            if tenure.sure_from < sure_to and tenure.token != token:
                both = self.x(min(sure_to, tenure.sure_to))
                hint = f"{key} held by {token} and by {tenure.token}"
                twice.append(bar(x1, both, self.y - 1, 12, "double", hint, 1))
            if tenure.sure_to > sure_to:
                sure_to, token = tenure.sure_to, tenure.token
        self.add(*twice)

    def _axis(self) -> None:
        self.y += 4
        self.add(line(LEFT, self.y, RIGHT, self.y, "axis"))
        for tick in self.x.ticks():
            self.add(line(self.x(tick), self.y, self.x(tick), self.y + 4, "axis"))
            self.add(text(self.x(tick), self.y + 17, time_text(tick), "small", "middle"))


def _took(operation: Operation) -> float:
    return (operation.end_ms or operation.start_ms) - operation.start_ms


def _short(words: str, most: int) -> str:
    return words if len(words) <= most else "\u2026" + words[-most:]


def _spans(history: History) -> list[tuple[float, float, str, tuple[str, ...]]]:
    """Each fault with its end, in order of begin."""
    found = []
    events = history.events
    last = max((event.time_ms for event in events), default=0.0)
    for fault in (event for event in events if event.kind == "fault"):
        ends = [
            event.time_ms
            for event in events
            if event.kind == "heal" and event.what == fault.what and event.time_ms >= fault.time_ms
        ]
        found.append((fault.time_ms, min(ends, default=last), fault.what, fault.nodes))
    return found


# ---- one finding -------------------------------------------------------------------------------

EVIDENCE_LEFT = 10.0
EVIDENCE_ROW = 34.0


def evidence(operations: Sequence[Operation]) -> str:
    """The few operations that prove something, one below the other over their own axis; and
    behind them the leases that they were told of."""
    begin = min(o.start_ms for o in operations)
    ends = [o.end_ms for o in operations if o.end_ms is not None]
    end = max([*ends, *(o.start_ms for o in operations)])
    # A lease that goes on for long after all this need not be drawn in full.
    leases = [_lease_end(operation) for operation in operations]
    end = max(end, min(max(leases), end + 1.5 * (end - begin)))
    room = (end - begin) * 0.04 or 1.0
    x = Scale(begin - room, end + 2 * room, EVIDENCE_LEFT, WIDTH - 12)
    parts = []
    rows: list[Point] = []
    for row, operation in enumerate(operations):
        y = row * EVIDENCE_ROW
        rows.append((x(operation.start_ms), y))
        closed = operation.end_ms is not None
        until = operation.end_ms if operation.end_ms is not None else x.end
        class_ = f"out-{operation.outcome}" + ("" if closed else " open")
        if leases[row] and operation.end_ms is not None:
            behind = bar(x(operation.end_ms), x(leases[row]), y + 19, 5, "out-ok lease", "lease")
            parts.append(behind)
        parts.append(bar(x(operation.start_ms), x(until), y + 17, 9, class_, str(operation)))
        at_end = x(operation.start_ms) > WIDTH * 0.6
        place = x(until) if at_end and closed else x(operation.start_ms)
        place, anchor = (WIDTH - 12, "end") if at_end else (place, "start")
        parts.append(text(place, y + 12, _words(operation), "mono", anchor))
    y = len(rows) * EVIDENCE_ROW + 2
    parts.append(line(EVIDENCE_LEFT, y, WIDTH - 12, y, "axis"))
    for tick in x.ticks(8):
        parts.append(line(x(tick), 0, x(tick), y + 4, "rule"))
        parts.append(text(x(tick), y + 16, f"{tick:g} ms", "small", "middle"))
    return svg(WIDTH, y + 22, "".join(parts), "the operations that show it")


def _lease_end(operation: Operation) -> float:
    """Until when an answer promised the key to whoever got it; 0 if it did not."""
    if operation.op == "claim" and operation.value == "CLAIMED":
        return float(operation.start_ms + operation.args[2] * 1000)
    if operation.op == "renew" and operation.value == 1:
        return float(operation.start_ms + operation.args[1])
    return 0.0


def _words(operation: Operation) -> str:
    words = _short(" ".join([operation.op, operation.key, *map(str, operation.args)]), 110)
    answer = repr(operation.value) if operation.outcome == "ok" else operation.outcome
    if operation.error and operation.outcome != "ok":
        answer += f" ({_short(operation.error, 40)})"
    return f"{operation.node} \u00b7 client {operation.process} \u00b7 {words} \u2192 {answer}"
