"""Thousands of schedules, on all cores."""

from __future__ import annotations

import pytest

from tests.simulator.many import run_many


@pytest.mark.parametrize("nodes, seeds", [(3, 1_500), (5, 500)])
def test_no_seed_breaks_a_promise(nodes, seeds):
    """A failure names its seed: `tests/simulate --seed N --nodes N` shows it, shrunk."""
    for summary in run_many((seed, nodes) for seed in range(1_000, 1_000 + seeds)):
        assert not summary.failures, summary
    print(summary)
    assert summary.acknowledged > 15 * seeds  # the schedules do let work through
