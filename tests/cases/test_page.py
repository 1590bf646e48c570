"""docs/cases.md names tests that exist, and every story and test of a case is in it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "cases.md").read_text()
ROWS = re.findall(r"^\| ([A-F]\d\d) \| (.*) \| (.*) \|$", PAGE, re.MULTILINE)
NAMED = re.findall(r"`(tests/[\w/]+\.(?:py|txt))(?:::(\w+))?`", PAGE)


def functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_every_case_has_one_row_and_an_answer():
    cases = [case for case, _, _ in ROWS]
    assert len(cases) == len(set(cases)) == 61
    assert cases == sorted(cases)
    for case, _, held_by in ROWS:
        assert "`" in held_by or held_by.startswith("none: "), case


def test_every_test_that_is_named_exists():
    assert len(NAMED) > 50
    for path, function in NAMED:
        assert (ROOT / path).is_file(), path
        assert not function or function in functions(ROOT / path), f"{path}::{function}"


def test_everything_that_bears_a_case_in_its_name_is_in_the_page():
    named = {path for path, _ in NAMED} | {function for _, function in NAMED}
    stories = (ROOT / "tests" / "transcripts").glob("case_*.txt")
    assert {str(path.relative_to(ROOT)) for path in stories} <= named
    for path in (ROOT / "tests" / "cases").glob("test_*.py"):
        assert {f for f in functions(path) if re.match(r"test_[a-f]\d\d_", f)} <= named
