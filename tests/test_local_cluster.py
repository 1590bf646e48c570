"""`goblin-raft cluster`: what it plans and refuses, and real nodes as its children."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time

import pytest

from goblin_raft import local_cluster
from goblin_raft.cli import build_parser, settings_from
from goblin_raft.config import Address, BadSetting, Config
from goblin_raft.local_cluster import CannotStart, NodePlan, plan

STEP_BOUND_S = 30.0


def test_nodes_have_neighbouring_ports_and_know_each_other(tmp_path):
    plans = plan(tmp_path, 7001, 3, Config())
    assert [p.config.node_id for p in plans] == ["n1", "n2", "n3"]
    assert plans[1].config.resp_address == ("127.0.0.1", 7002)
    assert plans[1].config.raft_address == ("127.0.0.1", 7102)
    assert plans[1].config.peers == "n1=127.0.0.1:7101,n3=127.0.0.1:7103"
    assert plans[2].pid_file == tmp_path / "n3" / "node.pid"


def test_the_command_line_gives_back_the_same_settings(tmp_path, monkeypatch):
    monkeypatch.delenv("GOBLIN_RAFT_HEARTBEAT_MS", raising=False)
    for one in plan(tmp_path / "a b", 7001, 3, Config(heartbeat_ms=20, log_level="debug")):
        words = shlex.split(shlex.join(one.command()))
        assert words[1:4] == ["-m", "goblin_raft", "serve"]
        assert settings_from(build_parser().parse_args(words[3:])) == one.config


@pytest.mark.parametrize("port, nodes", [(7001, 0), (7001, 10), (0, 3), (65_434, 3)])
def test_impossible_clusters_are_refused(tmp_path, port, nodes):
    with pytest.raises(BadSetting):
        plan(tmp_path, port, nodes, Config())


def test_a_directory_has_one_supervisor(tmp_path):
    with local_cluster.directory_lock(tmp_path):
        with pytest.raises(CannotStart, match="in use by another"):
            with local_cluster.directory_lock(tmp_path):
                pass
    with local_cluster.directory_lock(tmp_path):
        pass


def test_the_size_of_a_cluster_is_fixed(tmp_path):
    (tmp_path / "size").write_text("3\n")
    with pytest.raises(CannotStart, match="holds a cluster of 3 nodes"):
        local_cluster.check_free(tmp_path, plan(tmp_path, free_base(), 1, Config()))


def test_a_port_in_use_is_refused(tmp_path):
    base = free_base()
    with socket.create_server(("127.0.0.1", base + 101)):
        with pytest.raises(CannotStart, match=f"127.0.0.1:{base + 101} cannot be used"):
            local_cluster.check_free(tmp_path, plan(tmp_path, base, 3, Config()))


def test_a_pid_that_is_used_again_by_another_program_is_not_a_node(tmp_path):
    one = NodePlan(Config(dir=str(tmp_path)))
    assert local_cluster.running_pid(one) is None
    one.pid_file.write_text(f"{os.getpid()}\n")
    assert local_cluster.running_pid(one) is None
    # It has the words of a node on its command line, and that is all that is looked at.
    words = [sys.executable, "-c", "input()", "serve", "--dir", str(tmp_path)]
    child = subprocess.Popen(words, stdin=subprocess.PIPE)
    one.pid_file.write_text(f"{child.pid}\n")
    try:
        until(lambda: local_cluster.running_pid(one) == child.pid)
    finally:
        child.kill()
        child.communicate()
    assert local_cluster.running_pid(one) is None


@pytest.mark.parametrize(
    "code, words",
    [(-9, "was ended by SIGKILL"), (0, "has stopped"), (1, "exit code 1: last words")],
)
def test_an_end_is_told_in_one_line(tmp_path, code, words):
    log = tmp_path / "node.log"
    log.write_text("first words\nlast words\n")
    assert words in local_cluster.describe_end(code, log)
    assert "\n" not in local_cluster.describe_end(code, log)


def free_base():
    """The first of three ports in a row that are free, as are the raft ports that go with them."""
    for base in range(29_100, 32_000, 210):
        with contextlib.suppress(CannotStart):
            for port in (base + offset + i for offset in (0, 100) for i in range(3)):
                local_cluster.check_port_is_free(Address("127.0.0.1", port))
            return base
    raise AssertionError("no free ports")


def until(condition):
    """Wait for something that has to happen soon; give back what it was."""
    deadline_s = time.monotonic() + STEP_BOUND_S
    while not (seen := condition()):
        assert time.monotonic() < deadline_s, "it did not happen in time"
        time.sleep(0.05)
    return seen


def is_alive(pid):
    """Whether a process runs; one that has ended and is not yet waited for does not."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


