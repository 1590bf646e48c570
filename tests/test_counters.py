"""What a node counts: calls and times by command, the slow log, rates."""

from __future__ import annotations

from goblin_raft.counters import CommandCount, CommandStats, Rates, SlowLog
from goblin_raft.reply import OK, Failure


def test_commands_that_are_served_together_wait_equally_long():
    stats = CommandStats()
    stats.record([["GET", 0, b"k"], ["SET", 0], ["GET", 0]], 5, [None, OK, b"v"])
    stats.record([["GET", 0]], 7, [Failure("ERR no")])
    stats.record([["SET", 0], ["GET", 0]], 1, [Failure("ERR no"), None])
    assert stats == {
        "GET": CommandCount(calls=4, took_us=18, failed=1),
        "SET": CommandCount(calls=2, took_us=6, failed=1),
    }


def test_the_slow_log_keeps_the_newest_and_numbers_go_on():
    log = SlowLog()
    log.length_max = 2
    for number in range(3):
        log.add(0, number, [b"GET"], 0, "", b"")
    assert [(entry.id, entry.took_us) for entry in log.entries] == [(2, 2), (1, 1)]
    log.length_max = 1
    assert [entry.id for entry in log.entries] == [2]
    log.length_max = 5
    log.add(0, 9, [b"GET"], 0, "", b"")
    assert [entry.id for entry in log.entries] == [3, 2]


def test_rates_are_of_the_last_interval_and_survive_a_reset():
    rates = Rates()
    rates.sample(0.0, 0, 100)
    assert rates.per_second == ()
    rates.sample(2.0, 10, 100)
    assert rates.per_second == (5.0, 0.0)
    rates.sample(3.0, 4, 150)
    assert rates.per_second == (0.0, 50.0)
