"""The rules of STYLE.md that a program can hold."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "goblin_raft"
MODULES = sorted(PACKAGE.rglob("*.py"))

# A module may import from its own row and from rows above it.
LAYERS = [
    "__init__ reply errors limits session clock config",
    "node_view entry values",
    "arguments keyspace origins",
    "spec",
    "commands.connection commands.claims commands.strings commands.keys commands.hashes",
    "commands.server commands.sorted_sets",
    "commands.__init__",
    "state_machine",
    "consensus.__init__ consensus.errors",
    "consensus.stock consensus.disk",
    "consensus.log consensus.codec consensus.barrier consensus.proposals consensus.memory",
    "consensus.replication consensus.elections consensus.transport",
    "consensus.node",
    "consensus.replica",
    "consensus.engine",
    "resp",
    "dispatch",
    "resp_frontend",
    "server",
    "resp_client docs_pages",
    "status",
    "local_cluster",
    "cli",
    "__main__",
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names.split()}
# COMMAND lists the table that it is part of.
EXCEPTIONS = {("commands.server", "commands.__init__")}

BANNED = {
    r"\bpickle\b": set(),
    r"\btime\.time\b": {"server", "consensus.engine"},
    r"\brandom\.(random|choice|randint)\(": set(),
    r"^(from|import) pysyncobj": {"consensus.stock", "consensus.node", "consensus.replication"}
    | {"consensus.elections"},
}


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts)


def imports_of(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("goblin_raft"):
            base = (node.module or "").removeprefix("goblin_raft").lstrip(".")
            for alias in node.names:
                whole = f"{base}.{alias.name}".lstrip(".")
                for name in (whole, base, f"{base}.__init__", "__init__"):
                    if name in RANK and (name != "__init__" or not base):
                        found.add(name)
                        break
    return found


def test_every_module_has_its_layer():
    assert {name_of(path) for path in MODULES} == set(RANK)


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_only_point_down(path):
    name = name_of(path)
    for other in imports_of(path):
        if (name, other) not in EXCEPTIONS:
            assert RANK[other] <= RANK[name], f"{name} imports {other}"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_says_what_it_is_for(path):
    assert ast.get_docstring(ast.parse(path.read_text()))


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_files_and_functions_are_short(path):
    text = path.read_text()
    assert len(text.splitlines()) <= 420
    assert all(len(line) <= 100 for line in text.splitlines())
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno - node.lineno < 60, f"{node.name} is long"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_banned_names_stay_in_their_files(path):
    code = re.sub(r'""".*?"""|#[^\n]*', "", path.read_text(), flags=re.DOTALL)
    for pattern, allowed in BANNED.items():
        if name_of(path) not in allowed:
            assert not re.search(pattern, code, re.MULTILINE), f"{pattern} in {path.name}"


def test_the_import_rule_can_fail():
    assert "state_machine" in imports_of(PACKAGE / "consensus" / "engine.py")
    assert RANK["state_machine"] > RANK["keyspace"]
