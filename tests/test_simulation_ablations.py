"""The simulator finds what it is there for: our fixes taken out, and bugs planted, one by one.

Those that need many seeds are left to `tests/simulate --ablations`, which runs the whole table.
"""

from __future__ import annotations

import pytest

from tests.planted_bugs import BUGS
from tests.simulator.ablations import QUICK, TABLE, find_all


@pytest.fixture(scope="module")
def found():
    return {name: (count, result) for name, count, result, _ in find_all(QUICK)}


@pytest.mark.parametrize("name", sorted(QUICK))
def test_it_is_found(name, found):
    count, result = found[name]
    assert result is not None, f"{TABLE[name].what} Not found in {count} seeds."


def test_every_planted_bug_is_in_the_table():
    assert set(BUGS) <= set(TABLE)
    assert set(TABLE) >= QUICK
    assert all(ablation.what for ablation in TABLE.values())
