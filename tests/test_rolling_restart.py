"""A rolling restart of three real nodes under load: SIGTERM, wait, start again, one by one.

Clients see retryable errors and lost connections only, nothing acknowledged is lost, and nobody
waits for long. How long exactly is measured by `cluster/bench --operations`; here the bound is
generous.
"""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from goblin_raft.resp_client import RespClient, RespError
from tests.test_cluster import Cluster

pytestmark = pytest.mark.cluster

RETRYABLE = {"CLUSTERDOWN", "TRYAGAIN"}
WAIT_MAX_S = 3.0


class Client(threading.Thread):
    """Asks for one claim after the other, each until it is answered; a lost node is left for the
    next, as a client with a list of nodes does. The same claim again tells whether it was done."""

    def __init__(self, base: int, node: int) -> None:
        super().__init__()
        self.base, self.node, self.name_of = base, node, f"c{node}"
        self.claimed: list[str] = []
        self.errors: list[str] = []
        self.wrong: list[object] = []
        self.longest_s = 0.0
        self.done = threading.Event()

    def run(self) -> None:
        client, number = None, 0
        while not self.done.is_set():
            number += 1
            key = f"{self.name_of}:{number}"
            began_s, tries = time.monotonic(), 0
            while True:
                tries += 1
                try:
                    client = client or RespClient(
                        "127.0.0.1", self.base + self.node % 3, timeout_s=10
                    )
                    reply = client.call("GOBLIN.CLAIM", key, "r", self.name_of, "600")
                    break
                except RespError as error:
                    self.errors.append(str(error).split()[0])
                except OSError:
                    self.errors.append("connection")
                    if client is not None:
                        client.close()
                    client, self.node = None, self.node + 1
                    time.sleep(0.005)
            self.longest_s = max(self.longest_s, time.monotonic() - began_s)
            # After a lost connection the first try may have been done: then it is held, by us.
            if reply == b"CLAIMED" or (reply is None and tries > 1):
                self.claimed.append(key)
            else:
                self.wrong.append((key, reply))
        if client is not None:
            client.close()


def test_it_gives_no_client_an_error_but_retryable_ones(tmp_path):
    cluster = Cluster(tmp_path)
    clients = [Client(cluster.base, node) for node in range(3)]
    try:
        for client in clients:
            client.start()
        cluster.wait_for(lambda: all(len(client.claimed) > 50 for client in clients))
        for node in (1, 2, 3):
            pid = cluster.pid(node)
            os.kill(pid, signal.SIGTERM)
            process = cluster.restarted.get(node)
            gone = (lambda pid=pid: ended(pid)) if process is None else process.wait
            cluster.wait_for(lambda gone=gone: gone() in (True, 0))
            cluster.restart(node)
            counts = [len(client.claimed) for client in clients]
            cluster.wait_for(
                lambda counts=counts: all(
                    len(client.claimed) > count + 50
                    for client, count in zip(clients, counts, strict=True)
                )
            )
        for client in clients:
            client.done.set()
            client.join()
        for client in clients:
            assert client.wrong == []
            assert set(client.errors) <= RETRYABLE | {"connection"}
            assert client.longest_s < WAIT_MAX_S
            for node in (1, 2, 3):
                assert cluster.insist(node, "EXISTS", *client.claimed) == len(client.claimed)
    finally:
        for client in clients:
            client.done.set()
        cluster.stop()


def ended(pid: int) -> bool:
    """Of a process that somebody else waits for."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True
