"""Every workload with every fault, on three and on five nodes, summed into one page.

Goes on where it was stopped: `results.jsonl` in its directory has one line for each run that ended,
and a run that is in it is not done again. `summary.md` is made of it after every run.
"""

from __future__ import annotations

import itertools
import json
import random
import shutil
import time
from collections import Counter as Tally
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from chaos.catalogue import WORKLOADS
from chaos.needs import Missing
from chaos.run import Plan, execute

SINGLE = (
    "kill",
    "pause",
    "partition",
    "slow",
    "lossy",
    "restart",
    "clock",
    "disk-slow",
    "disk-fail",
    "disk-full",
    "snapshot",
    "corrupt",
)
MIXES = (
    "kill,partition",
    "pause,partition,clock",
    "kill,clock,slow",
    "kill,snapshot,lossy",
    "partition,disk-fail",
    "kill,pause,corrupt",
)
# In network namespaces only what cuts links is worth another run; not every kernel can delay.
LINKS = ("partition", "lossy", "partition,lossy", "kill,partition", "pause,partition,clock")
SIZES = (3, 5)
SECONDS = 14.0


def plans(directory: Path, seconds: float, seed: int, network: str = "proxy") -> Iterator[Plan]:
    """All runs, in an order that has something of everything early."""
    nemeses_of_all = (*SINGLE, *MIXES) if network == "proxy" else LINKS
    cases = [(w, n, size) for w in WORKLOADS for n in nemeses_of_all for size in SIZES]
    random.Random(seed).shuffle(cases)
    for number, (workload, nemeses, size) in enumerate(cases):
        yield Plan(
            workload=workload,
            nemeses=tuple(nemeses.split(",")),
            seconds=seconds,
            nodes=size,
            seed=seed * 1000 + number,
            network=network,
            directory=directory / f"{number:03d}-{workload}-{nemeses.replace(',', '+')}-{size}",
        )


def run(
    directory: Path, seconds: float, seed: int, for_s: float, network: str, part: tuple[int, int]
) -> int:
    """Do what is left of this part, for at most so long; 0 if everything that ran was valid.

    `part` (1, 2) is the first of two halves, which may run side by side.
    """
    directory.mkdir(parents=True, exist_ok=True)
    results = directory / "results.jsonl"
    done = {line["command"] for line in read(results)}
    stop_s = time.monotonic() + for_s
    mine = itertools.islice(plans(directory, seconds, seed, network), part[0] - 1, None, part[1])
    for plan in mine:
        if plan.command() in done:
            continue
        if time.monotonic() > stop_s:
            break
        if plan.directory.exists():  # a run that did not come to its end
            shutil.rmtree(plan.directory)
        try:
            summary = execute(plan).summary()
        except Missing as missing:
            print(f"left out: {plan.command()}: {missing}", flush=True)
            continue
        with results.open("a", encoding="utf-8") as file:
            file.write(json.dumps(summary) + "\n")
        print(f"{summary['valid']!s:7} {plan.command()}", flush=True)
        for finding in summary["findings"]:
            print(f"        FOUND: {finding}", flush=True)
        (directory / "summary.md").write_text(render(read(results)))
    print(render(read(results)))
    return 0 if all(line["valid"] is True for line in read(results)) else 1


def read(results: Path) -> list[dict[str, Any]]:
    if not results.exists():
        return []
    return [json.loads(line) for line in results.read_text().splitlines()]


def render(lines: list[dict[str, Any]]) -> str:
    """The sum of all runs: a table of workloads and faults, then the whole."""
    if not lines:
        return "no run yet\n"
    workloads = list(dict.fromkeys(line["workload"] for line in lines))
    nemeses = list(dict.fromkeys(",".join(line["nemeses"]) for line in lines))
    marks = {True: "ok", False: "**NOT VALID**", "unknown": "unknown"}
    out = ["| | " + " | ".join(workloads) + " |", "|---|" + "---|" * len(workloads)]
    for nemesis in sorted(nemeses):
        cells = []
        for workload in workloads:
            cell = [
                f"{line['nodes']}: {marks[line['valid']]}"
                for line in sorted(lines, key=lambda line: line["nodes"])
                if line["workload"] == workload and ",".join(line["nemeses"]) == nemesis
            ]
            cells.append(", ".join(cell))
        out.append(f"| {nemesis.replace(',', ' + ')} | {' | '.join(cells)} |")
    return "\n".join([*out, "", *totals(lines), "", *availability(lines)]) + "\n"


def totals(lines: list[dict[str, Any]]) -> list[str]:
    """What was done and what came of it."""
    outcomes: Tally[str] = Tally()
    faults: Tally[str] = Tally()
    remarks: Tally[str] = Tally()
    for line in lines:
        outcomes.update(line["outcomes"])
        faults.update(line["faults"])
        remarks.update(line["remarks"])
    verdicts = Tally(str(line["valid"]) for line in lines)
    recoveries = sorted(line["recovery_s"] for line in lines)
    hours = sum(line["seconds"] for line in lines) / 3600
    versions = ", ".join(sorted({line["version"] for line in lines}))
    return [
        f"* {len(lines)} runs, {hours:.2f} hours, from {min(line['date'] for line in lines)} to"
        f" {max(line['date'] for line in lines)}, version {versions}",
        f"* verdicts: {verdicts['True']} valid, {verdicts['False']} not valid,"
        f" {verdicts['unknown']} unknown",
        f"* {sum(outcomes.values())} operations: "
        + ", ".join(f"{count} {name}" for name, count in sorted(outcomes.items())),
        f"* {sum(faults.values())} faults: "
        + ", ".join(f"{count} {name}" for name, count in sorted(faults.items())),
        f"* of nodes with a flipped bit {remarks['refused']} refused to start, and"
        f" {remarks['unharmed']} were unharmed by it",
        f"* until all nodes served again after the last fault: median"
        f" {recoveries[len(recoveries) // 2]:.1f} s, worst {recoveries[-1]:.1f} s",
    ]


def availability(lines: list[dict[str, Any]]) -> list[str]:
    """For each kind of fault how long no client was answered, where it was the only kind."""
    gaps: dict[str, list[tuple[float | None, float | None]]] = {}
    for line in lines:
        if len(line["nemeses"]) == 1:
            for what, write_ms, read_ms in line.get("gaps", []):
                gaps.setdefault(what, []).append((write_ms, read_ms))
    out = [
        "| fault | times | no write answered: median s | worst s | no read: median s | worst s |",
        "|---|---|---|---|---|---|",
    ]
    for what, pairs in sorted(gaps.items()):
        cells = [what, str(len(pairs))]
        for column in (0, 1):
            times = [pair[column] / 1000 for pair in pairs if pair[column] is not None]
            cells += [f"{median(times):.2f}", f"{max(times):.2f}"] if times else ["-", "-"]
        out.append(f"| {' | '.join(cells)} |")
    return out
