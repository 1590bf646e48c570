"""Many seeds on all cores, and what came of them in sum."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tests.simulator.run import Result, run_seed

SEEDS_AT_ONCE = 5


@dataclass
class Summary:
    """Of all runs so far."""

    runs: Counter[int] = field(default_factory=Counter)  # by the number of nodes
    operations: int = 0
    acknowledged: int = 0
    entries: int = 0
    turns: int = 0
    undecided: int = 0
    failures: list[Result] = field(default_factory=list)
    started_s: float = field(default_factory=time.monotonic)

    def add(self, result: Result) -> None:
        self.runs[result.nodes] += 1
        self.operations += result.operations
        self.acknowledged += result.acknowledged
        self.entries += result.entries
        self.turns += result.turns
        self.undecided += result.undecided
        if result.rule is not None:
            self.failures.append(result)

    def __str__(self) -> str:
        runs = ", ".join(f"{count} of {nodes} nodes" for nodes, count in sorted(self.runs.items()))
        lines = [
            f"{self.runs.total()} runs ({runs}) in {time.monotonic() - self.started_s:.0f} s:"
            f" {self.operations} operations, {self.acknowledged} acknowledged,"
            f" {self.entries} entries committed, {self.turns} turns,"
            f" {self.undecided} histories too tangled to search",
        ]
        lines += [f"seed {r.seed}, {r.nodes} nodes: {r.rule}: {r.text}" for r in self.failures[:20]]
        lines.append(f"{len(self.failures)} runs broke a promise")
        return "\n".join(lines)


def run_many(seeds: Iterable[tuple[int, int]], *, workers: int = 0) -> Iterator[Summary]:
    """Run (seed, nodes) pairs; gives the summary so far after each."""
    summary = Summary()
    workers = workers or len(os.sched_getaffinity(0))
    with multiprocessing.get_context("fork").Pool(workers) as pool:
        for result in pool.imap_unordered(_run, seeds, SEEDS_AT_ONCE):
            summary.add(result)
            yield summary


def _run(pair: tuple[int, int]) -> Result:
    return run_seed(*pair)
