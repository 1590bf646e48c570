"""Planted bugs, each of which some workload under some fault must find within a stated time.

The bugs are those of tests/planted_bugs.py, put into real nodes by tests/planted_node.py; the
product has no switch for them. For each bug: which run finds it, and after how long at the latest.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from chaos.run import Plan, execute

RUN_S = 12.0


@dataclass(frozen=True, slots=True)
class Trap:
    """How a bug is caught. It runs with one seed after the other until it is."""

    bug: str
    workload: str
    nemesis: str
    within_s: float = 120.0
    nodes: int = 3
    workers: int = 3
    cheap: bool = False  # found at once: CI does it as well


TRAPS = (
    Trap("stale_read_without_barrier", "register", "slow", cheap=True),
    Trap("read_without_majority", "register", "partition-leader-minority", workers=6),
    Trap("answer_before_disk", "register", "kill-all"),
    Trap("commits_when_sent", "register", "partition-leader-minority"),
    Trap("expiry_by_local_clock", "lease", "kill-leader"),
    Trap("stamp_from_follower", "lease", "kill-leader"),
    Trap("clock_leaps_at_elections", "lease", "kill-leader", cheap=True),
    Trap("new_leader_starts_leases_again", "lease", "pause"),
    Trap("double_apply_on_reproposal", "counter", "kill-leader"),
    Trap("unknown_called_not_executed", "register", "partition-leader-minority"),
    Trap("lease_lost_in_snapshot", "lease", "snapshot"),
    Trap("claim_granted_twice", "claims", "kill"),
)


def run(directory: Path, only: list[str]) -> int:
    """Plant each bug; 0 if each was found in its time."""
    missed = []
    print("| planted bug | workload | nemesis | found after, s | by |")
    print("|---|---|---|---|---|")
    for trap in TRAPS:
        if only and trap.bug not in only:
            continue
        found = catch(trap, directory)
        if found is None:
            missed.append(trap.bug)
            row = [trap.bug, trap.workload, trap.nemesis, f"not in {trap.within_s:g}", ""]
        else:
            row = [trap.bug, trap.workload, trap.nemesis, f"{found[0]:.0f}", found[1]]
        print(f"| {' | '.join(row)} |", flush=True)
    return 1 if missed else 0


def catch(trap: Trap, directory: Path, run_s: float = RUN_S) -> tuple[float, str] | None:
    """The seconds until the bug was found, checking included, and the rule that it broke."""
    began_s = time.monotonic()
    seed = 0
    while time.monotonic() - began_s < trap.within_s:
        seed += 1
        plan = Plan(
            workload=trap.workload,
            nemeses=(trap.nemesis,),
            seconds=run_s,
            nodes=trap.nodes,
            seed=seed,
            directory=directory / f"{trap.bug}-{seed}",
            workers=trap.workers,
            planted=trap.bug,
        )
        result = execute(plan)
        if result.valid is False:
            rules = [finding.rule for finding in result.verdict.findings]
            return time.monotonic() - began_s, (rules or result.findings)[0]
    return None
