"""The harness and its checkers keep the rules of size that the package keeps."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.test_tidy import missing_docstring, too_long

MODULES = sorted((Path(__file__).parents[2] / "chaos").glob("*.py"))
# What judges must not know who is judged: a history is all that it gets.
JUDGES = {"history", "findings", "requests", "model", "excuses", "search", "shrink", "verdict"}
JUDGES |= {"availability"} | {path.stem for path in MODULES if path.stem.startswith("check_")}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_tidy(path):
    text = path.read_text()
    assert missing_docstring(path.stem, text) + too_long(path.stem, text) == []


@pytest.mark.parametrize("name", sorted(JUDGES))
def test_judges_know_no_node_and_no_client(name):
    text = (MODULES[0].parent / f"{name}.py").read_text()
    imported = {line.split()[1] for line in text.splitlines() if line.startswith("from ")}
    ours = {module.removeprefix("chaos.") for module in imported if module.startswith("chaos.")}
    assert ours <= JUDGES
    assert not any(module.startswith("goblin_raft") for module in imported)
