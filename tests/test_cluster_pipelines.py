"""Pipelines on three real nodes: what is forwarded, read, answered by the node itself, in order."""

from __future__ import annotations

import random
import socket
import threading

import hiredis
import pytest

from goblin_raft.resp import encode_all
from tests.conftest import MemoryNode
from tests.test_cluster import Cluster

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    it = Cluster(tmp_path_factory.mktemp("cluster"))
    yield it
    it.stop()


def pack(*words):
    return hiredis.pack_command(words)


def receive(client: socket.socket, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count and (data := client.recv(count - len(parts))):
        parts += data
    return bytes(parts)


def request(rng: random.Random) -> list[bytes]:
    key, value = b"k%d" % rng.randrange(6), b"v%d" % rng.randrange(1000)
    return rng.choice(
        [
            [b"SET", key, value],
            [b"SET", key, value, b"NX", b"GET"],
            [b"GET", key],
            [b"EXISTS", key, b"k1"],
            [b"DEL", key],
            [b"HSET", b"h" + key, value, value],
            [b"HGET", b"h" + key, value],
            [b"GOBLIN.CLAIM", b"c" + key, key, value, b"600"],
            [b"GOBLIN.CAS", key, value, b"v1"],
            [b"PING"],
            [b"ECHO", value],
            [b"SELECT", b"%d" % rng.randrange(2)],
            [b"CLIENT", b"SETNAME", value],
            [b"CLIENT", b"GETNAME"],
            [b"GET"],
            [b"NOSUCH", value],
            [b"HGET", key, b"f"],
        ]
    )


@pytest.mark.parametrize("node", [1, 2, 3])
def test_a_pipeline_through_any_node_is_answered_as_by_one_in_memory(cluster, node):
    rng = random.Random(node)
    requests = [[b"SELECT", b"0"], *[request(rng) for _ in range(1500)]]
    model = MemoryNode()
    expected = encode_all([model.call(*words) for words in requests], 2)
    cluster.insist(node, "FLUSHALL")
    wire = b"".join(pack(*words) for words in requests)
    with socket.create_connection(("127.0.0.1", cluster.base + node - 1), 20) as client:
        for start in range(0, len(wire), 3001):  # cut anywhere
            client.sendall(wire[start : start + 3001])
        assert receive(client, len(expected)) == expected


def test_long_pipelines_through_all_nodes_at_once_are_answered_whole(cluster):
    """Each client sends all it has before it reads a byte; more than the sockets hold."""
    count, value = 20_000, b"x" * 150
    cluster.insist(1, "SET", "k", value)
    wire = (pack(b"SET", b"k", value) + pack(b"GET", b"k")) * count
    expected = (b"+OK\r\n$150\r\n" + value + b"\r\n") * count
    wrong = []

    def run(node: int) -> None:
        with socket.create_connection(("127.0.0.1", cluster.base + node - 1), 60) as client:
            client.sendall(wire)
            if receive(client, len(expected)) != expected:
                wrong.append(node)

    threads = [threading.Thread(target=run, args=(node,)) for node in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    assert wrong == []
    assert not any(thread.is_alive() for thread in threads)
