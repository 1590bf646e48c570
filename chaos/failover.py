"""How long clients on the survivors wait when the leader dies or is cut off, and whether anything
else makes a leader change.

A gap is the time between two answers that one client had in a row, the longest around the fault;
each client asks again the moment it was answered. Every node has a client that writes and one that
reads; those of the node that was hit do not count. No request is ever refused by this: a node holds
it until there is a leader, so what a client feels is the gap.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from chaos.client import Client
from chaos.nodes import Launch, Links, Nodes
from chaos.proxy import ProxyLinks

NODES = 3
# A gap that is longer than this counts as this long, and is a failure.
GIVE_UP_S = 10.0
SETTLE_S = 0.4
SERVE_BOUND_S = 30.0
REQUEST_TIMEOUT_S = 10.0


@dataclass(slots=True)
class Asker:
    """One client in a tight loop, and when it was answered."""

    node_id: str
    write: bool
    client: Client
    answered_s: list[float] = field(default_factory=list)
    refused: int = 0

    async def run(self) -> None:
        number = 0
        while True:
            number += 1
            words = ("SET", f"gap:{self.node_id}", number) if self.write else ("GET", "gap:n1")
            answer = await self.client.call(*words)
            if answer.outcome == "ok":
                self.answered_s.append(time.monotonic())
            else:
                self.refused += 1
                await asyncio.sleep(0.005)

    def gap_s(self, since_s: float) -> float:
        """The longest wait since then, counted from the answer before."""
        times = [at for at in self.answered_s if at >= since_s - 1.0]
        pairs = itertools.pairwise(times)
        return max((b - a for a, b in pairs if b >= since_s), default=GIVE_UP_S)


@dataclass(slots=True)
class Gaps:
    """What one kind of fault cost, a number for each time."""

    what: str
    writes_s: list[float] = field(default_factory=list)
    reads_s: list[float] = field(default_factory=list)
    refused: int = 0

    def row(self) -> str:
        """A line of a table."""
        cells = [self.what, str(len(self.writes_s))]
        for gaps in (self.writes_s, self.reads_s):
            cells += [f"{statistics.median(gaps):.2f}", f"{max(gaps):.2f}"]
        return f"| {' | '.join(cells)} | {self.refused} |"


HEADING = (
    "| fault | times | writes: median s | worst s | reads: median s | worst s | refused |\n"
    "|---|---|---|---|---|---|---|"
)


async def measure(directory: Path, links: Links, rounds: int, kinds: list[str]) -> list[Gaps]:
    """So many faults of each kind, one after the other."""
    nodes = Nodes(directory, NODES, links, Launch())
    await nodes.open()
    try:
        await asyncio.gather(*map(nodes.start, nodes.ids))
        found = []
        for kind in kinds:
            gaps = Gaps(kind)
            for number in range(rounds):
                await one_round(nodes, kind, gaps)
                print(
                    f"{kind} {number + 1}: writes {gaps.writes_s[-1]:.3f} s,"
                    f" reads {gaps.reads_s[-1]:.3f} s",
                    flush=True,
                )
            found.append(gaps)
        return found
    finally:
        await nodes.close()


async def one_round(nodes: Nodes, kind: str, gaps: Gaps) -> None:
    """One fault, felt by the clients of the survivors, and its end."""
    waiting = await nodes.wait_until_all_serve(SERVE_BOUND_S)
    assert not waiting, f"{waiting} do not serve"
    leader = await nodes.leader()
    assert leader is not None
    survivors = [node_id for node_id in nodes.ids if node_id != leader]
    askers = [
        Asker(node_id, write, Client(nodes.nodes[node_id].resp, REQUEST_TIMEOUT_S))
        for node_id in survivors
        for write in (True, False)
    ]
    tasks = [asyncio.create_task(asker.run()) for asker in askers]
    await asyncio.sleep(SETTLE_S)
    began_s = time.monotonic()
    if kind == "kill":
        await nodes.kill(leader)
    else:
        pairs = [(leader, other) for other in survivors]
        await nodes.links.cut([*pairs, *((b, a) for a, b in pairs)])
    while time.monotonic() < began_s + GIVE_UP_S:
        # Everybody was answered again, and a moment has passed for a second gap.
        back_s = max((asker.answered_s or [0.0])[-1] for asker in askers)
        slowest_s = min((asker.answered_s or [0.0])[-1] for asker in askers)
        if slowest_s > began_s + 0.1 and back_s > began_s + 2.5:
            break
        await asyncio.sleep(0.05)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    gaps.writes_s.append(max(asker.gap_s(began_s) for asker in askers if asker.write))
    gaps.reads_s.append(max(asker.gap_s(began_s) for asker in askers if not asker.write))
    gaps.refused += sum(asker.refused for asker in askers)
    for asker in askers:
        asker.client.close()
    if kind == "kill":
        await nodes.start(leader)
    else:
        await nodes.links.heal()


async def soak(directory: Path, links: Links, seconds: float, *, busy: bool) -> tuple[int, int]:
    """Let nodes be for so long, under light load; how often the term changed, and the requests.

    With `busy` another process keeps one core at work all the time.
    """
    nodes = Nodes(directory, NODES, links, Launch())
    await nodes.open()
    other: subprocess.Popen[bytes] | None = None
    try:
        await asyncio.gather(*map(nodes.start, nodes.ids))
        assert not await nodes.wait_until_all_serve(SERVE_BOUND_S)
        await asyncio.sleep(1.0)
        before = await terms(nodes)
        if busy:
            other = subprocess.Popen([sys.executable, "-c", "while True: pass"])  # noqa: ASYNC220
        end_s, count = time.monotonic() + seconds, 0
        client = Client(nodes.nodes["n2"].resp, REQUEST_TIMEOUT_S)
        while time.monotonic() < end_s:
            await client.call("SET", "soak", count)
            count += 1
            await asyncio.sleep(0.05)
        client.close()
        return await terms(nodes) - before, count
    finally:
        if other is not None:
            other.kill()
            other.wait()
        await nodes.close()


async def terms(nodes: Nodes) -> int:
    return max(int(info.get("raft_term", 0)) for info in (await nodes.infos()).values())


def run(directory: Path, rounds: int) -> int:
    """Measure and print; 0 if nothing was given up."""
    links = ProxyLinks(random.Random(0))
    found = asyncio.run(measure(directory, links, rounds, ["kill", "partition"]))
    print(HEADING)
    for gaps in found:
        print(gaps.row())
    return 0 if all(max(gaps.writes_s) < GIVE_UP_S for gaps in found) else 1


def run_soak(directory: Path, seconds: float) -> int:
    """Quiet, then with one core kept busy; 0 if no leader changed."""
    total = 0
    for busy in (False, True):
        links = ProxyLinks(random.Random(0))
        where = directory / ("busy" if busy else "quiet")
        elections, count = asyncio.run(soak(where, links, seconds, busy=busy))
        how = "one core kept busy" if busy else "quiet"
        print(f"{how}: {seconds:g} s, {count} writes, {elections} elections", flush=True)
        total += elections
    return 0 if total == 0 else 1
