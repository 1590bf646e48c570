"""The machine: entries in, replies out, the same everywhere, and nothing raised."""

from __future__ import annotations

import logging

import msgpack
import pytest

from goblin_raft import state_machine
from goblin_raft.commands.claims import CLAIMED
from goblin_raft.entry import Unreadable, encode_entry, encode_proposal
from goblin_raft.origins import FORGET_AFTER_MS
from goblin_raft.reply import OK, Failure
from goblin_raft.state_machine import (
    REMOVALS_PER_COMMAND,
    REMOVALS_PER_ENTRY,
    StateMachine,
)

CLAIM = ["GOBLIN.CLAIM", 0, b"c", b"r", b"t", 30_000]


class Log:
    """Writes entries for one machine and counts sequences."""

    def __init__(self) -> None:
        self.machine = StateMachine()
        self.sequence = 0

    def apply(self, stamp_ms: int, *commands: list, wall_ms: int = 0):
        self.sequence += 1
        proposal = encode_proposal("n1", 7, self.sequence, self.sequence, list(commands))
        (outcome,) = self.machine.apply(encode_entry(stamp_ms, wall_ms, [proposal]))
        assert outcome[:3] == ("n1", 7, self.sequence)
        return outcome.replies

    def tick(self, stamp_ms: int) -> None:
        assert self.machine.apply(encode_entry(stamp_ms, 0, [])) == []


@pytest.fixture
def log() -> Log:
    return Log()


# ---- entries ------------------------------------------------------------------------------------


def test_one_reply_for_each_command_in_order(log):
    commands = [["SET", 0, b"k", b"v", None, False, None], ["GET", 0, b"k"], ["GET", 1, b"k"]]
    assert log.apply(1000, *commands) == [OK, b"v", None]
    assert log.machine.applied_commands == 3


def test_proposals_of_an_entry_are_applied_in_order(log):
    proposals = [
        encode_proposal(origin, 1, 1, 1, [["GOBLIN.CLAIM", 0, b"c", b"r", origin.encode(), 1000]])
        for origin in ("n1", "n2")
    ]
    outcomes = log.machine.apply(encode_entry(1000, 0, proposals))
    assert [(outcome.origin, outcome.replies) for outcome in outcomes] == [
        ("n1", [CLAIMED]),
        ("n2", [None]),
    ]


def test_a_copy_changes_nothing_and_says_so(log):
    entry = encode_entry(1000, 0, [encode_proposal("n1", 1, 1, 1, [CLAIM])])
    assert log.machine.apply(entry)[0].replies == [CLAIMED]
    keys = list(log.machine.keyspaces[0].items())
    assert log.machine.apply(entry)[0].replies is None
    assert list(log.machine.keyspaces[0].items()) == keys
    assert log.machine.skipped_proposals == 1


def test_an_answer_in_memory_is_not_needed_for_skipping(log):
    """The copy may come after a restart from a snapshot."""
    entry = encode_entry(1000, 0, [encode_proposal("n1", 1, 1, 1, [CLAIM])])
    log.machine.apply(entry)
    restored = StateMachine()
    restored.restore(log.machine.state())
    assert restored.apply(entry)[0].replies is None


# ---- time ---------------------------------------------------------------------------------------


def test_time_never_goes_back(log):
    log.apply(5000, CLAIM)
    log.apply(4000, ["PTTL", 0, b"c"])
    assert log.machine.now_ms == 5000
    assert log.apply(4000, ["GOBLIN.CLAIM", 0, b"d", b"r", b"t", 1000]) == [CLAIMED]
    assert log.machine.keyspaces[0].deadlines[b"d"] == 6000


def test_a_read_goes_by_machine_time_and_ttl_by_cluster_time(log):
    log.apply(1000, CLAIM)
    read = log.machine.read
    assert read(["PTTL", 0, b"c"], 11_000) == 20_000
    assert read(["PTTL", 0, b"c"], 500) == 30_000  # a clock that lags does not lengthen a lease
    # No stamp has reached the deadline: the key is there, whatever a clock says.
    assert read(["PTTL", 0, b"c"], 99_000) == 0
    assert read(["TTL", 0, b"c"], 99_000) == 0
    assert read(["GET", 0, b"c"], 99_000) == b"t"
    log.tick(31_000)
    assert read(["GET", 0, b"c"], 31_000) is None
    assert read(["PTTL", 0, b"c"], 31_000) == -2


def test_the_wall_clock_only_tells_how_long_a_time_of_day_is_away(log):
    """After the entry, a wall clock that jumps has no say."""
    log.apply(1000, ["SET", 0, b"k", b"v", None, False, ["EXAT", 86_400_000]], wall_ms=86_390_000)
    assert log.machine.keyspaces[0].deadlines[b"k"] == 11_000
    log.apply(2000, ["GET", 0, b"k"], wall_ms=0)
    assert log.machine.read(["PTTL", 0, b"k"], 2000) == 9000


def test_the_next_deadline_is_the_nearest_of_all_databases(log):
    assert log.machine.next_deadline_ms() is None
    log.apply(1000, ["GOBLIN.CLAIM", 3, b"c", b"r", b"t", 500], CLAIM)
    assert log.machine.next_deadline_ms() == 1500
    log.tick(1500)
    assert log.machine.next_deadline_ms() == 31_000


