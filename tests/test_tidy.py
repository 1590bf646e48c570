"""The rules of STYLE.md that a program can hold.

Each check is a function from a file's name and text to the list of what is wrong in it, so that the
end of this file can show for each that it finds what it is there for.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "goblin_raft"
MODULES = sorted(PACKAGE.rglob("*.py"))

FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60
LINE_CHARACTERS_MAX = 100

# A module may import from its own row and from rows above it.
LAYERS = [
    "__init__ reply errors errors_node errors_talk limits changes glob pubsub session clock users",
    "key_index long_double ordered lua schedule scripts xxh3",
    "config counters entry values",
    "node_view",
    "readers keyspace origins",
    "notifications",
    "arguments",
    "tails",
    "spec",
    "call",
    "commands.connection commands.claims commands.strings commands.counters commands.keys",
    "commands.expiry commands.scans commands.objects commands.transactions commands.pubsub",
    "commands.clients commands.server commands.hashes commands.sorted_sets commands.info",
    "commands.settings commands.introspection commands.diagnostics commands.ranges",
    "commands.conditional commands.unions",
    "commands.locks",
    "commands.scripting",
    "commands.__init__",
    "machine_state",
    "state_machine",
    "consensus.__init__ consensus.errors",
    "consensus.stock consensus.disk consensus.answers consensus.snapshots",
    "consensus.directory consensus.mark consensus.wal",
    "consensus.storage",
    "consensus.log consensus.codec consensus.barrier consensus.proposals consensus.memory",
    "consensus.snapshot_transfer consensus.snapshot_policy consensus.snapshot_writer",
    "consensus.membership",
    "consensus.replication consensus.elections consensus.transport",
    "consensus.node",
    "consensus.replica",
    "consensus.writer",
    "consensus.engine",
    "resp transactions messages",
    "dispatch",
    "resp_frontend",
    "server",
    "resp_client docs_examples",
    "docs_pages",
    "status",
    "local_cluster",
    "cli",
    "__main__",
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names.split()}
# COMMAND lists the table that it is part of.
EXCEPTIONS = {
    ("commands.introspection", "commands.__init__"),
    ("commands.server", "commands.introspection"),
}

BANNED = {
    r"\bpickle\b": set(),
    r"\btime\.time\b": {"server", "consensus.engine"},
    r"\bdatetime\.(now|utcnow|today)\b": set(),
    r"\brandom\.(random|choice|randint)\(": set(),
    r"^(from|import) pysyncobj": {"consensus.stock", "consensus.node", "consensus.replication"}
    | {"consensus.elections", "consensus.snapshot_transfer"},
}

# Modules without a test file of their own, and the file that exercises them.
TESTED_IN = {
    "test_simulation.py": (
        "entry keyspace machine_state origins state_machine consensus.barrier "
        "consensus.elections consensus.node "
        "consensus.proposals consensus.replica consensus.replication consensus.stock"
    ),
    "test_cluster.py": (
        "arguments spec node_view values commands.claims "
        "commands.connection commands.hashes commands.keys commands.server commands.sorted_sets "
        "commands.strings commands.transactions consensus.transport"
    ),
    "test_node_commands.py": (
        "commands.clients commands.info commands.introspection commands.settings "
        "commands.diagnostics"
    ),
    "test_docs.py": "docs_examples",
    "test_differential_commands.py": (
        "tails commands.conditional commands.counters commands.expiry commands.objects "
        "commands.ranges commands.scans commands.unions"
    ),
    "test_cli.py": "docs_pages __main__",
    "test_status.py": "resp_client",
    "test_dispatch.py": "consensus.memory transactions call",
    "test_pubsub.py": "messages notifications commands.pubsub",
    "test_scripts.py": "lua commands.locks commands.scripting",
    "test_spec.py": "readers",
    "test_engine.py": "consensus.disk consensus.answers",
    "test_log.py": "consensus.directory consensus.storage",
    "test_damage.py": "consensus.mark consensus.wal",
    "test_disk_failures.py": "consensus.writer",
    "test_snapshots.py": "consensus.snapshot_policy consensus.snapshot_writer",
}
# Tables and plain values: nothing in them can go wrong by itself.
WITHOUT_BEHAVIOUR = {
    "__init__",
    "commands.locks",
    "commands.scripting",
    "commands.__init__",
    "consensus.__init__",
    "consensus.errors",
    "errors",
    "errors_talk",
    "errors_node",
    "limits",
    "reply",
    "session",
}
UNTESTED: dict[str, str] = {}


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts)


def imports_of(text: str) -> set[str]:
    """The modules of ours that a text imports, also inside functions."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {a.name.removeprefix("goblin_raft.") for a in node.names} & set(RANK)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("goblin_raft"):
            base = (node.module or "").removeprefix("goblin_raft").lstrip(".")
            for alias in node.names:
                whole = f"{base}.{alias.name}".lstrip(".")
                for name in (whole, base, f"{base}.__init__", "__init__"):
                    if name in RANK and (name != "__init__" or not base):
                        found.add(name)
                        break
    return found


