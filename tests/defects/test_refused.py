"""What stock pysyncobj offers and we refuse: D13, D14, D15, and code from a stranger (r12)."""

from __future__ import annotations

import pickle
import socket
import struct
import time
import zlib

import msgpack
import pysyncobj.pickle
import pytest
from pysyncobj import FAIL_REASON, SyncObj, SyncObjConf
from pysyncobj.node import Node

from goblin_raft.consensus.codec import BadFrame, decode_body
from goblin_raft.consensus.errors import Fatal
from tests.conftest import free_port

VERSION, MEMBERSHIP = 3, 2  # pysyncobj's types of entries beside 0 and 1


def append_entries(**more):
    message = {
        "type": "append_entries",
        "term": 1,
        "commit_index": 1,
        "prev_index": 1,
        "prev_term": 0,
        "entries": [],
        "clock_ms": 0,
        "answer": True,
    }
    return msgpack.packb({**message, **more})


@pytest.mark.parametrize("kind", [VERSION, MEMBERSHIP, 4, 255])
def test_d13_d14_no_peer_can_bring_in_other_kinds_of_entries(kind):
    decode_body(append_entries(entries=[[b"\x00x", 2, 1], [b"\x01", 3, 1]]))
    with pytest.raises(BadFrame):
        decode_body(append_entries(entries=[[bytes([kind]) + b"x", 2, 1]]))


def test_d13_an_entry_of_another_kind_is_never_skipped(clusters):
    """Stock skips one that it does not know, goes on, and counts wrong: what follows is applied
    twice. In ours such an entry, which nobody can propose, ends the process."""
    c = clusters.stock()
    c.healthy()
    c.nodes["A"]._applyCommand(pysyncobj.pickle.dumps(7), None, VERSION)
    c.append("A", "a", "b")
    c.settle("A", "B", "C")
    assert max(c.state("B").values()) == 2

    c = clusters.ours()
    c.healthy()
    log = c.nodes["A"].log
    log.add(bytes([VERSION]) + b"7", log[-1][1] + 1, c.term("A"))
    c.nodes["A"].raft.send_append_entries(heartbeat=True)
    c.tick("A")
    with pytest.raises(BadFrame):
        c.deliver("A", "B")
    log = c.nodes["B"].log
    log.add(bytes([VERSION]) + b"7", log[-1][1] + 1, c.term("A"))
    c.nodes["B"].raft._commit_index = log[-1][1]
    with pytest.raises(Fatal, match="which this version does not know"):
        c.tick("B")


def test_d14_members_are_fixed(clusters):
    """An isolated stock leader removes the others, one after the other, and commits alone."""
    c = clusters.stock(dynamicMembershipChange=True)
    c.healthy()
    c.isolate("A")
    told = []
    for peer in "BC":
        c.nodes["A"].removeNodeFromCluster(Node(peer), lambda _, error: told.append(error))
        c.tick("A")
    c.tick("A")
    assert c.nodes["A"].otherNodes == set()
    assert c.commit_index("A") == c.log("A")[-1][0]
    assert FAIL_REASON.SUCCESS in told

    c = clusters.ours()
    c.healthy()
    for change in ("addNodeToCluster", "removeNodeFromCluster"):
        with pytest.raises(Exception, match="disabled"):
            getattr(c.nodes["A"].raft, change)(Node("B"))
    assert {str(node.id) for node in c.nodes["A"].raft.otherNodes} == {"B", "C"}


def test_d15_an_entry_of_any_length_travels_whole(clusters):
    """Stock cuts a long entry by the length of the wrong thing, so that an exception leaves the
    follower's handler for some lengths; and the pieces are put together by pickle."""
    failed = set()
    for length in range(1800, 2060, 10):
        c = clusters.stock(ids="AB", appendEntriesBatchSizeBytes=1024)
        c.connect_all()
        c.elect("A", "B")
        c.submit("A", "x" * length)
        c.tick("A")
        for _ in range(4):
            c.beat("A")
            while c.wires["A", "B"]:
                try:
                    c.deliver("A", "B", 1)
                except Exception:
                    failed.add(length)
            c.deliver("B", "A")
    assert failed

    c = clusters.ours(ids="AB", value_bytes_max=5000, entry_bytes_max=11_000, message_bytes=1024)
    c.connect_all()
    c.elect("A", "B")
    for length in range(900, 2100, 7):
        replies = []
        command = ["SET", 0, b"1", b"x" * length, None, False, None]
        c.nodes["A"].replica.propose([command], length, replies.append)
        c.tick("A")
        c.exchange()
        c.tick("A")
        assert len(replies) == 1, length
    c.settle("A", "B")
    values = [c.nodes[node].replica.machine.keyspaces[0].values[b"1"] for node in "AB"]
    assert values == [b"x" * length] * 2


def test_d15_no_pieces_of_entries_are_taken():
    for more in ({"transmission": "start", "data": b"x"}, {"serialized": None}):
        with pytest.raises(BadFrame):
            decode_body(append_entries(**more))


class Payload:
    """Unpickling it creates a file."""

    def __init__(self, path) -> None:
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_r12_a_stranger_runs_no_code(tmp_path):
    """Stock unpickles the first bytes of any connection. That no byte of a peer reaches pickle with
    us: tests/test_no_pickle.py."""
    mark = tmp_path / "mark"
    port = free_port()
    node = SyncObj(f"127.0.0.1:{port}", [], SyncObjConf(autoTick=False))
    node.doTick()
    bomb = zlib.compress(pickle.dumps(Payload(mark)))
    with socket.create_connection(("127.0.0.1", port)) as stranger:
        stranger.sendall(struct.pack("i", len(bomb)) + bomb)
        give_up_s = time.monotonic() + 5
        while not mark.exists() and time.monotonic() < give_up_s:
            node.doTick(0.01)
    node.destroy()
    assert mark.exists()
    mark.unlink()
    for frame in (pickle.dumps(Payload(mark)), bomb):
        with pytest.raises(BadFrame):
            decode_body(frame)
    assert not mark.exists()
