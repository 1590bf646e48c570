"""The suite's bookkeeping: it goes on where it was stopped, and its sums are right."""

from __future__ import annotations

import json
from pathlib import Path

from chaos import suite
from chaos.catalogue import NEMESES, WORKLOADS
from chaos.planted import TRAPS
from tests.planted_bugs import BUGS


def line(workload: str, nemesis: str, nodes: int, valid: bool | str = True) -> dict:
    return {
        "command": f"{workload} {nemesis} {nodes}",
        "workload": workload,
        "nemeses": nemesis.split(","),
        "nodes": nodes,
        "valid": valid,
        "version": "1",
        "date": "2026-01-02 03:04",
        "outcomes": {"ok": 10, "unknown": 1},
        "faults": {nemesis: 2},
        "remarks": {"refused": 1},
        "seconds": 36.0,
        "recovery_s": 1.5,
        "findings": [],
        "gaps": [(nemesis, 250.0, None), (nemesis, 750.0, 1.0)],
    }


def test_every_workload_meets_every_nemesis_on_both_sizes(tmp_path: Path):
    plans = list(suite.plans(tmp_path, 10, 1))
    met = {(plan.workload, name, plan.nodes) for plan in plans for name in plan.nemeses}
    groups = {name.partition("-")[0] for name in NEMESES}
    for workload in WORKLOADS:
        for size in (3, 5):
            names = {name for w, name, s in met if (w, s) == (workload, size)}
            assert {name.partition("-")[0] for name in names} == groups
    assert len({plan.command() for plan in plans}) == len(plans)
    assert len({plan.directory for plan in plans}) == len(plans)


def test_the_same_seed_gives_the_same_runs(tmp_path: Path):
    assert list(suite.plans(tmp_path, 10, 1)) == list(suite.plans(tmp_path, 10, 1))
    assert list(suite.plans(tmp_path, 10, 1)) != list(suite.plans(tmp_path, 10, 2))


def test_what_is_done_is_not_done_again(tmp_path: Path, monkeypatch):
    plans = list(suite.plans(tmp_path, 10, 1))
    executed = []

    class Done:
        def __init__(self, plan):
            executed.append(plan)
            self.plan = plan

        def summary(self):
            return line(self.plan.workload, "kill", 3) | {"command": self.plan.command()}

    monkeypatch.setattr(suite, "execute", Done)
    with (tmp_path / "results.jsonl").open("w") as file:
        for plan in plans[:-3]:
            file.write(json.dumps(line("claims", "kill", 3) | {"command": plan.command()}) + "\n")
    assert suite.run(tmp_path, 10, 1, 60, "proxy", (1, 1)) == 0
    assert executed == plans[-3:]


def test_parts_share_the_work(tmp_path: Path, monkeypatch):
    executed = []

    class Done:
        def __init__(self, plan):
            executed.append(plan)

        def summary(self):
            return line("claims", "kill", 3) | {"command": executed[-1].command()}

    monkeypatch.setattr(suite, "execute", Done)
    for number in (1, 2):
        suite.run(tmp_path, 10, 1, 60, "proxy", (number, 2))
    assert sorted(map(str, executed)) == sorted(map(str, suite.plans(tmp_path, 10, 1)))


def test_the_sum_says_what_did_not_hold():
    lines = [
        line("claims", "kill", 3),
        line("claims", "kill", 5, valid=False),
        line("lease", "kill,clock", 3, valid="unknown"),
    ]
    page = suite.render(lines)
    assert "| kill | 3: ok, 5: **NOT VALID** |  |" in page
    assert "| kill + clock |  | 3: unknown |" in page
    assert "1 valid, 1 not valid, 1 unknown" in page
    assert "33 operations: 30 ok, 3 unknown" in page
    assert "0.03 hours" in page
    assert "3 refused to start, and 0 were unharmed" in page
    assert "| kill | 4 | 0.50 | 0.75 | 0.00 | 0.00 |" in page
    assert "kill,clock |" not in page


def test_every_trap_is_for_a_bug_that_there_is():
    assert {trap.bug for trap in TRAPS} <= set(BUGS)
    assert len(TRAPS) >= 10
    assert {trap.workload for trap in TRAPS} <= set(WORKLOADS)
    assert {trap.nemesis for trap in TRAPS} <= set(NEMESES)
