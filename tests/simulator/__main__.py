"""The command line of the simulator: tests/simulate --help."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time

from tests.simulator.many import Summary, run_many
from tests.simulator.plan import Plan, make_plan
from tests.simulator.run import run_plan
from tests.simulator.shrink import Shrinker

TRACE_LINES = 80
BAR = 30


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="tests/simulate", description=sys.modules["tests.simulator"].__doc__.splitlines()[0]
    )
    parser.add_argument("--seeds", type=int, default=1000, metavar="N", help="how many runs")
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="the first seed")
    parser.add_argument("--nodes", type=int, default=3, metavar="N", help="members, 3 by default")
    parser.add_argument("--workers", type=int, default=0, metavar="N", help="processes; all cores")
    parser.add_argument("--seed", type=int, metavar="SEED", help="one run, with its trace")
    parser.add_argument("--no-shrink", action="store_true", help="show failures as they are")
    parser.add_argument(
        "--ablations", action="store_true", help="plant every bug, remove every fix: how soon found"
    )
    words = parser.parse_args()
    if words.ablations:
        from tests.simulator.ablations import main as ablations

        return ablations()
    if words.seed is not None:
        return show(make_plan(words.seed, words.nodes), shrink=not words.no_shrink)
    summary = Summary()
    seeds = [(seed, words.nodes) for seed in range(words.first, words.first + words.seeds)]
    with contextlib.suppress(KeyboardInterrupt):
        for summary in run_many(seeds, workers=words.workers):
            progress(summary, words.seeds)
    print(f"\n{summary}" if sys.stderr.isatty() else summary)
    for failure in summary.failures[:1]:
        show(make_plan(failure.seed, failure.nodes), shrink=not words.no_shrink)
    return 1 if summary.failures else 0


def progress(summary: Summary, of: int) -> None:
    """One line, drawn again and again; a line now and then where nobody watches."""
    done = summary.runs.total()
    seconds = time.monotonic() - summary.started_s
    left = seconds / done * (of - done)
    text = (
        f"[{'#' * (BAR * done // of):{BAR}}] {done}/{of} runs, {done / seconds:.1f} a second,"
        f" {left:.0f} s left, {len(summary.failures)} failed"
    )
    if sys.stderr.isatty():
        print(f"\r{text}", end="", file=sys.stderr, flush=True)
    elif done % max(1, of // 20) == 0:
        print(text, file=sys.stderr, flush=True)


def show(plan: Plan, *, shrink: bool) -> int:
    """The run with its trace; of one that fails the shortest schedule that still does."""
    result = run_plan(plan, trace=True)
    if result.rule is not None and shrink:
        shrinker = Shrinker(plan, result.rule)
        plan = shrinker.shrink()
        print(f"seed {plan.seed}: {len(plan.events)} events are left after {shrinker.tries} runs")
        result = run_plan(plan, trace=True)
    print(f"seed {plan.seed}, {plan.nodes} nodes, {plan.duration_ms:.0f} ms, noise {plan.noise}")
    print(plan.settings)
    for event in plan.events if result.rule is not None else ():
        print(f"    {event.at_ms:8.1f} ms  {event.kind} {event.arguments}")
    print(*result.trace[-TRACE_LINES:], sep="\n")
    print(f"{result.rule}: {result.text}" if result.rule else "every promise was kept")
    return 0 if result.rule is None else 1


if __name__ == "__main__":
    sys.exit(main())
