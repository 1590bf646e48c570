"""docs/guarantees.md and docs/consensus.md speak of tests by name: each of them exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
DOCS = TESTS.parent / "docs"
PAGES = ("guarantees.md", "consensus.md")


def functions() -> set[str]:
    found = set()
    for path in TESTS.rglob("*.py"):
        found |= set(re.findall(r"^(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE))
    return found


def unknown_names(text: str) -> list[str]:
    """The tests and files that a page names and that do not exist."""
    known = functions()
    wrong = []
    for word in re.findall(r"`([^`\n]+)`", text):
        if re.fullmatch(r"tests/[\w./-]+", word):
            if not (TESTS.parent / word).exists():
                wrong.append(word)
        elif re.fullmatch(r"test_\w+", word) and word not in known:
            wrong.append(word)
    return wrong


@pytest.mark.parametrize("page", PAGES)
def test_every_test_that_is_named_exists(page):
    text = (DOCS / page).read_text()
    assert unknown_names(text) == []
    assert len(re.findall(r"`test_\w+`", text)) > 20


@pytest.mark.parametrize("page", PAGES)
def test_every_row_names_a_test(page):
    """A defect or a promise without one is a claim."""
    rows = re.findall(r"^\|(.+)\|$", (DOCS / page).read_text(), re.MULTILINE)
    for row in rows:
        cells = [cell.strip() for cell in row.split("|")]
        if set(cells[0]) <= set("-: ") or cells[-1] in ("test", "attacked by"):
            continue
        assert re.search(r"`(test_\w+|tests/[\w./-]+)`", cells[-1]), row


def test_a_wrong_name_is_noticed():
    text = "`test_nothing_of_that_name` and `tests/nowhere.py`"
    assert unknown_names(text) == ["test_nothing_of_that_name", "tests/nowhere.py"]
