"""`goblin-raft cluster`: several nodes on this machine as child processes, for trying and testing.

It only starts, watches and stops processes, and learns what they do from their RESP port, like any
client. It restarts nothing by itself: a node that died stays dead until somebody restarts it.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import fcntl
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goblin_raft.config import (
    VARIABLE_PREFIX,
    Address,
    BadSetting,
    Config,
    flag_of,
    variable_of,
)
from goblin_raft.resp_client import RespClient, RespError, parse_info
from goblin_raft.status import NodeRow, leader_of, row_of
from goblin_raft.users import Users

HOST = "127.0.0.1"
# Raft port = RESP port + this; so a cluster can have fewer nodes than this.
RAFT_PORT_OFFSET = 100
# More nodes on one machine make every write slower and prove nothing more.
NODES_MAX = 9
# A node hands over its leadership and answers what is in flight first; then it is killed.
STOP_BOUND_S = 10.0
# Nodes of a supervisor that was killed a moment ago take a moment to go.
LEFTOVER_BOUND_S = 3.0
POLL_S = 0.1
ASK_TIMEOUT_S = 0.5
# A leader is there, but not every node: go on after this.
STRAGGLER_BOUND_S = 10.0
PROGRESS_S = 5.0
PR_SET_PDEATHSIG = 1
SECRET = ("users",)


class CannotStart(Exception):
    """The cluster must not start; the text is one sentence. Nothing was started."""


@dataclass(frozen=True, slots=True)
class NodePlan:
    """One node to run: its settings and its files, all in one directory."""

    config: Config

    @property
    def directory(self) -> Path:
        return Path(self.config.dir)

    @property
    def pid_file(self) -> Path:
        return self.directory / "node.pid"

    @property
    def log_file(self) -> Path:
        return self.directory / "node.log"

    @property
    def command_file(self) -> Path:
        return self.directory / "command"

    def secrets(self) -> dict[str, str]:
        """What neither other users of the machine nor the file of the command may show."""
        return {variable_of(name): getattr(self.config, name) for name in SECRET}

    def command(self) -> list[str]:
        """The command line: who the node is, and each setting that is not the default or secret."""
        words = [sys.executable, "-m", "goblin_raft", "serve"]
        for item in dataclasses.fields(Config):
            if item.name in SECRET:
                continue
            value = getattr(self.config, item.name)
            if value != item.default or item.name in ("node_id", "resp", "raft"):
                words += [flag_of(item.name), str(value)]
        return words


def plan(directory: Path, resp_port: int, nodes: int, base: Config) -> list[NodePlan]:
    """The nodes n1, n2, ... of a cluster; `base` gives the settings which they share."""
    if not 1 <= nodes <= NODES_MAX:
        raise BadSetting(f"--nodes is {nodes}, and it must lie between 1 and {NODES_MAX}.")
    highest = 65_535 - RAFT_PORT_OFFSET - nodes + 1
    if not 1 <= resp_port <= highest:
        raise BadSetting(f"--resp-port is {resp_port}, and it must lie between 1 and {highest}.")
    users = Users(base.users)
    if users.required and users.login is None:
        raise BadSetting("users needs one plain password here, by which the nodes are watched.")
    ids = [f"n{i + 1}" for i in range(nodes)]
    resp = [f"{HOST}:{resp_port + i}" for i in range(nodes)]
    raft = [f"{HOST}:{resp_port + RAFT_PORT_OFFSET + i}" for i in range(nodes)]
    plans = []
    for i, node_id in enumerate(ids):
        peers = ",".join(f"{ids[j]}={raft[j]}" for j in range(nodes) if j != i)
        config = dataclasses.replace(
            base,
            node_id=node_id,
            resp=resp[i],
            raft=raft[i],
            peers=peers,
            dir=str(directory / node_id),
        )
        plans.append(NodePlan(config))
    return plans


@contextlib.contextmanager
def directory_lock(directory: Path) -> Iterator[None]:
    """Hold DIR for one supervisor. The lock goes with the process, so it is never left behind."""
    directory.mkdir(parents=True, exist_ok=True)
    with open(directory / "cluster.lock", "a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CannotStart(f"{directory} is in use by another goblin-raft cluster.") from None
        yield


def check_free(directory: Path, plans: list[NodePlan]) -> None:
    """Refuse a DIR of another size, with a node still running, or ports that are taken."""
    size_file = directory / "size"
    size = size_file.read_text().strip() if size_file.exists() else str(len(plans))
    if size != str(len(plans)):
        # A majority of fewer nodes could go on without what the others hold.
        raise CannotStart(
            f"{directory} holds a cluster of {size} nodes, and that is fixed: give --nodes {size} "
            f"or another --dir."
        )
    deadline_s = time.monotonic() + LEFTOVER_BOUND_S
    for one in plans:
        while (pid := running_pid(one)) is not None:
            if time.monotonic() > deadline_s:
                raise CannotStart(f"{one.directory} is in use: its node runs as process {pid}.")
            time.sleep(POLL_S)
    for address in (a for one in plans for a in (one.config.resp_address, one.config.raft_address)):
        check_port_is_free(address)


def check_port_is_free(address: Address) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As the node will: a port whose last connections are still in TIME_WAIT is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
        except OSError as error:
            raise CannotStart(f"{address} cannot be used: {error.strerror}.") from None


def running_pid(one: NodePlan) -> int | None:
    """The process in node.pid if it lives and is a node; pids are used again, so look at both."""
    try:
        pid = int(one.pid_file.read_text())
        os.kill(pid, 0)
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError):
        return None
    return pid if b"serve" in words and os.fsencode(one.directory) in words else None


def die_with_parent(signal_number: int) -> Callable[[], None] | None:
    """What a child runs before its program starts, so that it does not outlive us, even by kill -9.

    Only Linux can do that; elsewhere the children of a killed supervisor are stopped by hand.
    """
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None)
    parent = os.getpid()

    def in_child() -> None:
        libc.prctl(PR_SET_PDEATHSIG, signal_number)
        # The parent may have died before the line above; then nobody would tell us.
        if os.getppid() != parent:
            os._exit(1)

    return in_child


def write_whole(path: Path, text: str) -> None:
    """Replace a small file so that a reader sees the old text or the new one, never half of it."""
    part = path.with_name(path.name + ".part")
    part.write_text(text)
    part.replace(path)


class LocalCluster:
    """The child processes. `say` gets one line for each thing worth knowing."""

    def __init__(self, plans: list[NodePlan], say: Callable[[str], None]) -> None:
        self._plans = {one.config.node_id: one for one in plans}
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._login = Users(plans[0].config.users).login
        self._say = say

    @property
    def majority_runs(self) -> bool:
        return len(self._running) > len(self._plans) // 2

    @property
    def running(self) -> list[str]:
        return list(self._running)

    def start(self, environ: Mapping[str, str]) -> None:
        """Start every node. What is on its command line is not in its environment as well."""
        clean = {k: v for k, v in environ.items() if not k.startswith(VARIABLE_PREFIX)}
        for node_id, one in self._plans.items():
            one.directory.mkdir(exist_ok=True)
            write_whole(one.command_file, shlex.join(one.command()) + "\n")
            with open(one.log_file, "ab") as log:
                child = subprocess.Popen(
                    one.command(),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=clean | one.secrets(),
                    # A Ctrl-C at the terminal is for us alone; we then stop the nodes in order.
                    start_new_session=True,
                    preexec_fn=die_with_parent(signal.SIGKILL),
                )
            self._running[node_id] = child
            write_whole(one.pid_file, f"{child.pid}\n")
            self._say(f"{node_id} starts: {one.config.resp}, pid {child.pid}, {one.log_file}")

    def reap(self) -> None:
        """Notice children that have ended, and say so in one line each."""
        for node_id, child in list(self._running.items()):
            code = child.poll()
            if code is not None:
                del self._running[node_id]
                how = describe_end(code, self._plans[node_id].log_file)
                self._say(f"{node_id} (pid {child.pid}) {how}")

    def ask(self) -> list[NodeRow]:
        """What each running node says of itself; those that do not answer have no row."""
        rows = []
        for node_id in self._running:
            address = self._plans[node_id].config.resp_address
            with contextlib.suppress(OSError, RespError):
                with RespClient(*address, timeout_s=ASK_TIMEOUT_S, login=self._login) as client:
                    rows.append(row_of(parse_info(client.call("INFO", "raft")), str(address)))
        return rows

    def stop(self) -> None:
        """SIGTERM to all, wait, and SIGKILL to those that are still there after the bound."""
        for child in self._running.values():
            child.send_signal(signal.SIGTERM)
        deadline_s = time.monotonic() + STOP_BOUND_S
        for node_id, child in self._running.items():
            try:
                child.wait(max(0.0, deadline_s - time.monotonic()))
            except subprocess.TimeoutExpired:
                self._say(f"{node_id} does not stop and is killed")
                child.kill()
                child.wait()
        self._running.clear()


def describe_end(code: int, log_file: Path) -> str:
    """How a child ended. Its last words are worth a look unless somebody killed it."""
    if code < 0:
        return f"was ended by {signal.Signals(-code).name}"
    if code == 0:
        return "has stopped"
    lines = log_file.read_text(errors="replace").splitlines()[-1:]
    return f"ended with exit code {code}: {(lines or ['nothing in its log'])[0]}"


def wait_for_leader(cluster: LocalCluster, stopped: Callable[[], bool]) -> list[NodeRow] | None:
    """Wait until every running node names a leader; None if that cannot happen any more."""
    begin_s = time.monotonic()
    said_s, leader_s = begin_s, None
    while not stopped():
        cluster.reap()
        if not cluster.majority_runs:
            return None
        rows = cluster.ask()
        now_s = time.monotonic()
        if leader_of(rows):
            leader_s = leader_s or now_s
            informed = [row for row in rows if row.leader]
            if len(informed) == len(cluster.running) or now_s - leader_s > STRAGGLER_BOUND_S:
                return rows
        if now_s - said_s >= PROGRESS_S:
            said_s = now_s
            report(f"still waiting for a leader after {now_s - begin_s:.0f} s")
        time.sleep(POLL_S)
    return None


def report(line: str) -> None:
    """Progress goes to standard error: standard output has only the line beginning `ready`."""
    print(line, file=sys.stderr, flush=True)


def run(
    directory: Path, resp_port: int, nodes: int, base: Config, environ: Mapping[str, str]
) -> int:
    """Run a cluster until SIGINT or SIGTERM; the exit code is 1 if it never had a leader."""
    stop_asked = False

    def ask_to_stop(*_: Any) -> None:
        nonlocal stop_asked
        stop_asked = True

    directory = directory.absolute()
    plans = plan(directory, resp_port, nodes, base)
    with directory_lock(directory):
        check_free(directory, plans)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, ask_to_stop)
        cluster = LocalCluster(plans, report)
        try:
            write_whole(directory / "size", f"{nodes}\n")
            cluster.start(environ)
            rows = wait_for_leader(cluster, lambda: stop_asked)
            if rows is None and not stop_asked:
                report("there can be no leader: too few nodes run.")
                return 1
            if rows is not None:
                addresses = ",".join(one.config.resp for one in plans)
                print(
                    f"ready leader={leader_of(rows)} resp={addresses} dir={directory}", flush=True
                )
            while not stop_asked:
                cluster.reap()
                time.sleep(POLL_S)
        finally:
            cluster.stop()
    report("stopped")
    return 0
