"""Every story of tests/transcripts, on every stage that can tell it.

Run with --rewrite to write new replies into the files, and commit only what you can explain.
"""

from __future__ import annotations

import itertools
import subprocess
import sys

import pytest

from tests.conftest import Connection, MemoryNode, free_port, wait_for_port
from tests.stories import TRANSCRIPTS, Stage, has_pauses, read_story, tell, text_of
from tests.test_cluster import Cluster

PATHS = sorted(TRANSCRIPTS.glob("*.txt"))
STORIES = {path.stem: read_story(path) for path in PATHS}
IN_MEMORY = sorted(STORIES)
# Stages without a clock that we can set tell no story in which time passes.
REAL_TIME = [name for name in IN_MEMORY if not has_pauses(STORIES[name])]
# Their names say that Redis itself must give these answers.
OF_REDIS = [name for name in REAL_TIME if name.startswith("redis_")]


@pytest.mark.parametrize("name", IN_MEMORY)
def test_in_memory(name, request):
    path = TRANSCRIPTS / f"{name}.txt"
    told = text_of(tell(STORIES[name], MemoryNode().stage()))
    if request.config.getoption("--rewrite"):
        path.write_text(told)
    assert told == path.read_text()


@pytest.mark.parametrize("name", OF_REDIS)
def test_redis_itself_answers_the_same(name, redis):
    stage = Stage(lambda argv, node: redis.ask(*argv))
    assert text_of(tell(STORIES[name], stage)) == text_of(STORIES[name])


@pytest.fixture(scope="module")
def one_process(tmp_path_factory):
    """A node without peers, as its users start it."""
    port, raft_port = free_port(), free_port()
    directory = tmp_path_factory.mktemp("node")
    command = [sys.executable, "-m", "goblin_raft", "serve", "--dir", str(directory)]
    command += ["--resp", f"127.0.0.1:{port}", "--raft", f"127.0.0.1:{raft_port}"]
    with open(directory / "log", "w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    wait_for_port(port)
    yield port
    process.terminate()
    process.wait(10)


@pytest.mark.parametrize("name", REAL_TIME)
def test_through_a_socket(name, one_process):
    connection = Connection(one_process)
    assert connection.ask(b"FLUSHALL") == "OK"
    stage = Stage(lambda argv, node: connection.ask(*argv))
    assert text_of(tell(STORIES[name], stage)) == text_of(STORIES[name])
    connection.close()


@pytest.fixture(scope="module")
def three_nodes(tmp_path_factory):
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    yield [cluster.base + offset for offset in range(3)]
    cluster.stop()


@pytest.mark.cluster
@pytest.mark.parametrize("name", REAL_TIME)
def test_on_three_nodes_in_turn(name, three_nodes):
    connections = [Connection(port) for port in three_nodes]
    assert connections[0].ask(b"FLUSHALL") == "OK"
    turn = itertools.cycle(connections)

    def send(argv: list[bytes], node: int) -> str:
        connection = connections[node - 1] if node else next(turn)
        return connection.ask(*argv)

    assert text_of(tell(STORIES[name], Stage(send))) == text_of(STORIES[name])
    for connection in connections:
        connection.close()