def test_keys_that_are_over_are_removed_in_steps(log):
    """Nobody waits for a million leases that end at once, and ticks remove the rest."""
    count = REMOVALS_PER_ENTRY + 50
    claims = [["GOBLIN.CLAIM", 0, b"c%d" % i, b"r", b"t", 1000] for i in range(count)]
    log.apply(1000, *claims)
    log.tick(2000)
    assert log.machine.read(["DBSIZE", 0], 2000) == 50
    assert log.machine.read(["GET", 0, b"c%d" % (count - 1)], 2000) is None
    assert log.machine.next_deadline_ms() == 2000  # the leader sees that there is more to do
    log.tick(2000)
    assert log.machine.read(["DBSIZE", 0], 2000) == 0
    assert log.machine.next_deadline_ms() is None
    assert log.machine.expired_keys == count


def test_removal_keeps_up_with_any_load(log):
    """More can be removed by an entry than its commands can add."""
    assert REMOVALS_PER_COMMAND > 1
    for step in range(20):
        claims = [["GOBLIN.CLAIM", 0, b"%d:%d" % (step, i), b"r", b"t", 10] for i in range(1000)]
        log.apply(step * 10, *claims)
        assert log.machine.read(["DBSIZE", 0], 0) <= 2000


# ---- failures -----------------------------------------------------------------------------------


def test_a_bug_in_a_handler_is_an_answer_and_a_number(log, monkeypatch, caplog):
    def broken(keyspace, at, key):
        raise KeyError(key)

    runner = state_machine._Runner(broken, 3, 3, False)
    monkeypatch.setitem(log.machine._runners, "GET", runner)
    with caplog.at_level(logging.ERROR):
        replies = log.apply(1000, CLAIM, ["GET", 0, b"secret"], ["EXISTS", 0, [b"c"]])
    assert replies == [CLAIMED, Failure("ERR internal error"), 1]
    assert log.machine.internal_errors == 1
    assert "command=GET error=KeyError" in caplog.text
    assert "secret" not in caplog.text


def test_memory_that_runs_out_is_no_answer(log, monkeypatch):
    """Other replicas may have enough: this process must end, not differ."""

    def hungry(keyspace, at, key):
        raise MemoryError

    monkeypatch.setitem(log.machine._runners, "GET", state_machine._Runner(hungry, 3, 3, False))
    with pytest.raises(MemoryError):
        log.apply(1000, ["GET", 0, b"k"])


@pytest.mark.parametrize(
    "command",
    [
        ["GOBLIN.FUTURE", 0, b"k"],
        ["GET", 0],
        ["GET", 0, b"k", b"an argument of a later version"],
        ["GET", 99, b"k"],
        ["PING", 0, None],
        ["GET"],
        [],
        "GET",
        [["GET"], 0, b"k"],
    ],
    ids=repr,
)
def test_a_command_of_another_version_stops_the_node(log, command):
    with pytest.raises(Unreadable):
        log.apply(1000, command)


# ---- snapshots ----------------------------------------------------------------------------------


def full(log: Log) -> StateMachine:
    log.apply(
        1000,
        CLAIM,
        ["SET", 0, b"stays", b"\x00\xff", None, False, None],
        ["SET", 15, b"", b"", None, False, ["PXAT", 1]],
        ["HSET", 0, b"hash", [b"b", b"1", b"a", b"2"]],
        ["ZADD", 2, b"zset", [float("inf"), b"m", 0.1, b"n"]],
        wall_ms=1_700_000_000_000,
    )
    return log.machine


def test_a_restored_machine_is_the_same_machine(log):
    state = full(log).state()
    restored = StateMachine()
    restored.apply(encode_entry(9000, 0, [encode_proposal("n9", 1, 1, 1, [CLAIM])]))
    restored.restore(state)
    assert restored.state() == state
    assert restored.digest() == log.machine.digest()
    assert (restored.now_ms, restored.wall_ms) == (1000, 1_700_000_000_000)
    entry = encode_entry(31_000, 0, [encode_proposal("n1", 7, 2, 2, [["DBSIZE", 0], CLAIM])])
    assert restored.apply(entry) == log.machine.apply(entry)
    assert restored.state() == log.machine.state()


def test_a_damaged_snapshot_changes_nothing(log):
    state = full(log).state()
    head, end = state[0], state[-1]
    for damaged in (
        [],
        [b"", *state[1:]],
        state[:-1],
        [*state, end],
        [head, end],
        [head, *state],
        [*state[:2], state[1], *state[2:]],
        [head[:-1], *state[1:]],
        [*state[:-1], state[-1] + b"\x00"],
    ):
        with pytest.raises(Unreadable):
            log.machine.restore(damaged)
    assert log.machine.state() == state


def test_a_later_snapshot_format_is_named(log):
    with pytest.raises(Unreadable, match="format 99"):
        log.machine.restore([msgpack.packb(["head", 99, "whatever"])])


def test_a_large_state_comes_in_many_blocks(log):
    for number in range(1300):
        log.apply(1000, ["SET", 3, b"key-%d" % number, b"v", None, False, None])
    state = log.machine.state()
    assert len(state) == 2 + 3 + 3  # keys, and their changes
    restored = StateMachine()
    restored.restore(state)
    assert restored.state() == state


def test_boots_are_forgotten_by_machine_time_alone(log):
    for boot in (1, 2):
        log.machine.apply(encode_entry(boot, 0, [encode_proposal("n1", boot, 1, 1, [])]))
    log.tick(FORGET_AFTER_MS + 60_000)
    assert len(log.machine.origins) == 1
