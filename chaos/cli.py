"""The command line of the harness: reads words, starts the part that does the work, prints.

Exit codes: 0 everything held; 1 something did not, or a planted bug was not found; 2 the command
line is wrong; 3 a checker ran out of time, so nothing is known.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

from chaos.catalogue import NEMESES, WORKLOADS
from chaos.run import Plan, Result, execute

EXAMPLES = """\
examples:
  cluster/chaos --workload claims --nemesis kill --seconds 30
  cluster/chaos --workload lease --nemesis partition,clock,pause --nodes 5 --seed 7
  cluster/chaos --suite --out chaos-suite        every workload with every nemesis; goes on
                                                 where it was stopped
  cluster/chaos --planted                        ten planted bugs, each of which must be found
  cluster/chaos --failover                       how long a dead or cut off leader is felt
  cluster/chaos --system redis-sentinel          the same claims against Redis with Sentinel
"""


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="cluster/chaos",
        description="Real nodes, real clients, real faults, and a judge of what the clients saw.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--workload", default="claims", choices=sorted(WORKLOADS))
    parser.add_argument(
        "--nemesis",
        default="kill",
        metavar="A,B",
        help=f"one or several at the same time: {', '.join(NEMESES)}",
    )
    parser.add_argument("--seconds", type=float, default=20.0, help="under attack; default: 20")
    parser.add_argument("--nodes", type=int, default=3, choices=(3, 5))
    parser.add_argument("--seed", type=int, help="default: a new one, which is printed")
    parser.add_argument("--workers", type=int, default=2, help="clients on each node; default: 2")
    parser.add_argument(
        "--network",
        default="proxy",
        choices=("proxy", "netns"),
        help="how links are cut: through a proxy, or in network namespaces (root)",
    )
    parser.add_argument("--out", type=Path, help="directory for history, page and node logs")
    parser.add_argument("--keep", action="store_true", help="keep the nodes' directories as well")
    parser.add_argument("--planted-bug", metavar="NAME", help="run nodes with this planted bug")
    return parser


def plan_of(arguments: argparse.Namespace) -> Plan:
    nemeses = tuple(name for name in arguments.nemesis.split(",") if name)
    for name in nemeses:
        if name not in NEMESES:
            msg = f"cluster/chaos: there is no nemesis {name}: {', '.join(NEMESES)}"
            print(msg, file=sys.stderr)
            raise SystemExit(2)
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(10**6)
    stamp = time.strftime("%H%M%S")
    out = arguments.out or Path(tempfile.gettempdir()) / f"chaos-{stamp}-{seed}"
    return Plan(
        workload=arguments.workload,
        nemeses=nemeses,
        seconds=arguments.seconds,
        nodes=arguments.nodes,
        seed=seed,
        directory=out.absolute(),
        network=arguments.network,
        workers=arguments.workers,
        planted=arguments.planted_bug,
        keep=arguments.keep,
    )


def tell(result: Result) -> int:
    """Print what came out; the exit code."""
    summary = result.summary()
    outcomes = ", ".join(f"{count} {name}" for name, count in sorted(result.outcomes.items()))
    faults = ", ".join(f"{count} {name}" for name, count in sorted(result.faults.items()))
    print(f"operations: {result.operations} ({outcomes})")
    print(f"faults: {faults or 'none'}; recovered in {result.recovery_s:.1f} s")
    for finding in summary["findings"]:
        print(f"FOUND: {finding}")
    word = {True: "valid", False: "NOT VALID", "unknown": "unknown"}[result.valid]
    print(f"verdict: {word}; all of it in {result.plan.directory}")
    return {True: 0, False: 1, "unknown": 3}[result.valid]


def main(argv: list[str] | None = None) -> int:
    arguments = build_parser().parse_args(argv)
    plan = plan_of(arguments)
    print(plan.command(), flush=True)
    return tell(execute(plan))
