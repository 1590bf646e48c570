"""What we take from pysyncobj that it does not promise: the version, its source, each private name.

A new use of a private name fails here until it is listed, and so does a new version: then read what
changed in pysyncobj before you change a line of this file (docs/consensus.md).
"""

from __future__ import annotations

import ast
import hashlib
import inspect
from importlib import metadata
from pathlib import Path

import pysyncobj
import pytest
from pysyncobj import SyncObj, SyncObjConf, syncobj
from pysyncobj.node import Node
from pysyncobj.transport import Transport

from goblin_raft.consensus import stock
from goblin_raft.consensus.node import RaftNode

CONSENSUS = Path(stock.__file__).parent
VERSION = "0.3.17"
SOURCES = {
    "syncobj.py": "e8bdf06797085d734df86e24ab4802fe87893dff77268565ec036f7ad4a1cfe4",
    "transport.py": "0c9d89f9c4781ec9772df8011d7975a1a4a1a5f541357e12eae85a813e92b50b",
    "node.py": "e4a3f027cd8291f558334bb9c977e952f6b6989e7e1fa1588d3005ef0b990e2c",
    "config.py": "fbbc7ff9f18e4d15a7fd563376e42f5bd192956879d4b810b056d5248b955698",
}

MANGLE = "_SyncObj__"

# Methods of SyncObj that ours replace.
OVERRIDDEN = {
    "__dir__",
    "__init__",
    "_SyncObj__applyLogEntries",
    "_SyncObj__connectedToAnyone",
    "_SyncObj__generateRaftTimeout",
    "_SyncObj__onBecomeLeader",
    "_SyncObj__sendAppendEntries",
    "_SyncObj__tryLogCompaction",
    "_checkCommandsToApply",
}
# Methods of SyncObj that ours call, beside those above.
CALLED = {"_SyncObj__setCurrentTerm", "_SyncObj__setState", "conf", "doTick"}
# Attributes of a SyncObj, by their names inside it.
STATE = {
    "connectedNodes",
    "lastResponseTime",
    "leaderCommitIndex",
    "newAppendEntriesTime",
    "otherNodes",
    "raftCommitIndex",
    "raftCurrentTerm",
    "raftElectionDeadline",
    "raftLastApplied",
    "raftLeader",
    "raftLog",
    "raftMatchIndex",
    "raftNextIndex",
    "raftState",
    "selfNode",
    "transferInProgress",
    "transport",
    "votedForNodeId",
    "votesCount",
}
# What is imported, and what is used of the module `syncobj`.
IMPORTED = {
    "pysyncobj.SyncObjConf",
    "pysyncobj.node.Node",
    "pysyncobj.syncobj",
    "pysyncobj.transport.Transport",
}
OF_SYNCOBJ = {"SyncObj", "_RAFT_STATE", "monotonicTime"}
SETTINGS = {
    "appendEntriesPeriod",
    "appendEntriesUseBatch",
    "autoTick",
    "commandsWaitLeader",
    "connectionTimeout",
    "dynamicMembershipChange",
    "fullDumpFile",
    "journalFile",
    "leaderFallbackTimeout",
    "onStateChanged",
    "password",
    "raftMaxTimeout",
    "raftMinTimeout",
}
# pysyncobj's journal, whose place our log takes.
JOURNAL = {
    "__getitem__",
    "__len__",
    "_destroy",
    "add",
    "deleteEntriesFrom",
    "getCurrentTerm",
    "getRaftCommitIndex",
    "getVotedForNodeId",
    "onOneSecondTimer",
    "setCurrentTerm",
    "setRaftCommitIndex",
}


class Uses(ast.NodeVisitor):
    """All uses of pysyncobj in one text of ours."""

    def __init__(self) -> None:
        self.mangled: set[str] = set()
        self.defined: set[str] = set()
        self.state: set[str] = set()
        self.imported: set[str] = set()
        self.of_syncobj: set[str] = set()
        self.settings: set[str] = set()

    def visit_FunctionDef(self, node) -> None:
        self.defined.add(node.name)
        self.generic_visit(node)

    def visit_Attribute(self, node) -> None:
        if node.attr.startswith(MANGLE):
            self.mangled.add(node.attr)
        if isinstance(node.value, ast.Name) and node.value.id == "syncobj":
            self.of_syncobj.add(node.attr)
        self.generic_visit(node)

    def visit_Call(self, node) -> None:
        match node:
            case ast.Call(func=ast.Name(id="_private"), args=[ast.Constant(value=name)]):
                self.state.add(name)
            case ast.Call(func=ast.Name(id="SyncObjConf"), keywords=keywords):
                self.settings |= {keyword.arg for keyword in keywords}
        self.generic_visit(node)

    def visit_Constant(self, node) -> None:
        if isinstance(node.value, str) and MANGLE in node.value and " " not in node.value:
            self.mangled.add(node.value)

    def visit_ImportFrom(self, node) -> None:
        if (node.module or "").split(".")[0] == "pysyncobj":
            self.imported |= {f"{node.module}.{alias.name}" for alias in node.names}

    def visit_Import(self, node) -> None:
        self.imported |= {a.name for a in node.names if a.name.split(".")[0] == "pysyncobj"}


