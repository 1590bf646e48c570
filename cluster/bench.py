"""Claims a second here and on one redis-server in the same run, and the gap after a leader dies.

Both are asked by redis-benchmark; the redis-server keeps an append-only file with `appendfsync
always` and gets the claim as the two-line EVAL. All processes share this machine. Bounded in count
and time, and stops everything that it started.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
from goblin_raft.resp_client import RespClient, RespError, parse_info

SCRIPT = (
    "if redis.call('set', KEYS[1], ARGV[1], 'NX', 'EX', ARGV[2]) then return 'CLAIMED' end "
    "return redis.call('get', KEYS[2])"
)
CLAIM = ["GOBLIN.CLAIM", "c:__rand_int__", "r:__rand_int__", "t", "30"]
EVAL = ["EVAL", SCRIPT, "2", "c:__rand_int__", "r:__rand_int__", "t", "30"]
# name: (connections, pipeline, requests)
LOADS = {
    "1 connection": (1, 1, 3_000),
    "50 connections": (50, 1, 60_000),
    "200 connections": (200, 1, 80_000),
    "50 x pipeline 16": (50, 16, 300_000),
}
CLAIM_BASE, REDIS_PORT = 27_001, 27_900
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_s(pids: list[int]) -> float:
    total = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / TICKS


def load(port: int, words: list[str], clients: int, pipeline: int, requests: int, pids: list[int]):
    """(claims/s, p50 ms, p99 ms, CPU us per claim of all server processes)."""
    before = cpu_s(pids)
    command = ["redis-benchmark", "-p", str(port), "-c", str(clients), "-P", str(pipeline)]
    command += ["-n", str(requests), "-r", "100000000", "--csv", *words]
    out = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    row = next(line for line in reversed(out.splitlines()) if line.count('","') >= 7)
    rate, _, _, p50, _, p99, _ = [float(x) for x in re.findall(r'"([0-9.]+)"', row)[-7:]]
    return rate, p50, p99, (cpu_s(pids) - before) / requests * 1e6


def wait_for(condition, within_s: float = 15.0):
    give_up_s = time.monotonic() + within_s
    while time.monotonic() < give_up_s:
        with contextlib.suppress(OSError, RespError):
            found = condition()
            if found:
                return found
        time.sleep(0.01)
    raise SystemExit("bench: gave up waiting")


def call(port: int, *words):
    with RespClient("127.0.0.1", port, timeout_s=5) as client:
        return client.call(*words)


def leader_of(ports: list[int]) -> int:
    def find():
        for number, port in enumerate(ports):
            with contextlib.suppress(OSError):
                if parse_info(call(port, "INFO", "raft"))["raft_role"] == "leader":
                    return number + 1
        return None

    return wait_for(find)


def end(processes: list) -> None:
    for process in processes:
        process.kill()
        process.wait()


def index(port: int, kind: str) -> int:
    return int(parse_info(call(port, "INFO", "raft"))[f"raft_{kind}_index"])


def gap_s(ports: list[int], directory: Path, restarted: list) -> float:
    """How long writes through a survivor stood still after kill -9 of the leader."""
    leader = leader_of(ports)
    node = directory / f"n{leader}"
    survivor = ports[leader % 3]
    pid = int((node / "node.pid").read_text())
    with RespClient("127.0.0.1", survivor, timeout_s=6) as client:
        client.call("SET", "gap", "0")
        os.kill(pid, signal.SIGKILL)
        began_s = last_s = time.monotonic()
        worst_s = 0.0
        while time.monotonic() - began_s < 2.0:
            try:
                client.call("SET", "gap", "1")
            except RespError:
                continue
            now_s = time.monotonic()
            worst_s, last_s = max(worst_s, now_s - last_s), now_s
    with open(node / "node.log", "a") as log:
        words = (node / "command").read_text().strip()
        restarted.append(
            subprocess.Popen(["/bin/sh", "-c", f"exec {words}"], stdout=log, stderr=log)
        )
    wait_for(lambda: index(ports[leader - 1], "applied") >= index(survivor, "commit"), 60)
    return worst_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of it, three kills")
    parser.add_argument(
        "--operations", action="store_true", help="instead: rolling restart, snapshots"
    )
    options = parser.parse_args()
    quick = options.quick
    if options.operations:
        import bench_operations

        bench_operations.run(quick=quick)
        return
    with (
        tempfile.TemporaryDirectory(prefix="goblin-bench-") as name,
        contextlib.ExitStack() as stack,
    ):
        directory = Path(name)
        redis_options = f"--port {REDIS_PORT} --appendonly yes --appendfsync always"
        redis = subprocess.Popen(
            ["redis-server", *redis_options.split(), "--bind", "127.0.0.1", "--dir", name],
            stdout=subprocess.DEVNULL,
        )
        stack.callback(redis.wait)
        stack.callback(redis.kill)
        words = ["cluster", "--dir", str(directory / "c"), "--resp-port", str(CLAIM_BASE)]
        cluster = subprocess.Popen(
            [sys.executable, "-m", "goblin_raft", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        stack.callback(cluster.wait)
        stack.callback(cluster.terminate)
        if not cluster.stdout.readline().startswith("ready"):
            raise SystemExit("bench: the cluster did not start")
        wait_for(lambda: call(REDIS_PORT, "PING"))
        ports = [CLAIM_BASE + number for number in range(3)]
        pids = [int((directory / "c" / f"n{n}" / "node.pid").read_text()) for n in (1, 2, 3)]
        at = ports[leader_of(ports) - 1]
        print("| load | claims/s | redis-server | ratio | p50 ms | redis p50 | p99 ms | redis p99 "
              "| CPU us/claim | redis CPU |")  # fmt: skip
        print("|---|---|---|---|---|---|---|---|---|---|")
        for title, (clients, pipeline, requests) in LOADS.items():
            requests = requests // 10 if quick else requests
            theirs = load(REDIS_PORT, EVAL, clients, pipeline, requests, [redis.pid])
            ours = load(at, CLAIM, clients, pipeline, requests, pids)
            print(
                f"| {title} | {ours[0]:.0f} | {theirs[0]:.0f} | {ours[0] / theirs[0]:.2f} "
                f"| {ours[1]:.2f} | {theirs[1]:.2f} | {ours[2]:.2f} | {theirs[2]:.2f} "
                f"| {ours[3]:.0f} | {theirs[3]:.0f} |",
                flush=True,
            )
        restarted: list[subprocess.Popen] = []
        stack.callback(end, restarted)
        gaps = [gap_s(ports, directory / "c", restarted) for _ in range(3 if quick else 10)]
        print(
            f"\nWrite gap after kill -9 of the leader, {len(gaps)} times, seen through a survivor: "
            f"median {statistics.median(gaps):.3f} s, worst {max(gaps):.3f} s."
        )


if __name__ == "__main__":
    main()
