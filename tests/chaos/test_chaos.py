"""Real nodes under attack, for ninety seconds in all: every workload, most faults; and the judge is
seen to find a planted bug. `cluster/chaos --suite` is the long version.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from chaos.planted import TRAPS, catch
from chaos.run import Plan, execute

pytestmark = pytest.mark.cluster

HAS_COMPILER = shutil.which("cc") is not None
MIX = [
    ("claims", ("kill", "partition"), 3),
    ("lease", ("pause", "clock", "kill-leader"), 3),
    ("register", ("partition", "snapshot", "disk-slow"), 5),
    ("counter", ("restart", "lossy"), 3),
    ("transactions", ("kill", "slow"), 3),
    ("read-your-writes", ("partition", "corrupt"), 3),
]
NEEDS_COMPILER = {"clock", "disk-slow", "disk-fail"}
SECONDS = 7.0


@pytest.mark.parametrize("workload, nemeses, nodes", MIX, ids=lambda value: str(value))
def test_what_clients_see_under_attack_keeps_every_promise(
    workload: str, nemeses: tuple[str, ...], nodes: int, tmp_path: Path
):
    if not HAS_COMPILER:
        nemeses = tuple(name for name in nemeses if name not in NEEDS_COMPILER)
    # Another schedule for every run of CI; the seed is in the test's output.
    seed = int.from_bytes(os.urandom(2))
    plan = Plan(
        workload=workload,
        nemeses=nemeses,
        seconds=SECONDS,
        nodes=nodes,
        seed=seed,
        directory=tmp_path / "run",
    )
    result = execute(plan)
    assert result.valid is True, f"{plan.command()}: {result.summary()['findings']}"
    assert result.outcomes["ok"] > 100


@pytest.mark.parametrize("trap", [t for t in TRAPS if t.cheap], ids=lambda trap: trap.bug)
def test_a_planted_bug_is_found(trap, tmp_path: Path):
    assert catch(trap, tmp_path, SECONDS) is not None