def uses_of(*texts: str) -> Uses:
    uses = Uses()
    for text in texts:
        uses.visit(ast.parse(text))
    return uses


@pytest.fixture(scope="module")
def uses() -> Uses:
    return uses_of(*[path.read_text() for path in sorted(CONSENSUS.glob("*.py"))])


def test_the_version_is_the_one_that_was_read():
    assert metadata.version("pysyncobj") == VERSION
    wanted = [word for word in metadata.requires("pysyncobj") or [] if "extra" not in word]
    assert wanted == []  # nothing else comes in with it


@pytest.mark.parametrize("name", SOURCES)
def test_its_source_is_the_one_that_was_read(name):
    source = (Path(pysyncobj.__file__).parent / name).read_bytes()
    assert hashlib.sha256(source).hexdigest() == SOURCES[name]


def test_pyproject_asks_for_exactly_this_version():
    text = (CONSENSUS.parents[1] / "pyproject.toml").read_text()
    assert f'"pysyncobj=={VERSION}"' in text


def test_every_private_name_that_we_use_is_listed(uses):
    defined = {name for name in uses.defined if name.startswith(MANGLE)}
    methods = {name for name in OVERRIDDEN | CALLED if name.startswith(MANGLE)}
    assert uses.mangled | defined == methods | {MANGLE, MANGLE + "transport"}
    assert uses.state | {"transport"} == STATE
    assert uses.imported == IMPORTED
    assert uses.of_syncobj == OF_SYNCOBJ
    assert uses.settings == SETTINGS


def test_everything_of_syncobj_that_our_classes_replace_is_listed():
    """By the classes themselves: also what replaces something without looking like it."""
    ours = [cls for cls in RaftNode.__mro__ if cls.__module__.startswith("goblin_raft.")]
    stocks = set(dir(SyncObj))
    replaced = {name for cls in ours for name in vars(cls) if name in stocks}
    replaced -= {"__module__", "__doc__", "__annotations__", "__firstlineno__"}
    replaced -= {"__static_attributes__", "__parameters__", "__orig_bases__"}
    assert replaced == OVERRIDDEN


def test_everything_listed_exists():
    for name in (OVERRIDDEN | CALLED) - {"__dir__", "__init__"}:
        assert name in vars(SyncObj), name
    node = SyncObj(Node("n1"), [], conf=SyncObjConf(autoTick=False), transportClass=Transport)
    for name in STATE:
        assert MANGLE + name in vars(node), name
    for name in OF_SYNCOBJ:
        assert hasattr(syncobj, name), name
    conf = vars(SyncObjConf())
    for name in SETTINGS:
        assert name in conf, name
    for name in JOURNAL:
        assert hasattr(node._SyncObj__raftLog, name), name


def test_the_log_is_all_that_syncobj_asks_of_a_journal():
    text = inspect.getsource(SyncObj)
    asked = {
        node.attr
        for node in ast.walk(ast.parse(inspect.cleandoc("\n" + text)))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Attribute)
        and node.value.attr == "__raftLog"
    }
    # The last two only in what we replaced: compaction, and loading a dump.
    assert asked <= JOURNAL | {"deleteEntriesTo", "clear"}


@pytest.mark.parametrize(
    "text, name",
    [
        ("self._SyncObj__votedForNodeId = 1", "mangled"),
        ("getattr(self, '_SyncObj__onTick')", "mangled"),
        ("x = _private('commandsQueue')", "state"),
        ("from pysyncobj.serializer import Serializer", "imported"),
        ("import pysyncobj.pickle", "imported"),
        ("syncobj.pickle.loads(b'')", "of_syncobj"),
        ("SyncObjConf(useFork=True)", "settings"),
    ],
)
def test_a_new_use_is_noticed(text, name):
    assert getattr(uses_of(text), name) != set()
