"""One node as a process: how it refuses to start, and how it stops."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tests.conftest import Connection, free_port, wait_for_port


def command(directory, port: int, *more: str) -> list[str]:
    words = [sys.executable, "-m", "goblin_raft", "serve", "--dir", str(directory)]
    return [*words, "--resp", f"127.0.0.1:{port}", "--raft", f"127.0.0.1:{free_port()}", *more]


@pytest.fixture
def running(tmp_path):
    port = free_port()
    with open(tmp_path / "log", "w") as log:
        process = subprocess.Popen(command(tmp_path / "data", port), stderr=log)
    wait_for_port(port)
    yield process, port, tmp_path / "data"
    process.kill()
    process.wait()


def refusal(directory, port: int, *more: str) -> str:
    done = subprocess.run(
        command(directory, port, *more), capture_output=True, text=True, timeout=20, check=False
    )
    assert done.returncode == 1
    lines = [line for line in done.stderr.splitlines() if line.startswith("goblin-raft:")]
    assert len(lines) == 1
    return lines[0]


def test_sigterm_ends_it_with_exit_code_zero(running):
    process, port, _ = running
    connection = Connection(port)
    assert connection.ask(b"SET", b"k", b"v") == "OK"
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 0
    connection.close()


def test_a_directory_or_a_port_in_use_is_refused_in_one_sentence(running, tmp_path):
    _, port, directory = running
    assert "in use by another process" in refusal(directory, free_port())
    assert f"cannot listen for clients on 127.0.0.1:{port}" in refusal(tmp_path / "other", port)


def test_a_directory_of_another_node_is_refused_and_left_alone(running):
    process, port, directory = running
    process.send_signal(signal.SIGTERM)
    process.wait(10)
    before = {path.name: path.read_bytes() for path in directory.iterdir()}
    said = refusal(directory, port, "--node-id", "somebody-else")
    assert "belongs to node n1" in said
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == before


def test_users_come_from_the_environment_and_the_tools_log_in(tmp_path):
    port = free_port()
    environ = os.environ | {"GOBLIN_RAFT_USERS": "app=one"}
    words = [sys.executable, "-m", "goblin_raft", "status", "--resp", f"127.0.0.1:{port}"]
    process = subprocess.Popen(
        command(tmp_path / "data", port), stderr=subprocess.DEVNULL, env=environ
    )
    try:
        wait_for_port(port)
        connection = Connection(port)
        assert connection.ask(b"GET", b"k") == "(error) NOAUTH Authentication required."
        assert connection.ask(b"AUTH", b"app", b"one") == "OK"
        assert connection.ask(b"GET", b"k") == "(nil)"
        connection.close()

        def status(*flags, env):
            done = subprocess.run(
                [*words, *flags], capture_output=True, text=True, env=env, check=False
            )
            return done.returncode, done.stdout

        assert status(env=environ)[0] == 0
        assert status("--auth", "app:one", env=os.environ)[0] == 0
        assert status(env=os.environ | {"GOBLIN_RAFT_AUTH": "app:one"})[0] == 0
        code, said = status(env=os.environ)
        assert code == 1
        assert "NOAUTH" in said
    finally:
        process.kill()
        process.wait()
