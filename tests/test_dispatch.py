"""What becomes of a chunk: who is asked, once, and in which order the answers lie."""

from __future__ import annotations

from collections import deque

import pytest

from goblin_raft import errors
from goblin_raft.dispatch import CHUNK_REQUESTS_MAX
from goblin_raft.reply import OK, PONG, Failure

CLUSTERDOWN = errors.CLUSTERDOWN.failure()


@pytest.fixture
def asked(node, monkeypatch):
    """What the engine was asked for: the commands of each proposal, and b"barrier"."""
    log = []
    propose, read = node.engine.propose, node.engine.read

    def spy_propose(commands, size_bytes, settle):
        log.append([(command[0], command[1]) for command in commands])
        propose(commands, size_bytes, settle)

    def spy_read(ready):
        log.append("barrier")
        read(ready)

    monkeypatch.setattr(node.engine, "propose", spy_propose)
    monkeypatch.setattr(node.engine, "read", spy_read)
    return log


def run(node, *lines, **how):
    """All replies to these requests, chunk after chunk."""
    requests = deque(line.split() for line in lines)
    chunks = []
    while requests and not node.session.closing:
        node.dispatcher.run_chunk(requests, node.view, chunks.append, **how)
    return chunks


def test_reads_and_writes_lie_in_one_entry_in_their_order(node, asked):
    chunks = run(node, b"GET a", b"SET a 1", b"get a", b"DEL a")
    assert chunks == [[None, OK, b"1", 1]]
    assert asked == [[("GET", 0), ("SET", 0), ("GET", 0), ("DEL", 0)]]


def test_one_barrier_serves_many_reads(node, asked):
    assert run(node, b"GET a", b"EXISTS a", b"TTL a") == [[None, 0, -2]]
    assert asked == ["barrier"]


def test_a_node_command_has_a_chunk_of_its_own(node, asked):
    chunks = run(node, b"SET a 1", b"SELECT 1", b"GET a", b"PING", b"ECHO b")
    assert chunks == [[OK], [OK], [None], [PONG], [b"b"]]
    assert asked == [[("SET", 0)], "barrier"]


def test_what_is_refused_before_the_log_keeps_its_place(node, asked):
    (chunk,) = run(node, b"SET a", b"SET a 1", b"NOSUCH", b"CLIENT NOSUCH", b"GET a")
    assert chunk[1] == OK
    assert chunk[4] == b"1"
    assert [reply.code for reply in (chunk[0], chunk[2], chunk[3])] == ["ERR"] * 3
    assert asked == [[("SET", 0), ("GET", 0)]]


def test_nobody_is_asked_when_there_is_nothing_to_ask(node, asked):
    run(node, b"SET a", b"NOSUCH", b"PING")
    assert asked == []


def test_a_chunk_is_bounded_in_requests(node):
    chunks = run(node, *[b"GET a"] * (CHUNK_REQUESTS_MAX + 3))
    assert [len(chunk) for chunk in chunks] == [CHUNK_REQUESTS_MAX, 3]


def test_a_chunk_is_bounded_in_bytes_and_takes_one_request_at_least(node):
    node.dispatcher.chunk_bytes_max = 1000
    word = b"x" * 500
    chunks = run(node, *[b"SET a " + word] * 3, b"SET a " + word * 4, b"GET b")
    assert [len(chunk) for chunk in chunks] == [1, 1, 1, 1, 1]


def test_a_command_that_fits_no_entry_is_refused(node, asked):
    limit = node.dispatcher.command_bytes_max
    requests = deque([[b"DEL", *[b"k" * 65_536] * (limit // 65_536 + 1)], [b"NOSUCH"]])
    replies = []
    node.dispatcher.run_chunk(requests, node.view, replies.extend)
    assert replies[0] == errors.COMMAND_TOO_LONG.failure(limit=limit)
    assert len(replies) == 2
    assert asked == []


def test_a_refusal_is_for_data_commands(node, asked):
    chunks = run(node, b"SET a 1", b"PING", b"GET a", b"GET", refusal=CLUSTERDOWN)
    assert chunks[:2] == [[CLUSTERDOWN], [PONG]]
    assert chunks[2][0] == CLUSTERDOWN
    assert chunks[2][1].text.startswith("ERR wrong number")
    assert asked == []


def test_a_barrier_that_fails_is_each_reads_answer(node, monkeypatch):
    monkeypatch.setattr(node.engine, "read", lambda ready: ready(CLUSTERDOWN))
    assert run(node, b"GET a", b"NOSUCH", b"GET b")[0][::2] == [CLUSTERDOWN] * 2


def test_a_readonly_connection_asks_nobody_for_reads_alone(node, asked):
    run(node, b"READONLY", b"GET a")
    assert asked == []
    run(node, b"GET a", b"SET a 1")
    assert asked == [[("GET", 0), ("SET", 0)]]


@pytest.mark.parametrize("name", [b"post", b"Host:"])
def test_a_browser_ends_the_connection(node, name):
    assert run(node, b"SET a 1", name, b"SET a 2") == [[OK]]
    assert node.session.closing
    assert node.machine.keyspaces[0].values == {b"a": b"1"}


def test_two_words_with_a_blank_between_are_no_command(node):
    requests = deque([[b"CLIENT ID", b"x"]])
    replies = []
    node.dispatcher.run_chunk(requests, node.view, replies.extend)
    assert isinstance(replies[0], Failure)
    assert replies[0].text.startswith("ERR unknown command")
