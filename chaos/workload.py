"""Clients at work: each sequential, each request recorded with its outcome. See workload_*.py.

A workload is a set of workers, some on every node. It knows operations by the names of
chaos/history.py; which bytes they are for a system is a `Dialect`'s business.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from chaos.client import Answer, Client
from chaos.history import Event, Operation, Outcome, Recorder
from chaos.proxy import Address

# More than leader_wait and commit_timeout together: a node always answers before.
REQUEST_TIMEOUT_S = 5.0
# After a refusal or a lost connection, so that a cluster that is down is not asked in a tight loop.
PAUSE_S = 0.03
NO_NODE_PAUSE_S = 0.1
Words = tuple[str | int, ...]


class Dialect(Protocol):
    """How a system is asked for an operation."""

    def requests(self, op: str, key: str, args: tuple[Any, ...]) -> list[Words]:
        """The requests, sent at once."""
        ...

    def value(self, op: str, answers: list[Answer]) -> tuple[Answer, Any]:
        """The answer that decides, and its value in the words of a history."""
        ...


class Connection(Protocol):
    """What client.py's Client is: it may also find out by itself whom to ask."""

    connection: int

    async def call(self, *words: str | int) -> Answer: ...
    async def pipeline(
        self, requests: list[Words], *, on_connection: int | None = None
    ) -> list[Answer]: ...
    def close(self) -> None: ...


def claim_value(reply: Any) -> Any:
    """CLAIMED, nil, or the result marked as one, whatever text it is."""
    return reply if reply in (None, "CLAIMED") else ["result", reply]


class GoblinDialect:
    """goblin_raft's own commands."""

    NAMES = {  # noqa: RUF012 a table
        "get": "GET",
        "set": "SET",
        "publish": "SET",
        "incr": "INCRBY",
        "cas": "GOBLIN.CAS",
        "renew": "GOBLIN.CAEXPIRE",
        "release": "GOBLIN.CAD",
        "claim": "GOBLIN.CLAIM",
        "watch": "WATCH",
    }

    def requests(self, op: str, key: str, args: tuple[Any, ...]) -> list[Words]:
        if op == "digest":
            return [("GOBLIN.DIGEST",)]
        return [(self.NAMES[op], key, *args)]

    def value(self, op: str, answers: list[Answer]) -> tuple[Answer, Any]:
        [answer] = answers
        return answer, claim_value(answer.value) if op == "claim" else answer.value


@dataclass(slots=True)
class Timeline:
    """The run's clock and its record."""

    recorder: Recorder
    began_s: float = field(default_factory=time.monotonic)
    operations: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)

    def now_ms(self) -> float:
        return round((time.monotonic() - self.began_s) * 1000, 3)

    def event(self, kind: str, what: str, nodes: tuple[str, ...] = ()) -> None:
        event = Event(self.now_ms(), kind, what, nodes)
        self.events.append(event)
        self.recorder.event(event)

    def operation(self, operation: Operation) -> None:
        self.operations += 1
        self.outcomes[operation.outcome] = self.outcomes.get(operation.outcome, 0) + 1
        self.recorder.operation(operation)


@dataclass(slots=True)
class Arena:
    """What the workers of one run share."""

    connect: Callable[[str], Connection]  # to the node of this id, or on its behalf
    ids: list[str]
    dialect: Dialect
    timeline: Timeline
    seed: int
    processes: itertools.count[int] = field(default_factory=itertools.count)
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    think_s: float = 0.02  # between two operations of a worker, on average


def connector(addresses: dict[str, Address]) -> Callable[[str], Connection]:
    """Clients that each ask one node."""
    return lambda node: Client(addresses[node], REQUEST_TIMEOUT_S)


class Session:
    """One sequential client. Its process number changes when an operation never ended."""

    def __init__(self, arena: Arena, node: str) -> None:
        self.arena = arena
        self.node = node
        self.process = next(arena.processes)
        self.client = arena.connect(node)

    async def do(self, op: str, key: str, *args: Any) -> tuple[Outcome, Any]:
        """Run one operation and record it; the outcome, and the value if it is ok."""
        requests = self.arena.dialect.requests(op, key, args)
        return await self.record(op, key, args, requests, self.arena.dialect.value)

    async def record(
        self,
        op: str,
        key: str,
        args: tuple[Any, ...],
        requests: list[Words],
        value_of: Callable[[str, list[Answer]], tuple[Answer, Any]],
        *,
        on_connection: int | None = None,
    ) -> tuple[Outcome, Any]:
        """Send these requests at once and record them as one operation. `value_of` finds the
        answer that decides and its value."""
        timeline = self.arena.timeline
        start_ms = timeline.now_ms()
        answers = await self.client.pipeline(requests, on_connection=on_connection)
        answer, value = value_of(op, answers)
        never = not answer.answered and answer.outcome == "unknown"
        end_ms = None if never else timeline.now_ms()
        ok = answer.outcome == "ok"
        operation = Operation(
            self.process,
            self.node,
            op,
            key,
            args,
            start_ms,
            end_ms,
            answer.outcome,
            value if ok else None,
            None if ok else answer.error,
        )
        timeline.operation(operation)
        if never:
            self.process = next(self.arena.processes)
        if not ok:
            await asyncio.sleep(PAUSE_S if answer.answered else NO_NODE_PAUSE_S)
        return answer.outcome, value if ok else None

    def close(self) -> None:
        self.client.close()


class Worker(Session):
    """A session that works until it is told to stop."""

    def __init__(self, arena: Arena, node: str, number: int) -> None:
        super().__init__(arena, node)
        self.number = number
        self.rng = random.Random(f"{arena.seed}:{node}:{number}")

    async def run(self) -> None:
        """Work, pause, again."""
        try:
            while not self.arena.stop.is_set():
                await self.step()
                await self.think()
        finally:
            self.close()

    async def think(self) -> None:
        await self.pause(self.rng.uniform(0, 2 * self.arena.think_s))

    async def pause(self, seconds: float) -> bool:
        """Wait; True when the run ended meanwhile."""
        try:
            async with asyncio.timeout(seconds):
                await self.arena.stop.wait()
        except TimeoutError:
            return False
        return True

    async def step(self) -> None:
        """One piece of work."""
        raise NotImplementedError


class Workload(Protocol):
    """What run.py needs of a workload."""

    name: str

    async def prepare(self, arena: Arena) -> None:
        """What must be there before the workers begin."""
        ...

    def worker(self, arena: Arena, node: str, number: int) -> Worker:
        """One more worker on this node."""
        ...

    def final_keys(self) -> list[str]:
        """What every node is asked for in the end."""
        ...


@contextlib.asynccontextmanager
async def working(workload: Workload, arena: Arena, workers: int) -> AsyncIterator[None]:
    """So many workers on every node, until the end of the block."""
    arena.stop = asyncio.Event()
    tasks = [
        asyncio.create_task(workload.worker(arena, node_id, number).run())
        for node_id in arena.ids
        for number in range(workers)
    ]
    try:
        yield
    finally:
        arena.stop.set()
        await asyncio.gather(*tasks)
