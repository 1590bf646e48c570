"""The command line of the harness: reads words, starts the part that does the work, prints.

Exit codes: 0 everything held; 1 something did not, or a planted bug was not found; 2 the command
line is wrong; 3 a checker ran out of time, so nothing is known.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from chaos import failover, planted, sentinel, suite
from chaos.catalogue import NEMESES, WORKLOADS
from chaos.needs import Missing
from chaos.run import Plan, Result, execute

SECONDS = 20.0
SHOWN_MAX = 10

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
    what = parser.add_argument_group("instead of one run").add_mutually_exclusive_group()
    what.add_argument("--suite", action="store_true", help="every workload with every nemesis")
    what.add_argument(
        "--planted", nargs="*", metavar="BUG", help="planted bugs, all or these: each must be found"
    )
    what.add_argument("--failover", action="store_true", help="kill and cut off leaders, measure")
    what.add_argument("--soak", type=float, metavar="S", help="S quiet seconds, S with a busy core")
    parser.add_argument(
        "--system",
        default="goblin",
        choices=("goblin", "redis-sentinel"),
        help="redis-sentinel: the claims workload on Redis; cutting links needs --network netns",
    )
    parser.add_argument("--wait", action="store_true", help="on Redis every write does WAIT 1")
    parser.add_argument("--rounds", type=int, default=30, help="of --failover; default: 30 each")
    parser.add_argument(
        "--for", dest="for_s", type=float, default=1e9, metavar="S", help="stop a suite after S"
    )
    parser.add_argument(
        "--part", type=part, default=(1, 1), metavar="1/2", help="of a suite, to run side by side"
    )
    parser.add_argument("--workload", default="claims", choices=sorted(WORKLOADS))
    parser.add_argument(
        "--nemesis",
        default="kill",
        metavar="A,B",
        help=f"one or several at the same time: {', '.join(NEMESES)}",
    )
    parser.add_argument("--seconds", type=float, help="under attack; default: 20, in a suite 14")
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


def part(text: str) -> tuple[int, int]:
    number, of = map(int, text.split("/"))
    if not 1 <= number <= of:
        raise ValueError
    return number, of


def plan_of(arguments: argparse.Namespace, out: Path) -> Plan:
    nemeses = tuple(name for name in arguments.nemesis.split(",") if name)
    for name in nemeses:
        if name not in NEMESES:
            msg = f"cluster/chaos: there is no nemesis {name}: {', '.join(NEMESES)}"
            print(msg, file=sys.stderr)
            raise SystemExit(2)
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(10**6)
    return Plan(
        workload=arguments.workload,
        nemeses=nemeses,
        seconds=arguments.seconds or SECONDS,
        nodes=arguments.nodes,
        seed=seed,
        directory=out,
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


def tell_redis(summary: dict[str, Any], out: Path) -> int:
    """The same for Redis; what it lost is the answer, not an error of the run."""
    print(f"operations: {summary['operations']} ({summary['outcomes']}); {summary['faults']}")
    for finding in summary["findings"][:SHOWN_MAX]:
        print(f"FOUND: {finding}")
    print(
        f"{summary['system']}: of {summary['claims']} claims {summary['claims_with_two_holders']}"
        f" had two holders, {summary['results_lost']} results were lost; broken rules:"
        f" {summary['rules'] or 'none'}; all of it in {out}"
    )
    return 0


def main(argv: list[str] | None = None) -> int:
    arguments = build_parser().parse_args(argv)
    try:
        return run(arguments)
    except Missing as missing:
        print(f"cluster/chaos: {missing}", file=sys.stderr)
        return 2


def run(arguments: argparse.Namespace) -> int:
    """What the command line asks for; the exit code."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    out = (arguments.out or Path(tempfile.gettempdir()) / f"chaos-{stamp}").absolute()
    if arguments.suite:
        seconds = arguments.seconds or suite.SECONDS
        seed = 1 if arguments.seed is None else arguments.seed
        return suite.run(out, seconds, seed, arguments.for_s, arguments.network, arguments.part)
    if arguments.planted is not None:
        return planted.run(out, arguments.planted)
    if arguments.failover:
        return failover.run(out, arguments.rounds)
    if arguments.soak is not None:
        return failover.run_soak(out, arguments.soak)
    plan = plan_of(arguments, out)
    if arguments.system == "redis-sentinel":
        print(sentinel.command(plan, wait=arguments.wait), flush=True)
        return tell_redis(asyncio.run(sentinel.attack(plan, wait=arguments.wait)), out)
    print(plan.command(), flush=True)
    return tell(execute(plan))
