"""Fixtures that more than one file needs: a node in memory, and Redis to compare with."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections import deque
from io import BytesIO

import pytest
from hypothesis import settings

from goblin_raft.config import Config
from goblin_raft.consensus.memory import MemoryEngine
from goblin_raft.dispatch import Dispatcher
from goblin_raft.limits import Limits
from goblin_raft.node_view import Changeable, ClientStatus, Metrics, NodeView
from goblin_raft.reply import Reply
from goblin_raft.resp import encode_all
from goblin_raft.session import Session
from goblin_raft.users import Users
from tests.stories import Stage, read_reply

# How long an example takes says how busy the machine is, and nothing else.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")

# Cluster time and the wall clock have nothing to do with each other; neither have these.
START_MS = 5_000_000
START_WALL_MS = 1_767_225_600_000  # 2026-01-01 00:00:00 UTC


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite",
        action="store_true",
        help="write the replies into the transcripts; commit only what you can explain",
    )


class MemoryNode:
    """One node without sockets or disk, whose time stands still until it is told to pass."""

    def __init__(self) -> None:
        self.passed_ms = 0
        self.engine = MemoryEngine(
            lambda: START_MS + self.passed_ms, wall_ms=lambda: START_WALL_MS + self.passed_ms
        )
        self.machine = self.engine.machine
        self.dispatcher = Dispatcher(self.engine, Limits(), Config().entry_bytes_max)
        self.session = Session(id=1, address="127.0.0.1:50000")
        self.view = NodeView(
            session=self.session,
            config=Config(),
            changeable=Changeable(maxclients=Config().maxclients),
            users=Users(),
            metrics=Metrics(started_s=0.0),
            status=self.engine.status,
            keys_by_database=lambda: [
                (len(keyspace), len(keyspace.deadlines)) for keyspace in self.machine.keyspaces
            ],
            expired_keys=lambda: self.machine.expired_keys,
            state_digest=self.machine.digest,
            take_snapshot=self.engine.take_snapshot,
            now_s=lambda: (START_WALL_MS + self.passed_ms) / 1000,
            clients=lambda: [ClientStatus(self.session, 0, 0, 0)],
            kill=lambda session_id: None,
        )

    def call(self, *words: bytes | str | int) -> Reply:
        """One request."""
        argv = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        replies: list[Reply] = []
        self.dispatcher.run_chunk(deque([argv]), self.view, replies.extend)
        assert len(replies) == 1, "a request has one reply"
        return replies[0]

    def pass_time(self, ms: int) -> None:
        """Let time pass; the log hears of it with the next request."""
        self.passed_ms += ms

    def stage(self) -> Stage:
        """For stories."""

        def send(argv: list[bytes], node: int) -> str:
            return read_reply(BytesIO(encode_all([self.call(*argv)], 2)))

        return Stage(send, self.pass_time)


@pytest.fixture
def node() -> MemoryNode:
    return MemoryNode()


class Connection:
    """A connection for tests, which shows replies as redis-cli does and can pipeline."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), 5)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.stream = self.socket.makefile("rb")

    def post(self, *words: bytes) -> None:
        """Send without waiting."""
        frame = [b"*%d\r\n" % len(words)]
        frame += [b"$%d\r\n%b\r\n" % (len(word), word) for word in words]
        self.socket.sendall(b"".join(frame))

    def ask(self, *words: bytes) -> str:
        """Send and wait for the reply."""
        self.post(*words)
        return read_reply(self.stream)

    def close(self) -> None:
        self.stream.close()
        self.socket.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for_port(port: int, within_s: float = 10) -> None:
    give_up_s = time.monotonic() + within_s
    while True:
        try:
            Connection(port).close()
            return
        except OSError:
            assert time.monotonic() < give_up_s, f"nobody listens on port {port}"
            time.sleep(0.02)


@pytest.fixture(scope="session")
def redis_port():
    """A real redis-server on this machine, empty, for the whole run."""
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed: there is nothing to compare with")
    port = free_port()
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        wait_for_port(port)
        yield port
    finally:
        server.kill()
        server.wait()


@pytest.fixture
def redis(redis_port):
    """A connection to it, with nothing stored."""
    connection = Connection(redis_port)
    assert connection.ask(b"FLUSHALL") == "OK"
    yield connection
    connection.close()
