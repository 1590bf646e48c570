"""No pickle is reached from a peer's bytes, a log or a snapshot: everything that could unpickle
raises while a whole cluster works, restarts and is filled up."""

from __future__ import annotations

import _pickle
import ast
import inspect
import pickle
import shelve
import zlib
from pathlib import Path
from types import SimpleNamespace

import pysyncobj.pickle
import pytest
from pysyncobj import SyncObj
from pysyncobj.serializer import Serializer

import goblin_raft
from goblin_raft.consensus.codec import BadFrame, decode_body
from goblin_raft.consensus.errors import StartRefused
from goblin_raft.consensus.log import Log
from goblin_raft.consensus.snapshots import Snapshot, SnapshotDamaged, read_snapshot, write_snapshot
from goblin_raft.consensus.transport import Frames
from goblin_raft.entry import Unreadable
from tests.defects.conftest import clock, clusters  # noqa: F401 fixtures

READERS = [
    (pickle, "loads"),
    (pickle, "load"),
    (pickle, "Unpickler"),
    (pickle, "_loads"),
    (pickle, "_load"),
    (pickle, "_Unpickler"),
    (_pickle, "loads"),
    (_pickle, "load"),
    (_pickle, "Unpickler"),
    (shelve, "open"),
    (pysyncobj.pickle, "loads"),
    (pysyncobj.pickle, "load"),
]


class Unpickled(BaseException):
    """Not an Exception: nothing may catch it by accident."""


class Payload:
    """Says so when it is unpickled after all."""

    def __reduce__(self):
        return unpickled, ()


def unpickled(*_, **__):
    raise Unpickled


def methods_that_pickle() -> list[str]:
    """The methods of SyncObj whose own code names the module."""
    found = []
    for name, method in vars(SyncObj).items():
        code = getattr(method, "__code__", None)
        if code is not None and "pickle" in code.co_names:
            found.append(name)
    return found


PICKLING = methods_that_pickle()


@pytest.fixture
def no_pickle(monkeypatch):
    for module, name in READERS:
        monkeypatch.setattr(module, name, unpickled)
    for name in PICKLING:
        monkeypatch.setattr(SyncObj, name, unpickled)
    for name, method in vars(Serializer).items():
        if inspect.isfunction(method) and name != "__init__":
            monkeypatch.setattr(Serializer, name, unpickled)


def test_the_traps_are_set(no_pickle):
    assert len(PICKLING) >= 5
    with pytest.raises(Unpickled):
        pickle.loads(pickle.dumps(1))
    with pytest.raises(Unpickled):
        pysyncobj.pickle.loads(b"")


def test_a_cluster_works_without(clusters, no_pickle):  # noqa: F811
    c = clusters.small("ours")
    c.healthy()
    c.isolate("C")
    c.append("A", *[f"x{number}" for number in range(20)])
    c.settle("A", "B")
    c.snapshot("A")  # written
    c.submit("B", "forwarded")
    c.tick("B")
    c.settle("A", "B")
    c.connect("A", "C")
    c.connect("B", "C")
    for _ in range(30):  # sent, received, loaded
        c.settle("A", "B", "C")
    assert c.nodes["C"].log.snapshot is not None
    for node in "ABC":  # logs and snapshots opened
        c.restart(node)
    c.connect_all()
    c.elect("B", "A", "C")
    c.append("B", "after")
    c.settle("B", "A", "C")
    c.nodes["B"].replica.hand_over()
    c.tick("B")
    c.exchange()
    assert len(c.state("A")) == 22
    assert c.state("A") == c.state("B") == c.state("C")


BYTES = {
    "a pickle": pickle.dumps(Payload()),
    "an old pickle": pickle.dumps(Payload(), protocol=0),
    "pysyncobj's frame": zlib.compress(pickle.dumps(Payload(), protocol=2)),
}


@pytest.mark.parametrize("data", BYTES.values(), ids=BYTES)
def test_pickles_from_a_peer_are_no_message(data, no_pickle):
    with pytest.raises(BadFrame):
        decode_body(data)
    closed = []
    session = Frames(SimpleNamespace(frame_bytes_max=10**6), None)
    session.transport = SimpleNamespace(
        abort=lambda: closed.append(True), get_extra_info=lambda _: None
    )
    session.data_received(len(data).to_bytes(4, "big") + data)
    assert closed


@pytest.mark.parametrize("data", BYTES.values(), ids=BYTES)
def test_pickles_in_the_log_or_a_snapshot_are_not_read(tmp_path, clusters, no_pickle, data):  # noqa: F811
    c = clusters.ours()
    c.healthy()
    log = c.nodes["A"].log
    log.add(b"\x00" + data, log[-1][1] + 1, c.term("A"))
    c.nodes["A"].raft._commit_index = log[-1][1]
    batch = log.take(clock_ms=1, wall_ms=1)
    log.write(batch)
    log.written(batch)
    with pytest.raises(Unreadable):
        c.tick("A")
    path = tmp_path / "snapshot"
    whole = Snapshot(5, 1, *write_snapshot(path, [data]))
    loader = c.nodes["B"].replica.state_loader()
    (block,) = read_snapshot(path, whole)
    with pytest.raises(Unreadable):
        loader.feed(block)
    path.write_bytes(data)
    with pytest.raises(SnapshotDamaged):
        list(read_snapshot(path, whole))
    (tmp_path / "n1").mkdir()
    Log(tmp_path / "n1", node_id="n1", cluster_name="g").close()
    (tmp_path / "n1" / "raft.db").write_bytes(data)
    with pytest.raises(StartRefused):
        Log(tmp_path / "n1", node_id="n1", cluster_name="g")


def test_no_module_of_ours_imports_what_unpickles():
    banned = {"pickle", "_pickle", "shelve", "marshal", "dill", "cloudpickle", "jsonpickle"}
    for path in Path(goblin_raft.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [
                    node.module or "",
                    *[f"{node.module}.{alias.name}" for alias in node.names],
                ]
            assert not banned & {part for name in names for part in name.split(".")}, path
