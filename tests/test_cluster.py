"""Three real processes: kill -9, restarts, pauses, seen through real sockets."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from goblin_raft.resp_client import RespClient, RespError, parse_info

pytestmark = pytest.mark.cluster


def free_base_port() -> int:
    """Three RESP ports in a row and their raft ports, all free."""
    for base in range(21_000, 29_000, 211):
        ports = [base + offset + node for offset in (0, 100) for node in range(3)]
        taken = False
        for port in ports:
            with socket.socket() as probe:
                taken = taken or probe.connect_ex(("127.0.0.1", port)) == 0
        if not taken:
            return base
    raise RuntimeError("no free ports")


class Cluster:
    """`goblin-raft cluster`, and the means to hurt it."""

    def __init__(self, directory, *flags: str) -> None:
        self.directory = directory
        self.flags = flags
        self.base = free_base_port()
        self.restarted: dict[int, subprocess.Popen] = {}
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "goblin_raft",
                "cluster",
                "--dir",
                str(self.directory),
                "--resp-port",
                str(self.base),
                *self.flags,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        line = self.process.stdout.readline()
        assert line.startswith("ready"), line

    def stop(self) -> None:
        """End all of it; nothing is left running."""
        for process in self.restarted.values():
            if process.poll() is None:
                process.kill()
                process.wait()
        self.process.terminate()
        self.process.wait(15)
        self.process.stdout.close()

    def pid(self, node: int) -> int:
        return int((self.directory / f"n{node}" / "node.pid").read_text())

    def kill(self, node: int, number: int = signal.SIGKILL) -> None:
        os.kill(self.pid(node), number)

    def restart(self, node: int) -> None:
        """Exactly as it was started, by the command that lies in its directory."""
        command = shlex.split((self.directory / f"n{node}" / "command").read_text())
        previous = self.restarted.get(node)
        if previous is not None:
            previous.wait(10)
        with open(self.directory / f"n{node}" / "node.log", "a") as log:
            self.restarted[node] = subprocess.Popen(command, stderr=log, stdout=log)
        self.wait_for(lambda: self.info(node)["raft_leader"] != "")

    def call(self, node: int, *words):
        """One command on a connection of its own."""
        with RespClient("127.0.0.1", self.base + node - 1, timeout_s=5) as client:
            return client.call(*words)

    def info(self, node: int) -> dict[str, str]:
        return parse_info(self.call(node, "INFO", "raft"))

    def leader(self) -> int:
        def find():
            for node in (1, 2, 3):
                try:
                    info = self.info(node)
                except OSError:
                    continue
                if info["raft_role"] == "leader":
                    return node
            return None

        return self.wait_for(find)

    def wait_for(self, condition, within_s: float = 15):
        give_up_s = time.monotonic() + within_s
        while time.monotonic() < give_up_s:
            try:
                found = condition()
            except (OSError, RespError):
                found = None
            if found:
                return found
            time.sleep(0.01)
        raise AssertionError("the condition did not come true in time")

    def insist(self, node: int, *words):
        """Ask again as long as the answer is that it was certainly not executed."""

        def ask():
            return [self.call(node, *words)]

        return self.wait_for(ask)[0]


@pytest.fixture
def cluster(tmp_path):
    it = Cluster(tmp_path)
    yield it
    it.stop()


def test_the_story_on_three_nodes(cluster):
    assert cluster.call(1, "GOBLIN.CLAIM", "c", "r", "worker-3", "30") == b"CLAIMED"
    assert cluster.call(2, "GOBLIN.CLAIM", "c", "r", "worker-9", "30") is None
    assert cluster.call(2, "SET", "r", "done", "EX", "100") == b"OK"
    assert cluster.call(3, "GOBLIN.CLAIM", "c", "r", "worker-9", "30") == b"done"
    assert [cluster.call(node, "GET", "c") for node in (1, 2, 3)] == [b"worker-3"] * 3


def test_a_time_to_live_counts_down_while_nothing_is_written(cluster):
    assert cluster.call(1, "SET", "k", "v", "PX", 60_000) == b"OK"
    index = cluster.info(1)["raft_last_log_index"]
    for node in (1, 2, 3):
        first = cluster.call(node, "PTTL", "k")
        cluster.wait_for(lambda: cluster.call(node, "PTTL", "k") <= first - 200)  # noqa: B023
    assert cluster.info(1)["raft_last_log_index"] == index


def test_times_of_day_a_millisecond_apart_keep_their_order(cluster):
    with RespClient("127.0.0.1", cluster.base, timeout_s=5) as client:
        assert client.call("SET", "k", "v", "PXAT", 9_999_999_000_000) == b"OK"
        for told in range(9_999_999_000_001, 9_999_999_000_300):
            assert client.call("PEXPIREAT", "k", told, "GT") == 1
            assert client.call("PEXPIRETIME", "k") == told


def test_a_claim_survives_the_leader_that_gave_it_thirty_times(cluster):
    for turn in range(30):
        leader = cluster.leader()
        key = f"claim:{turn}"
        assert cluster.insist(leader, "GOBLIN.CLAIM", key, "r", f"worker-{turn}", "600") == (
            b"CLAIMED"
        )
        cluster.kill(leader)
        for node in {1, 2, 3} - {leader}:
            assert cluster.insist(node, "GOBLIN.CLAIM", key, "r", "rival", "600") is None
            assert cluster.insist(node, "GET", key) == f"worker-{turn}".encode()
        cluster.restart(leader)
        assert cluster.insist(leader, "GET", key) == f"worker-{turn}".encode()
    for node in (1, 2, 3):
        for turn in range(30):
            assert cluster.insist(node, "GET", f"claim:{turn}") == f"worker-{turn}".encode()


def test_nothing_acknowledged_is_missing_after_all_were_killed_under_load(cluster):
    acknowledged: list[str] = []
    stop = threading.Event()

    def load(node: int) -> None:
        number = 0
        try:
            with RespClient("127.0.0.1", cluster.base + node - 1, timeout_s=5) as client:
                while not stop.is_set():
                    number += 1
                    key = f"load:{node}:{number}"
                    if client.call("GOBLIN.CLAIM", key, "r", "t", "600") == b"CLAIMED":
                        acknowledged.append(key)
        except (OSError, RespError):
            return

    threads = [threading.Thread(target=load, args=(node,)) for node in (1, 2, 3)]
    for thread in threads:
        thread.start()
    cluster.wait_for(lambda: len(acknowledged) > 300)
    for node in (1, 2, 3):
        cluster.kill(node)
    stop.set()
    for thread in threads:
        thread.join()
    cluster.stop()
    cluster.start()
    for node in (1, 2, 3):
        assert cluster.insist(node, "EXISTS", *acknowledged) == len(acknowledged)


def test_a_lease_across_changes_of_leader_ends_once_and_not_early(cluster):
    began_s = time.monotonic()
    assert cluster.insist(cluster.leader(), "GOBLIN.CLAIM", "k", "r", "first", "6") == b"CLAIMED"
    for _ in range(3):
        leader = cluster.leader()
        cluster.kill(leader)
        survivor = min({1, 2, 3} - {leader})
        assert cluster.insist(survivor, "GOBLIN.CLAIM", "k", "r", "rival", "6") is None
        cluster.restart(leader)
    while cluster.insist(1, "GOBLIN.CLAIM", "k", "r", "second", "60") is None:
        time.sleep(0.005)
    ended_s = time.monotonic() - began_s
    assert ended_s >= 5.999
    assert ended_s < 6.0 + 1.0
    assert [cluster.insist(node, "GET", "k") for node in (1, 2, 3)] == [b"second"] * 3


def test_without_a_majority_the_node_answers_within_its_bound(cluster):
    leader = cluster.leader()
    alone, *others = [*sorted({1, 2, 3} - {leader}), leader]
    with RespClient("127.0.0.1", cluster.base + alone - 1, timeout_s=6) as client:
        assert client.call("SET", "k", "v") == b"OK"
        for node in others:
            cluster.kill(node, signal.SIGSTOP)
        try:
            for _ in range(3):
                began_s = time.monotonic()
                assert client.call("PING") == b"PONG"
                assert b"raft_state:up" in client.call("INFO", "raft")
                assert time.monotonic() - began_s < 0.5
                began_s = time.monotonic()
                with pytest.raises(RespError, match=r"CLUSTERDOWN|UNCERTAIN"):
                    client.call("SET", "k2", "v")
                with pytest.raises(RespError, match="CLUSTERDOWN"):
                    client.call("GET", "k")
                assert time.monotonic() - began_s < 5
        finally:
            for node in others:
                cluster.kill(node, signal.SIGCONT)

        def works():
            return client.call("SET", "k3", "v") == b"OK"

        cluster.wait_for(works)
        assert client.call("GET", "k") == b"v"


def test_sigterm_under_load_gives_nobody_a_wrong_answer(cluster):
    wrong: list[object] = []
    done: list[str] = []
    stop = threading.Event()

    def load(node: int) -> None:
        number = 0
        with RespClient("127.0.0.1", cluster.base + node - 1, timeout_s=5) as client:
            while not stop.is_set():
                number += 1
                key = f"term:{node}:{number}"
                try:
                    reply = client.call("GOBLIN.CLAIM", key, "r", "t", "600")
                except RespError as error:
                    if not str(error).startswith("CLUSTERDOWN"):
                        wrong.append(error)
                    continue
                except OSError as error:
                    wrong.append(error)
                    return
                if reply == b"CLAIMED":
                    done.append(key)
                else:
                    wrong.append(reply)

    leader = cluster.leader()
    survivors = sorted({1, 2, 3} - {leader})
    threads = [threading.Thread(target=load, args=(node,)) for node in survivors]
    for thread in threads:
        thread.start()
    cluster.wait_for(lambda: len(done) > 100)
    cluster.kill(leader, signal.SIGTERM)
    count = len(done)
    cluster.wait_for(lambda: len(done) > count + 200)
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong
    assert cluster.insist(survivors[0], "EXISTS", *done) == len(done)


def test_garbage_on_either_port_closes_that_connection_only(cluster):
    for port in (cluster.base, cluster.base + 100):
        with socket.create_connection(("127.0.0.1", port), 2) as stranger:
            stranger.settimeout(8)
            stranger.sendall(b"*abc\r\n" + b"\x00" * 5000 + b"\r\n")
            while stranger.recv(4096):
                pass
    assert cluster.call(1, "SET", "k", "v") == b"OK"


def test_a_count_by_compare_and_set_is_exact_while_leaders_change(cluster):
    """Forwarding a command that must not be repeated: 1,000 through each node, while the leader is
    killed and started again every two seconds."""
    assert cluster.insist(1, "SET", "n", "0") == b"OK"
    stop = threading.Event()
    kills = 0

    def change_leaders() -> None:
        nonlocal kills
        while not stop.wait(2.0):
            leader = cluster.leader()
            cluster.kill(leader)
            kills += 1
            cluster.restart(leader)

    changer = threading.Thread(target=change_leaders)
    changer.start()
    ok = uncertain = 0
    clients: dict[int, RespClient] = {}
    done = dict.fromkeys((1, 2, 3), 0)
    node = 1
    while min(done.values()) < 1000:
        node = node % 3 + 1
        try:
            if node not in clients:
                clients[node] = RespClient("127.0.0.1", cluster.base + node - 1, timeout_s=5)
            value = int(clients[node].call("GET", "n"))
        except (OSError, RespError):
            clients.pop(node, None)
            continue
        done[node] += 1
        try:
            ok += clients[node].call("GOBLIN.CAS", "n", value, value + 1) == b"OK"
        except RespError as error:
            uncertain += str(error).startswith("UNCERTAIN")
        except OSError:
            uncertain += 1  # the node itself died under the request
            clients.pop(node, None)
    stop.set()
    changer.join()
    for client in clients.values():
        client.close()
    final = int(cluster.insist(1, "GET", "n"))
    assert ok <= final <= ok + uncertain
    assert ok > 2_500
    assert kills >= 2