def upward_imports(name: str, text: str) -> list[str]:
    return [
        f"{name} imports {other}"
        for other in sorted(imports_of(text))
        if RANK[other] > RANK[name] and (name, other) not in EXCEPTIONS
    ]


def missing_docstring(name: str, text: str) -> list[str]:
    return [] if ast.get_docstring(ast.parse(text)) else [f"{name} does not say what it is for"]


def too_long(name: str, text: str) -> list[str]:
    lines = text.splitlines()
    found = []
    if len(lines) > FILE_LINES_MAX:
        found.append(f"{name} has {len(lines)} lines")
    found += [
        f"{name}:{i} has {len(line)} characters"
        for i, line in enumerate(lines, 1)
        if len(line) > LINE_CHARACTERS_MAX
    ]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = node.end_lineno - node.lineno + 1
            if length > FUNCTION_LINES_MAX:
                found.append(f"{name}: {node.name} has {length} lines")
    return found


def banned_names(name: str, text: str) -> list[str]:
    code = re.sub(r'""".*?"""|#[^\n]*', "", text, flags=re.DOTALL)
    return [
        f"{name} uses {pattern}"
        for pattern, allowed in BANNED.items()
        if name not in allowed and re.search(pattern, code, re.MULTILINE)
    ]


CHECKS = [upward_imports, missing_docstring, too_long, banned_names]


def modules_without_a_test(names: set[str], test_files: set[str]) -> set[str]:
    tested = {
        name
        for file, of_file in TESTED_IN.items()
        for name in of_file.split()
        if file in test_files
    }
    own = {name for name in names if f"test_{name.rpartition('.')[2]}.py" in test_files}
    return names - own - tested - WITHOUT_BEHAVIOUR - set(UNTESTED)


def test_every_module_has_its_layer():
    assert {name_of(path) for path in MODULES} == set(RANK)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_tidy(path, check):
    assert check(name_of(path), path.read_text()) == []


def test_every_module_is_tested_somewhere():
    test_files = {path.name for path in TESTS.rglob("test_*.py")}
    assert modules_without_a_test({name_of(path) for path in MODULES}, test_files) == set()


@pytest.mark.parametrize(
    "check, name, text",
    [
        (upward_imports, "keyspace", "from goblin_raft.state_machine import StateMachine"),
        (upward_imports, "clock", "from goblin_raft import server"),
        (upward_imports, "resp", "def f():\n    import goblin_raft.cli"),
        (upward_imports, "state_machine", "from goblin_raft.consensus.log import Log"),
        (missing_docstring, "clock", "x = 1"),
        (too_long, "clock", "x = 1\n" * (FILE_LINES_MAX + 1)),
        (too_long, "clock", "x = '" + "a" * LINE_CHARACTERS_MAX + "'"),
        (too_long, "clock", "def f():\n" + "    x = 1\n" * FUNCTION_LINES_MAX),
        (banned_names, "keyspace", "import time\nnow = time.time()"),
        (banned_names, "entry", "import pickle"),
        (banned_names, "spec", "import random\nrandom.choice([1])"),
        (banned_names, "server", "from pysyncobj import SyncObj"),
        (banned_names, "server", "now = datetime.now()"),
    ],
)
def test_each_check_can_fail(check, name, text):
    assert check(name, text) != []


def test_each_check_lets_pass_what_is_right():
    text = (
        '"""A module. It does not use pickle."""\n\nfrom goblin_raft.reply import OK  # no pickle\n'
    )
    assert [check("keyspace", text) for check in CHECKS] == [[], [], [], []]


def test_a_module_without_a_test_is_noticed():
    assert modules_without_a_test({"clock", "lease"}, {"test_clock.py"}) == {"lease"}
    assert modules_without_a_test({"entry"}, {"test_clock.py"}) == {"entry"}
