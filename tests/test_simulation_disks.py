"""Random schedules in which disks are replaced and fail, on top of all that goes wrong anyway."""

from __future__ import annotations

import dataclasses
import random

import pytest

from goblin_raft.consensus.log import Log
from tests.planted_bugs import patched
from tests.simulator.plan import Event, make_plan
from tests.simulator.run import run_plan


def plan_of(seed: int, nodes: int):
    plan = make_plan(seed, nodes)
    rng = random.Random(seed)
    events = list(plan.events)
    for _ in range(15):
        at_ms = rng.uniform(100, plan.duration_ms)
        events.append(Event(at_ms, "wipe", (rng.randrange(nodes), rng.uniform(1, 60))))
    for _ in range(5):
        at_ms = rng.uniform(100, plan.duration_ms)
        events.append(Event(at_ms, "disk_error", (rng.randrange(nodes), 0.0)))
    return dataclasses.replace(plan, events=tuple(sorted(events)))


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_no_schedule_breaks_a_promise(first):
    acknowledged = 0
    for seed in range(first, first + 20):
        result = run_plan(plan_of(seed, 5 if seed % 4 == 0 else 3))
        assert result.rule is None, f"seed {seed}: {result.rule}: {result.text}"
        acknowledged += result.acknowledged
    assert acknowledged > 300


def a_wiped_node_votes_at_once(put) -> None:
    put(Log, "is_voter", True)


def test_a_wiped_node_that_votes_at_once_is_caught():
    with patched(a_wiped_node_votes_at_once):
        assert any(run_plan(plan_of(seed, 3)).rule for seed in range(100))
