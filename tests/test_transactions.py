"""What becomes of MULTI, EXEC and WATCH between a client and the engine."""

from __future__ import annotations

import pytest

from goblin_raft import errors
from goblin_raft.reply import NULL_ARRAY, OK, PONG, QUEUED
from tests.conftest import MemoryNode
from tests.test_dispatch import asked, run  # noqa: F401 a fixture

CLUSTERDOWN = errors.CLUSTERDOWN.failure()
SOME = (b"MULTI", b"SET a 1", b"GET a", b"EXEC")


def flat(chunks):
    return [reply for chunk in chunks for reply in chunk]


def test_a_transaction_is_one_command_in_one_entry(node, asked):  # noqa: F811
    assert flat(run(node, *SOME)) == [OK, QUEUED, QUEUED, [OK, b"1"]]
    assert asked == [[("EXEC", 0)]]


def test_one_that_only_reads_needs_a_barrier_and_no_entry(node, asked):  # noqa: F811
    lines = (b"SET a 1", b"WATCH a", b"MULTI", b"GET a", b"GET b", b"EXEC")
    assert flat(run(node, *lines))[-1] == [b"1", None]
    assert asked == [[("SET", 0)], "barrier", "barrier"]


def test_one_without_data_asks_nobody(node, asked):  # noqa: F811
    assert flat(run(node, b"MULTI", b"PING", b"SELECT 3", b"EXEC"))[-1] == [PONG, OK]
    assert node.session.db == 3
    assert asked == []


def test_a_change_that_is_known_here_needs_no_entry(node, asked):  # noqa: F811
    lines = (b"WATCH a", b"SET a 1", b"MULTI", b"SET a 2", b"SELECT 3", b"EXEC")
    assert flat(run(node, *lines))[-1] == NULL_ARRAY
    assert asked == ["barrier", [("SET", 0)]]
    assert node.session.db == 0


def test_a_change_that_overtakes_it_is_found_where_it_is_applied(node, monkeypatch):
    propose = node.engine.propose

    def overtake(commands, size_bytes, settle):
        propose([["SET", 0, b"a", b"theirs", None, False, None]], 0, lambda _: None)
        propose(commands, size_bytes, settle)

    run(node, b"WATCH a", b"MULTI", b"SET a ours", b"PING")
    monkeypatch.setattr(node.engine, "propose", overtake)
    assert run(node, b"EXEC") == [[NULL_ARRAY]]
    assert node.machine.keyspaces[0].values == {b"a": b"theirs"}


@pytest.mark.parametrize("lines", [SOME, (b"MULTI", b"GET a", b"EXEC")])
def test_without_a_leader_the_whole_is_refused(node, asked, lines):  # noqa: F811
    assert flat(run(node, *lines, refusal=CLUSTERDOWN))[-1] == CLUSTERDOWN
    assert asked == []
    assert node.session.transaction is None


def test_a_watch_that_could_not_be_set_is_an_error(node, monkeypatch):
    monkeypatch.setattr(node.engine, "read", lambda ready: ready(CLUSTERDOWN))
    assert run(node, b"WATCH a") == [[CLUSTERDOWN]]
    assert node.session.watch is None


@pytest.mark.parametrize("ending", [b"EXEC", b"DISCARD", b"RESET"])
def test_it_ends_the_watch(node, ending):
    run(node, b"WATCH a", b"MULTI", ending)
    assert node.session.watch is None
    assert node.session.transaction is None
    run(node, b"WATCH a", b"MULTI", b"NOSUCH", ending)
    assert node.session.watch is None


def test_a_node_forgets_the_watches_of_those_who_left(node):
    run(node, b"WATCH a b")
    assert len(node.machine.watches) == 1
    run(node, b"UNWATCH")
    assert len(node.machine.watches) == 0


def test_a_watch_of_a_key_that_is_watched_already_stays_as_it_was(node):
    assert flat(run(node, b"WATCH a", b"SET a 1", b"WATCH a", *SOME))[-1] == NULL_ARRAY


def test_ten_thousand_commands(node):
    run(node, b"MULTI", *[b"SET k%d v" % number for number in range(10_000)])
    assert flat(run(node, b"EXEC")) == [[OK] * 10_000]


@pytest.mark.parametrize("name", [b"post", b"Host:"])
def test_a_browser_ends_the_connection_in_a_transaction_too(node, name):
    assert run(node, b"MULTI", b"SET a 1", name, b"EXEC") == [[OK], [QUEUED], []]
    assert node.session.closing


def test_what_is_wrong_with_an_argument_is_that_commands_reply(node):
    lines = (b"MULTI", b"SET a 1", b"INCRBY a x", b"SELECT x", b"SET a 2 NX XX", b"GET a", b"EXEC")
    *queued, replies = flat(run(node, *lines))
    assert queued == [OK, *[QUEUED] * 5]
    assert [replies[0], replies[4]] == [OK, b"1"]
    assert [each.text for each in replies[1:3]] == [errors.NOT_AN_INTEGER.failure().text] * 2


def test_a_value_over_its_limit_refuses_the_whole(node):
    run(node, b"MULTI", b"SET a 1")
    assert run(node, b"SET a " + b"x" * 1_048_577)[0][0].code == "ERR"
    assert run(node, b"EXEC")[0][0].code == "EXECABORT"


def test_what_all_hold_together_is_bounded(node):
    """Who comes when others hold too much already is told so, and goes on when they hold less."""
    node.dispatcher.holders.bytes_max = 300_000
    value = b"x" * 100_000
    others = MemoryNode()  # another connection of the same node
    others.dispatcher = node.dispatcher
    assert flat(run(others, b"MULTI", b"SET a " + value, b"SET b " + value))[2] == QUEUED
    lines = [b"MULTI", b"SET c " + value, b"EXEC"]
    assert flat(run(node, *lines))[1] == errors.TRYAGAIN.failure()
    keys = b" ".join(b"%05d" % number + b"k" * 1000 for number in range(110))
    assert run(node, b"WATCH " + keys) == [[errors.TRYAGAIN.failure()]]
    run(others, b"DISCARD")
    assert flat(run(node, *lines))[1:] == [QUEUED, [OK]]
    assert run(node, b"WATCH " + keys) == [[OK]]


def test_the_watched_keys_count_for_the_size_of_a_transaction(node, asked):  # noqa: F811
    node.dispatcher.command_bytes_max = 4000
    lines = (b"WATCH " + b"k" * 1500, b"MULTI", b"SET a " + b"x" * 3000, b"EXEC")
    *_, queued, refused = flat(run(node, *lines))
    assert queued == QUEUED
    assert refused.text == "ERR transaction is longer than 4000 bytes"
    assert asked == ["barrier"]
