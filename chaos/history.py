"""What clients and the fault injector saw in one run, as a file: nothing of nodes or checkers.

A history is a JSONL file. Its first line is the header {"run": {...}}, every other line one
operation or one event. Times are milliseconds of one monotonic clock since the run began. Lines may
come in any order (an operation is written when it ends), and readers sort; a line that a crash cut
off is left out with everything behind it.

    op       key         args                         value when ok
    get      key                                      the value, or None
    set      key         (value) or (value, seconds)  "OK"
    cas      key         (old, new)                   "OK" or 0
    incr     key         (amount)                     the new number
    del      key                                      1 or 0
    claim    claim key   (result key, token, seconds) "CLAIMED", None, or ["result", value]
    publish  result key  (value, seconds)             "OK"      SET result value EX seconds
    renew    claim key   (token, milliseconds)        1 or 0    GOBLIN.CAEXPIRE
    release  claim key   (token)                      1 or 0    GOBLIN.CAD
    txn      first key   ([word, ...], ...)           the list that EXEC gave, None if it aborted
    digest                                            [applied index, digest]

In a txn the words are the operations of this table, or Redis's commands; ["expect", key, seen] says
that EXEC was bound to a key, and what was read from it after WATCH. A reply {"error": text} in a
txn's value is an error of that command. All keys are absent when the run begins, and only what the
history holds changes them; a value or token that is written is best used once, so that who reads it
tells whom it is from.

The header {"run": ...} has workload, nemeses, seed, nodes (how many), seconds, version, system and
command (what repeats the run). `early_ms` (1) and `late_ms` (1000) say how far from its length a
lease may end: only a run that attacks all clocks at once needs others.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

Outcome = Literal["ok", "fail", "unknown"]

# fault: a fault begins. heal: it ends; `what` repeats the fault's word. leader: a node leads from
# now on, `what` is its term. phase: `what` is one of PHASES.
EVENT_KINDS = ("fault", "heal", "leader", "phase")
# faults: under attack. recovery: healed, waiting until all nodes answer. final: the last reads.
# quiet: the workload once more without faults.
PHASES = ("faults", "recovery", "final", "quiet")


@dataclass(frozen=True, slots=True)
class Operation:
    """One request and what became of it.

    end_ms None: never answered, which is the outcome unknown. Outcome fail: certainly not executed,
    by the table of docs/errors.md. Outcome unknown: may have been executed, or may yet be. Keys,
    arguments and values are text, whole numbers, None or lists of these; a value counts only with
    outcome ok.
    """

    process: int
    node: str
    op: str
    key: str
    args: tuple[Any, ...]
    start_ms: float
    end_ms: float | None
    outcome: Outcome
    value: Any = None
    error: str | None = None

    def __str__(self) -> str:
        words = " ".join([self.op, self.key, *map(str, self.args)])
        end = "never" if self.end_ms is None else f"{self.end_ms:.1f}"
        answer = repr(self.value) if self.outcome == "ok" else f"{self.outcome} ({self.error})"
        return f"{self.start_ms:.1f}..{end} client {self.process} @{self.node}: {words} -> {answer}"


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to the cluster at one moment."""

    time_ms: float
    kind: str
    what: str
    nodes: tuple[str, ...] = ()


@dataclass(slots=True)
class History:
    """One run."""

    run: dict[str, Any] = field(default_factory=dict)
    operations: list[Operation] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    def of(self, *ops: str) -> list[Operation]:
        """The operations of these kinds, by the time they started."""
        return [operation for operation in self.operations if operation.op in ops]

    def by_key(self, *ops: str) -> dict[str, list[Operation]]:
        """The operations of these kinds by key, each list by the time they started."""
        found: dict[str, list[Operation]] = {}
        for operation in self.of(*ops):
            found.setdefault(operation.key, []).append(operation)
        return found

    def nodes(self) -> list[str]:
        """Every node that a client asked."""
        return sorted({operation.node for operation in self.operations})

    def phase_ms(self, phase: str) -> float | None:
        """When a phase began."""
        times = [e.time_ms for e in self.events if e.kind == "phase" and e.what == phase]
        return min(times, default=None)


class Recorder:
    """Writes a history line by line, so that a run that dies leaves what it saw."""

    def __init__(self, path: Path, run: dict[str, Any]) -> None:
        self.file = path.open("w", encoding="utf-8")
        self._line({"run": run})

    def operation(self, operation: Operation) -> None:
        self._line({name: getattr(operation, name) for name in Operation.__slots__})

    def event(self, event: Event) -> None:
        self._line({"event": {name: getattr(event, name) for name in Event.__slots__}})

    def _line(self, content: dict[str, Any]) -> None:
        self.file.write(json.dumps(content, separators=(",", ":")) + "\n")

    def close(self) -> None:
        self.file.close()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def write(path: Path, history: History) -> None:
    with Recorder(path, history.run) as recorder:
        for operation in history.operations:
            recorder.operation(operation)
        for event in history.events:
            recorder.event(event)


def read(path: Path) -> History:
    with path.open(encoding="utf-8") as lines:
        return parse(lines)


def parse(lines: Iterable[str]) -> History:
    """The history of these lines, operations by start and events by time."""
    history = History()
    for number, line in enumerate(lines):
        if not line.endswith("\n"):
            break  # the run died while it wrote this
        content = json.loads(line)
        if number == 0:
            history.run = content["run"]
        elif "event" in content:
            content = content["event"]
            history.events.append(Event(**{**content, "nodes": tuple(content["nodes"])}))
        else:
            history.operations.append(Operation(**{**content, "args": tuple(content["args"])}))
    history.operations.sort(key=lambda operation: operation.start_ms)
    history.events.sort(key=lambda event: event.time_ms)
    return history
