"""What faults act on, and how long they last: the nodes, the links, the clock of the run.

Two faults never act on one process at a time, and a run says whether a majority may be down.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from chaos.nodes import Links, Nodes
from chaos.workload import Timeline


@dataclass(slots=True)
class Stage:
    """Shared by all faults of one run."""

    nodes: Nodes
    links: Links
    timeline: Timeline
    rng: random.Random
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    taken: set[str] = field(default_factory=set)
    # No more than a minority may be down at one time. Where all are down, wall clocks count
    # (docs/guarantees.md), so with clock faults not all may be.
    minority_only: bool = False
    findings: list[str] = field(default_factory=list)  # surprises that no client can see
    counts: dict[str, int] = field(default_factory=dict)  # faults by name
    remarks: dict[str, int] = field(default_factory=dict)  # what nodes did about them

    @property
    def ids(self) -> list[str]:
        return self.nodes.ids

    @property
    def minority(self) -> int:
        return (len(self.ids) - 1) // 2

    def take(self, wanted: Iterable[str]) -> list[str]:
        """Those of the wanted nodes whose process nobody else is at; give them back."""
        free = [node_id for node_id in wanted if node_id not in self.taken]
        if self.minority_only:
            free = free[: max(0, self.minority - len(self.taken))]
        self.taken.update(free)
        return free

    def give(self, nodes: Iterable[str]) -> None:
        self.taken.difference_update(nodes)

    def with_rng(self, rng: random.Random) -> Stage:
        """The same stage with chance of its own, for one of several faults at a time."""
        return replace(self, rng=rng)

    async def line_up(self) -> tuple[str, list[str]]:
        """The leader, or any node if there is none, and all others in any order."""
        leader = await self.nodes.leader() or self.rng.choice(self.ids)
        others = [node_id for node_id in self.ids if node_id != leader]
        self.rng.shuffle(others)
        return leader, others

    async def some(self) -> list[str]:
        """All nodes, the leader first or last: the first of these are a fair choice."""
        leader, others = await self.line_up()
        return [leader, *others] if self.rng.random() < 0.5 else [*others, leader]

    def remark(self, what: str) -> None:
        self.remarks[what] = self.remarks.get(what, 0) + 1

    def begins(self, what: str, nodes: Iterable[str]) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1
        self.timeline.event("fault", what, tuple(nodes))

    def ends(self, what: str, nodes: Iterable[str]) -> None:
        self.timeline.event("heal", what, tuple(nodes))

    async def hold(self, least_s: float, most_s: float) -> None:
        """Let time pass, or return when the faults are to end."""
        try:
            async with asyncio.timeout(self.rng.uniform(least_s, most_s)):
                await self.stop.wait()
        except TimeoutError:
            pass


class Nemesis:
    """One kind of fault. `once` does harm, waits, and takes it back, also when it is cancelled."""

    name = ""
    preload = False  # needs faults.c in the nodes
    settings: dict[str, int] = {}  # noqa: RUF012 what it wants of all nodes, by Config's names
    tmpfs = False  # needs a small file system of its own for each node

    async def once(self, stage: Stage) -> None:
        raise NotImplementedError

    async def run(self, stage: Stage) -> None:
        """Again and again, with calm in between, until the faults are to end."""
        while not stage.stop.is_set():
            await stage.hold(0.4, 2.0)
            if not stage.stop.is_set():
                await self.once(stage)


async def attack(stage: Stage, nemeses: list[Nemesis], seed: int, seconds: float) -> None:
    """Every fault goes its own way, by its own part of the seed, for so long."""
    tasks = []
    for number, nemesis in enumerate(nemeses):
        rng = random.Random(f"{seed}:{number}:{nemesis.name}")
        tasks.append(asyncio.create_task(nemesis.run(stage.with_rng(rng))))
    await asyncio.sleep(seconds)
    stage.stop.set()
    await asyncio.gather(*tasks)
