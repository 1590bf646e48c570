"""The planted bugs can be planted into the classes as they are now, and are gone afterwards."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.planted_bugs import BUGS, SIMULATED_ONLY, patched


@pytest.mark.parametrize("name", BUGS)
def test_each_can_be_planted_and_taken_back(name):
    touched = []

    def planting(put):
        def noted(owner, attribute, value):
            touched.append((owner, attribute, vars(owner).get(attribute)))
            put(owner, attribute, value)

        BUGS[name](noted)

    with patched(planting):
        assert touched
        assert all(vars(owner)[attribute] is not old for owner, attribute, old in touched)
    assert all(vars(owner).get(attribute) is old for owner, attribute, old in touched)
    assert BUGS[name].__doc__


def test_what_only_the_simulator_shows_is_there():
    assert set(SIMULATED_ONLY) <= set(BUGS)


def test_a_node_starts_with_one(tmp_path):
    """It gets as far as reading its settings, with the bug in it."""
    words = ["-m", "tests.planted_node", "claim_granted_twice", "serve", "--peers", "?"]
    done = subprocess.run(
        [sys.executable, *words], cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2
    assert "peers" in done.stderr
