"""The story of one payment webhook, told by Redis clients on three real nodes of this machine.

Each command is shown with the node that got it and the reply. The exit code is 0 only if every
reply was right. It knows the nodes by their ports and by `node.pid`, as an operator would.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import redis
from redis.backoff import NoBackoff
from redis.exceptions import ClusterDownError
from redis.retry import Retry

from goblin_raft import local_cluster, resp_client, status
from goblin_raft.config import Address

NODES = 3
READY_BOUND_S = 60.0
CATCH_UP_BOUND_S = 30.0
STOP_BOUND_S = local_cluster.STOP_BOUND_S + 5.0
# How long a command may be refused after the leader was killed, before the demo calls it wrong.
FAILOVER_BOUND_S = 10.0
LEASE_S = 2
# A lease ends at most this long after its time (README.md).
EXPIRY_SLACK_S = 0.1

CLAIMED = b"CLAIMED"


class Wrong(Exception):
    """Something was not as it has to be; the text says what."""


class Stage:
    """Three nodes, a client for each, and the count of replies that were right."""

    def __init__(self, directory: Path, ports: list[int]) -> None:
        self.directory = directory
        self.ports = ports
        self.right = 0
        self.by_hand: list[subprocess.Popen[bytes]] = []
        # A client that sends things again by itself would hide what this is to show.
        self.clients = [
            redis.Redis(port=port, retry=Retry(NoBackoff(), 0), socket_timeout=5) for port in ports
        ]
        for client in self.clients:
            # redis-py turns OK into True and the like; a reader wants to see what came.
            client.response_callbacks.clear()

    def ask(
        self, node: int, command: str, right: object | Callable[[object], bool], remark: str = ""
    ) -> None:
        """Send a command to node 1, 2 or 3, show it with its reply, and check that."""
        reply = self._reply(node, command)
        note = f"   # {remark}" if remark else ""
        print(f"  n{node}> {command}\n      {shown(reply)}{note}", flush=True)
        if not (right(reply) if callable(right) else reply == right):
            raise Wrong(f"n{node} answered {command!r} with {shown(reply)}")
        self.right += 1

    def _reply(self, node: int, command: str) -> object:
        """CLUSTERDOWN says that the command was not executed: show that, and send it again."""
        deadline_s = time.monotonic() + FAILOVER_BOUND_S
        while True:
            try:
                return self.clients[node - 1].execute_command(*command.split())
            except ClusterDownError as error:
                print(f"  n{node}> {command}\n      (error) CLUSTERDOWN {error}", flush=True)
                if time.monotonic() > deadline_s:
                    raise Wrong("there was no new leader in time") from error
            except redis.RedisError as error:
                raise Wrong(f"n{node} answered {command!r} with {error}") from error

    def info(self, node: int) -> dict[str, str]:
        """INFO raft of a node; empty while it does not answer."""
        with contextlib.suppress(OSError, resp_client.RespError):
            return status.ask_node(Address("127.0.0.1", self.ports[node - 1]))
        return {}

    def leader(self) -> int:
        infos = {node: self.info(node) for node in range(1, NODES + 1)}
        for node, info in infos.items():
            if info.get("raft_role") == "leader":
                return node
        raise Wrong("no node is the leader")

    def kill(self, node: int) -> None:
        pid = int((self.directory / f"n{node}" / "node.pid").read_text())
        print(f"  $ kill -9 {pid}   # n{node}", flush=True)
        os.kill(pid, signal.SIGKILL)

    def restart(self, node: int) -> None:
        """Start a node exactly as it was started, and wait until it has what the others have."""
        home = self.directory / f"n{node}"
        command = (home / "command").read_text()
        print(f"  $ $(cat n{node}/command) &", flush=True)
        with open(home / "node.log", "ab") as log:
            child = subprocess.Popen(
                shlex.split(command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=local_cluster.die_with_parent(signal.SIGKILL),
            )
        self.by_hand.append(child)
        goal = max(int(self.info(n).get("raft_commit_index", 0)) for n in (1, 2, 3) if n != node)
        begin_s = time.monotonic()
        while int(self.info(node).get("raft_applied_index", -1)) < goal:
            if child.poll() is not None:
                raise Wrong(f"n{node} does not start: see {home / 'node.log'}")
            if time.monotonic() - begin_s > CATCH_UP_BOUND_S:
                raise Wrong(f"n{node} does not catch up with entry {goal}")
            time.sleep(0.05)
        took_s = time.monotonic() - begin_s
        print(f"  n{node} has caught up with entry {goal}, {took_s:.1f} s after its start")

    def stop_by_hand(self) -> None:
        for child in self.by_hand:
            child.terminate()
            try:
                child.wait(STOP_BOUND_S)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


def shown(reply: object) -> str:
    """A reply as redis-cli shows it."""
    if reply is None:
        return "(nil)"
    if isinstance(reply, int):
        return f"(integer) {reply}"
    if reply == b"OK":
        return "OK"
    if isinstance(reply, bytes):
        return '"' + reply.decode("utf-8", "backslashreplace") + '"'
    return repr(reply)


def heading(text: str) -> None:
    print(f"\n{text}\n", flush=True)


def tell(stage: Stage) -> None:
    """The whole story; raises Wrong at the first reply that is not right."""
    tell_duplicates(stage)
    tell_crashed_worker(stage)
    tell_killed_leader(stage)


def tell_duplicates(stage: Stage) -> None:
    heading("1. The webhook evt88 is delivered three times, to three nodes.")
    claim = "GOBLIN.CLAIM claim:evt88 result:evt88"
    stage.ask(1, f"{claim} worker-3 30", CLAIMED, "worker-3 owns it and charges the card")
    stage.ask(2, f"{claim} worker-9 30", None, "a duplicate while worker-3 is at it: ask later")
    stage.ask(3, "GET claim:evt88", b"worker-3", "every node knows the owner")
    stage.ask(2, "SET result:evt88 charged:txn_551 EX 86400", b"OK", "worker-3 publishes")
    stage.ask(3, f"{claim} worker-9 30", b"charged:txn_551", "a late duplicate: same answer")


def tell_crashed_worker(stage: Stage) -> None:
    heading(f"2. A worker crashes. Its lease of {LEASE_S} s runs out and the work is done anew.")
    claim = "GOBLIN.CLAIM claim:evt89 result:evt89"
    begin_s = time.monotonic()
    stage.ask(3, f"{claim} worker-4 {LEASE_S}", CLAIMED, "worker-4 owns it, and crashes")
    stage.ask(1, f"{claim} worker-7 30", None, "the lease is not over")
    wait_until(begin_s + LEASE_S + EXPIRY_SLACK_S)
    stage.ask(2, f"{claim} worker-7 30", CLAIMED, "the lease is over: worker-7 owns it")
    stage.ask(3, "GET claim:evt89", b"worker-7")


def tell_killed_leader(stage: Stage) -> None:
    heading("3. The leader is killed in the middle of a lease.")
    leader = stage.leader()
    one, other = (node for node in (1, 2, 3) if node != leader)
    claim = "GOBLIN.CLAIM claim:evt90 result:evt90"
    begin_s = time.monotonic()
    stage.ask(one, f"{claim} worker-3 30", CLAIMED, "worker-3 owns it")
    stage.kill(leader)
    stage.ask(one, f"{claim} worker-9 30", None, "still held: nobody else gets it")
    stage.ask(other, f"{claim} worker-9 30", None, "here too")
    stage.ask(other, "GET claim:evt90", b"worker-3", "by the same owner")

    def goes_on(left_ms: object) -> bool:
        """The lease has not ended early and has not begun again from its full length."""
        passed_ms = (time.monotonic() - begin_s) * 1000
        slack_ms = EXPIRY_SLACK_S * 1000
        return isinstance(left_ms, int) and 0 < left_ms <= 30_000 - passed_ms + slack_ms + 50

    stage.ask(one, "PTTL claim:evt90", goes_on, "the lease goes on where it was")
    stage.ask(other, "SET result:evt90 charged:txn_552 EX 86400", b"OK", "worker-3 publishes")
    stage.ask(one, f"{claim} worker-9 30", b"charged:txn_552", "the duplicate gets the result")

    heading(f"4. n{leader} is started again.")
    stage.restart(leader)
    stage.ask(leader, f"{claim} worker-9 30", b"charged:txn_552", "it answers as the others do")
    stage.ask(leader, "GET claim:evt90", b"worker-3")


def wait_until(moment_s: float) -> None:
    left_s = moment_s - time.monotonic()
    print(f"  ... {left_s:.1f} s pass", flush=True)
    time.sleep(max(0.0, left_s))


def free_ports(wanted: int) -> int:
    """`wanted` if its ports are free, else the next hundred whose ports are."""
    for first in range(wanted, 60_000, 200):
        offsets = (0, local_cluster.RAFT_PORT_OFFSET)
        try:
            for port in (first + offset + i for offset in offsets for i in range(NODES)):
                local_cluster.check_port_is_free(Address(local_cluster.HOST, port))
        except local_cluster.CannotStart:
            continue
        return first
    raise Wrong("there are no free ports")


@contextlib.contextmanager
def three_nodes(directory: Path, first_port: int) -> Iterator[Stage]:
    """`goblin-raft cluster` in a process of its own, as a person would start it."""
    command = [sys.executable, "-m", "goblin_raft", "cluster", "--dir", str(directory)]
    command += ["--resp-port", str(first_port), "--nodes", str(NODES)]
    print(f"$ goblin-raft {shlex.join(command[3:])}", flush=True)
    supervisor = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        # Ctrl-C ends the story; the nodes are then stopped below, in order.
        start_new_session=True,
        preexec_fn=local_cluster.die_with_parent(signal.SIGTERM),
    )
    stage = Stage(directory, [first_port + i for i in range(NODES)])
    try:
        wait_for_ready(supervisor)
        yield stage
    finally:
        stage.stop_by_hand()
        supervisor.terminate()
        supervisor.wait(STOP_BOUND_S)


def wait_for_ready(supervisor: subprocess.Popen[bytes]) -> None:
    assert supervisor.stdout is not None
    previous = signal.signal(signal.SIGALRM, too_late)
    signal.alarm(int(READY_BOUND_S))
    line = supervisor.stdout.readline().decode()
    signal.alarm(0)
    signal.signal(signal.SIGALRM, previous)
    if not line.startswith("ready"):
        raise Wrong("the cluster did not start")
    print(line, end="", flush=True)


def too_late(*_: object) -> None:
    raise Wrong(f"the cluster has no leader after {READY_BOUND_S:.0f} s")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--resp-port", type=int, default=7001, help="of n1 (default: 7001)")
    arguments = parser.parse_args()
    begin_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="goblin-demo-") as name:
        directory = Path(name)
        try:
            with three_nodes(directory, free_ports(arguments.resp_port)) as stage:
                tell(stage)
                heading("The cluster at the end.")
                status.run(Address("127.0.0.1", stage.ports[0]), as_json=False)
        except Wrong as wrong:
            print(f"\nWRONG: {wrong}", flush=True)
            show_logs(directory)
            return 1
    took_s = time.monotonic() - begin_s
    print(f"\nAll {stage.right} replies were right ({took_s:.0f} s).")
    return 0


def show_logs(directory: Path) -> None:
    """The end of each node's log: the directory is about to go."""
    for path in sorted(directory.glob("n*/node.log")):
        print(f"\n{path.parent.name}:")
        for line in path.read_text(errors="replace").splitlines()[-15:]:
            print(f"  {line}")


if __name__ == "__main__":
    # SIGTERM unwinds like Ctrl-C does, so that nothing is left running.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    sys.exit(main())
