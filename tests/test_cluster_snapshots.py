"""Three real processes that take snapshots all the time: kill -9, far behind nodes, restarts."""

from __future__ import annotations

import contextlib
import random
import threading

import pytest

from goblin_raft.resp_client import RespClient, RespError
from tests.test_cluster import Cluster

pytestmark = pytest.mark.cluster

VALUE = "v" * 1000


@pytest.fixture
def cluster(tmp_path):
    """Snapshots every 50 kB of log."""
    it = Cluster(tmp_path, "--snapshot-log-bytes", "50000")
    yield it
    it.stop()


def write(cluster: Cluster, node: int, first: int, count: int) -> None:
    with RespClient("127.0.0.1", cluster.base + node - 1, timeout_s=10) as client:
        for number in range(first, first + count):
            assert client.call("SET", f"k{number}", f"{number}:{VALUE}") == b"OK"


def assert_there(cluster: Cluster, node: int, count: int) -> None:
    with RespClient("127.0.0.1", cluster.base + node - 1, timeout_s=10) as client:
        for number in range(count):
            value = client.call("GET", f"k{number}")
            assert value == f"{number}:{VALUE}".encode(), (node, number)


def number(cluster: Cluster, node: int, name: str) -> int:
    return int(cluster.info(node)[name])


def test_the_log_and_the_disk_stay_bounded(cluster):
    for turn in range(40):
        write(cluster, 1 + turn % 3, 0, 50)  # the same keys: 2 MB of log, 50 kB of state
    for node in (1, 2, 3):
        cluster.wait_for(lambda node=node: number(cluster, node, "raft_log_bytes") < 300_000)
        assert number(cluster, node, "raft_snapshot_index") > 1_000
        assert number(cluster, node, "raft_log_first_index") > 1_000
        # The database keeps the room of what it dropped; the write-ahead file has its limit.
        assert number(cluster, node, "raft_disk_bytes") < 8_000_000
        assert_there(cluster, node, 50)


def test_a_follower_far_behind_is_filled_up_while_traffic_goes_on(cluster):
    leader = cluster.leader()
    follower, third = (node for node in (1, 2, 3) if node != leader)
    write(cluster, leader, 0, 20)
    cluster.kill(follower)
    write(cluster, leader, 20, 300)
    cluster.wait_for(lambda: number(cluster, leader, "raft_log_first_index") > 100)
    term = cluster.info(leader)["raft_term"]
    stop, errors = threading.Event(), []

    def traffic() -> None:
        with RespClient("127.0.0.1", cluster.base + third - 1, timeout_s=10) as client:
            while not stop.is_set():
                try:
                    client.call("SET", "traffic", "x")
                except RespError as error:
                    errors.append(error)

    thread = threading.Thread(target=traffic)
    thread.start()
    try:
        cluster.restart(follower)
        cluster.wait_for(lambda: cluster.call(follower, "EXISTS", "k319") == 1)
        assert_there(cluster, follower, 320)
    finally:
        stop.set()
        thread.join()
    assert "snapshot.installed" in (cluster.directory / f"n{follower}" / "node.log").read_text()
    assert errors == []
    assert cluster.info(leader)["raft_term"] == term


def test_kill_minus_nine_of_any_node_at_any_moment_of_a_snapshot(cluster):
    dice = random.Random(1)
    count = 0
    for _ in range(12):
        victim = dice.choice((1, 2, 3))
        other = dice.choice([node for node in (1, 2, 3) if node != victim])
        timer = threading.Timer(dice.uniform(0.0, 0.15), cluster.kill, (victim,))
        with contextlib.suppress(RespError):
            cluster.call(victim, "GOBLIN.SNAPSHOT")
        timer.start()
        for _ in range(20):
            cluster.insist(other, "SET", f"k{count}", f"{count}:{VALUE}")
            count += 1
        timer.join()
        cluster.restart(victim)
    for node in (1, 2, 3):
        assert_there(cluster, node, count)


def test_all_killed_at_once_begin_from_their_snapshots(cluster):
    write(cluster, 1, 0, 200)
    for node in (1, 2, 3):
        cluster.wait_for(lambda node=node: number(cluster, node, "raft_log_first_index") > 50)
        cluster.kill(node)
    cluster.stop()
    cluster.start()
    for node in (1, 2, 3):
        assert_there(cluster, node, 200)
        assert number(cluster, node, "raft_snapshot_index") > 50