class Supervisor:
    """One `goblin-raft cluster` process, read line by line."""

    def __init__(self, directory, base, *more):
        self.directory = directory
        self.errors = open(directory.parent / "errors.txt", "a+")  # noqa: SIM115 closed in end
        words = ["cluster", "--dir", str(directory), "--resp-port", str(base), *more]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "goblin_raft", *words],
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
        )

    def said(self):
        self.errors.seek(0)
        return self.errors.read()

    def pid(self, node):
        return int((self.directory / node / "node.pid").read_text())

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        code = self.process.wait(STEP_BOUND_S)
        self.process.stdout.close()
        return code


@pytest.fixture
def start(tmp_path):
    started = []

    def begin(base, *more):
        started.append(Supervisor(tmp_path / "cluster", base, *more))
        return started[-1]

    yield begin
    for one in started:
        if one.process.poll() is None:
            one.end()
        one.errors.close()


def status_of(port):
    words = ["status", "--resp", f"127.0.0.1:{port}", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "goblin_raft", *words], capture_output=True, text=True, timeout=30
    )
    return done.returncode, json.loads(done.stdout)


@pytest.mark.cluster
def test_a_cluster_starts_tells_of_a_death_stops_and_goes_on_with_its_data(start):
    base = free_base()
    first = start(base)
    line = first.process.stdout.readline()
    assert line.startswith("ready leader=n")
    pids = [first.pid(node) for node in ("n1", "n2", "n3")]
    code, seen = status_of(base + 1)
    assert code == 0
    assert [node["id"] for node in seen["nodes"]] == ["n1", "n2", "n3"]
    assert all(node["reachable"] for node in seen["nodes"])

    with local_cluster.RespClient("127.0.0.1", base) as client:
        assert client.call("GOBLIN.CLAIM", "c", "r", "worker", "600") == b"CLAIMED"

    os.kill(pids[2], signal.SIGKILL)
    until(lambda: f"n3 (pid {pids[2]}) was ended by SIGKILL" in first.said())
    assert not status_of(base)[1]["nodes"][2]["reachable"]
    assert first.process.poll() is None

    assert first.end(signal.SIGINT) == 0
    assert not any(is_alive(pid) for pid in pids)
    assert not (first.directory / "n1" / "node.pid").exists()

    again = start(base)
    assert again.process.stdout.readline().startswith("ready")
    with local_cluster.RespClient("127.0.0.1", base + 2) as client:
        assert client.call("GET", "c") == b"worker"


@pytest.mark.cluster
def test_nodes_do_not_outlive_a_supervisor_that_was_killed(start):
    base = free_base()
    first = start(base, "--nodes", "1")
    assert first.process.stdout.readline().startswith("ready leader=n1")
    pid = first.pid("n1")
    assert first.end(signal.SIGKILL) == -signal.SIGKILL
    until(lambda: not is_alive(pid))


@pytest.mark.cluster
def test_a_second_supervisor_on_the_same_directory_is_refused(start):
    base = free_base()
    first = start(base, "--nodes", "1")
    assert first.process.stdout.readline().startswith("ready")
    second = start(base, "--nodes", "1")
    assert second.process.wait(STEP_BOUND_S) == 1
    assert "is in use by another goblin-raft cluster" in second.said()


@pytest.mark.cluster
def test_a_node_restarted_by_hand_with_its_command_file_is_the_same_node(start):
    base = free_base()
    first = start(base, "--nodes", "1")
    assert first.process.stdout.readline().startswith("ready")
    pid = first.pid("n1")
    os.kill(pid, signal.SIGKILL)
    until(lambda: "was ended by SIGKILL" in first.said())
    child = subprocess.Popen(
        shlex.split((first.directory / "n1" / "command").read_text()), stderr=subprocess.DEVNULL
    )
    try:
        until(lambda: first.pid("n1") == child.pid)
        assert until(lambda: status_of(base)[0] == 0)
    finally:
        child.terminate()
        assert child.wait(STEP_BOUND_S) == 0


def test_passwords_are_neither_on_the_command_line_nor_in_a_file(tmp_path):
    plans = local_cluster.plan(tmp_path, 7001, 3, Config(users="app=geheim"))
    assert "geheim" not in " ".join(plans[0].command())
    assert plans[0].secrets() == {"GOBLIN_RAFT_USERS": "app=geheim"}
    digest = "app=sha256:" + "0" * 64
    with pytest.raises(BadSetting, match="plain password"):
        local_cluster.plan(tmp_path, 7001, 3, Config(users=digest))
