"""What clients feel while an operator works: a rolling restart, a snapshot of a large state, and a
follower that is filled up by one. `cluster/bench --operations`; bounded, stops what it started.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from bench import call, index, leader_of, wait_for

from goblin_raft.resp_client import RespClient, RespError, parse_info

BASE = 27_301
PORTS = [BASE + number for number in range(3)]
# Errors that certainly executed nothing, after which a client may ask again.
RETRYABLE = ("CLUSTERDOWN", "TRYAGAIN")


class Traffic:
    """One client a node, each asking for claims one after the other. One that loses its node goes
    to the next, as a client with a list of nodes does."""

    def __init__(self) -> None:
        self.latencies: list[tuple[float, float]] = []  # (when it was answered, seconds)
        self.errors: list[str] = []
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(n,)) for n in range(3)]

    def __enter__(self) -> Traffic:
        for thread in self._threads:
            thread.start()
        wait_for(lambda: len(self.latencies) > 100)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def worst_ms(self, since_s: float) -> float:
        """The longest that a client waited for a claim, its retries included."""
        return max(took for at, took in self.latencies if at >= since_s) * 1000

    def _run(self, node: int) -> None:
        client: RespClient | None = None
        number = 0
        while not self._stop.is_set():
            number += 1
            began_s = time.monotonic()
            while not self._stop.is_set():
                try:
                    if client is None:
                        client = RespClient("127.0.0.1", PORTS[node % 3], timeout_s=5)
                    client.call("GOBLIN.CLAIM", f"t{node}:{number}", f"r{node}:{number}", "w", "30")
                    break
                except RespError as error:
                    self.errors.append(str(error).split()[0])
                except OSError:
                    self.errors.append("connection")
                    if client is not None:
                        client.close()
                    client, node = None, node + 1
            now_s = time.monotonic()
            self.latencies.append((now_s, now_s - began_s))
        if client is not None:
            client.close()


class Nodes:
    """`goblin-raft cluster`, whose nodes are ended and started again one by one."""

    def __init__(self, directory: Path, *flags: str) -> None:
        self.directory = directory
        words = ["cluster", "--dir", str(directory), "--resp-port", str(BASE), *flags]
        self.cluster = subprocess.Popen(
            [sys.executable, "-m", "goblin_raft", *words],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        assert self.cluster.stdout is not None
        line = ""
        while not line.startswith("ready"):
            line = self.cluster.stdout.readline()
            if not line:
                raise SystemExit("bench: the cluster did not start")
        threading.Thread(target=self.cluster.stdout.read, daemon=True).start()
        self.again: list[subprocess.Popen[bytes]] = []

    def end(self, node: int, number: int) -> None:
        pid = int((self.directory / f"n{node}" / "node.pid").read_text())
        os.kill(pid, number)
        mine = [process for process in self.again if process.pid == pid]
        if mine:
            mine[0].wait(20)
        else:
            wait_for(lambda: not Path(f"/proc/{pid}").exists(), 20)

    def start(self, node: int) -> None:
        words = shlex.split((self.directory / f"n{node}" / "command").read_text())
        with open(self.directory / f"n{node}" / "node.log", "a") as log:
            self.again.append(subprocess.Popen(words, stdout=log, stderr=log))
        others = [port for port in PORTS if port != PORTS[node - 1]]
        wait_for(lambda: index(PORTS[node - 1], "applied") >= index(others[0], "commit") - 50, 60)

    def stop(self) -> None:
        for process in self.again:
            process.kill()
            process.wait()
        self.cluster.terminate()
        self.cluster.wait(20)


def info(node: int) -> dict[str, str]:
    return parse_info(call(PORTS[node - 1], "INFO"))


def rolling_restart(nodes: Nodes, rounds: int) -> None:
    worst = []
    errors: list[str] = []
    for _ in range(rounds):
        with Traffic() as traffic:
            since_s = time.monotonic()
            for node in (1, 2, 3):
                nodes.end(node, signal.SIGTERM)
                nodes.start(node)
        worst.append(traffic.worst_ms(since_s))
        errors += traffic.errors
    kinds = {kind: errors.count(kind) for kind in sorted(set(errors))}
    final = [kind for kind in kinds if kind not in (*RETRYABLE, "connection")]
    print(
        f"Rolling restart of three nodes under load, {rounds} times: longest wait of a client "
        f"median {sorted(worst)[len(worst) // 2]:.0f} ms, worst {max(worst):.0f} ms; answers and "
        f"losses that a client has to retry: {kinds}; others: {final or 'none'}.",
        flush=True,
    )


def snapshot(nodes: Nodes, keys: int) -> None:
    leader = leader_of(PORTS)
    command = ["redis-benchmark", "-p", str(PORTS[leader - 1]), "-q", "-P", "200", "-c", "20"]
    command += ["-n", str(keys), "-r", "1000000000", "SET", "key:__rand_int__", "v" * 32]
    subprocess.run(command, stdout=subprocess.DEVNULL, timeout=600, check=True)
    wait_for(lambda: info(leader)["rdb_bgsave_in_progress"] == "0", 120)
    term = info(leader)["raft_term"]
    with Traffic() as traffic:
        time.sleep(2)
        began_s = time.monotonic()
        before_ms = traffic.worst_ms(0)
        call(PORTS[leader - 1], "GOBLIN.SNAPSHOT")
        wait_for(lambda: info(leader)["rdb_bgsave_in_progress"] == "0", 120)
        took_s = time.monotonic() - began_s
        time.sleep(2)  # the log before it goes meanwhile
    found = info(leader)
    print(
        f"Snapshot of {call(PORTS[leader - 1], 'DBSIZE')} keys ({found['raft_snapshot_bytes']} "
        f"bytes) under load: {took_s:.1f} s, longest wait of a client "
        f"{traffic.worst_ms(began_s):.0f} ms ({before_ms:.0f} ms before it); errors: "
        f"{traffic.errors or 'none'}; elections: {int(found['raft_term']) - int(term)}.",
        flush=True,
    )


def filling_up(nodes: Nodes, keys: int) -> None:
    leader = leader_of(PORTS)
    follower = leader % 3 + 1
    term = info(leader)["raft_term"]
    nodes.end(follower, signal.SIGKILL)
    command = ["redis-benchmark", "-p", str(PORTS[leader - 1]), "-q", "-P", "200", "-c", "20"]
    command += ["-n", str(keys), "-r", "1000000000", "SET", "key:__rand_int__", "v" * 32]
    subprocess.run(command, stdout=subprocess.DEVNULL, timeout=600, check=True)
    with contextlib.suppress(RespError):  # it may be taking one already
        call(PORTS[leader - 1], "GOBLIN.SNAPSHOT")
    wait_for(lambda: info(leader)["rdb_bgsave_in_progress"] == "0", 120)
    time.sleep(2)
    with Traffic() as traffic:
        began_s = time.monotonic()
        nodes.start(follower)
        took_s = time.monotonic() - began_s
    log = (nodes.directory / f"n{follower}" / "node.log").read_text()
    how = "by a snapshot" if "snapshot.installed" in log else "by the log alone"
    print(
        f"A follower filled up {how} under load: {took_s:.1f} s, longest wait of a client "
        f"{traffic.worst_ms(began_s):.0f} ms; elections: "
        f"{int(info(leader)['raft_term']) - int(term)}.",
        flush=True,
    )


def run(*, quick: bool) -> None:
    """All of it."""
    keys = 100_000 if quick else 1_000_000
    with tempfile.TemporaryDirectory(prefix="goblin-bench-") as name:
        nodes = Nodes(Path(name), "--snapshot-log-bytes", "16000000")
        try:
            rolling_restart(nodes, 1 if quick else 5)
            snapshot(nodes, keys)
            filling_up(nodes, keys // 2)
        finally:
            nodes.stop()
