"""WATCH's invariant: what was changed is noticed, on every replica alike, whenever it is asked."""

from __future__ import annotations

import random

import pytest

from goblin_raft import state_machine
from goblin_raft.arguments import Argument, Option, Optional, Options, Repeated
from goblin_raft.changes import Watch
from goblin_raft.commands import TABLE
from goblin_raft.reply import OK
from goblin_raft.spec import Verb
from goblin_raft.state_machine import StateMachine
from goblin_raft.tails import NumberedKeys, OptionsFirst
from tests.conftest import MemoryNode
from tests.test_state_machine import Log

SET = ["SET", 0, b"k", b"v", None, False, None]
OTHER = ["SET", 0, b"other", b"v", None, False, None]


def noted(machine: StateMachine, *keys: bytes, db: int = 0) -> Watch:
    watch = Watch()
    machine.watch(watch, db, list(keys))
    return watch


def execute(watch: Watch, *commands: list) -> list:
    return ["EXEC", 0, watch.keys(), list(commands)]


@pytest.fixture
def log() -> Log:
    return Log()


def test_a_change_before_it_in_the_same_entry_counts(log):
    watch = noted(log.machine, b"k")
    assert log.apply(1000, SET, execute(watch, OTHER)) == [OK, None]
    assert b"other" not in log.machine.keyspaces[0].values


def test_a_change_after_it_was_proposed_counts_and_what_it_changes_itself_does_not(log):
    watch = noted(log.machine, b"k")
    proposed = execute(watch, SET, ["GET", 0, b"k"])
    assert log.apply(1000, OTHER, proposed) == [OK, [OK, b"v"]]
    assert log.apply(1000, proposed) == [None]


def test_a_failure_of_one_command_does_not_undo_the_others(log):
    watch = noted(log.machine, b"k")
    log.apply(1000, ["HSET", 0, b"h", [b"f", b"v"]])
    replies = log.apply(1000, execute(watch, ["GET", 0, b"h"], SET))
    assert [type(reply).__name__ for reply in replies[0]] == ["Failure", "Status"]


@pytest.mark.parametrize("restored", [False, True])
def test_generations_are_replicated_and_an_old_watch_is_told_that_it_changed(
    log, monkeypatch, restored
):
    monkeypatch.setattr(state_machine, "HISTORY_BYTES", 1000)
    log.apply(1000, SET)
    old = execute(noted(log.machine, b"quiet"), OTHER)
    watches = [noted(log.machine, b"quiet"), noted(log.machine, b"k")]
    while len(old[2]) and not log.machine.keyspaces[0].known_since > old[2][0][2]:
        log.apply(1000, OTHER)
    log.apply(1000, SET)
    fresh = execute(noted(log.machine, b"k"), OTHER)
    if restored:
        state, log.machine = log.machine.state(), StateMachine()
        log.machine.restore(state)
        assert log.machine.state() == state
    else:
        assert not log.machine.has_changed(watches[0])  # the node has renewed it
        assert log.machine.has_changed(watches[1])
    assert log.apply(1000, old, fresh, execute(watches[0], OTHER)) == [None, [OK], [OK]]


def test_the_generation_before_the_present_one_still_counts(log):
    proposed = execute(noted(log.machine, b"k"), OTHER)
    log.apply(1000, SET)
    log.machine._next_generation()
    assert log.machine.keyspaces[0].changed == {}
    assert log.apply(1000, proposed) == [None]


def test_a_watch_across_the_installation_of_a_snapshot(log):
    """The follower that watches was far behind; what it did not apply itself still counts."""
    follower = StateMachine()
    follower.restore(log.machine.state())
    quiet, changed = noted(follower, b"quiet"), noted(follower, b"k")
    log.apply(1000, SET)
    follower.restore(log.machine.state())
    assert not follower.has_changed(quiet)
    assert follower.has_changed(changed)


def test_clearing_changes_what_was_there_and_not_what_was_not(log):
    log.apply(1000, SET)
    there, absent = noted(log.machine, b"k"), noted(log.machine, b"quiet")
    log.apply(1000, ["FLUSHALL", 0, None])
    assert log.machine.has_changed(there)
    assert not log.machine.has_changed(absent)


def test_databases_that_change_places_change_all_keys(log):
    watch = noted(log.machine, b"quiet")
    log.machine.keyspaces[0].touch_all()
    assert not log.machine.has_changed(watch)  # noted within the same entry: nothing came after
    log.apply(1000, OTHER)
    log.machine.keyspaces[0].touch_all()
    assert log.machine.has_changed(watch)


def test_a_deadline_decides_and_not_when_the_key_is_removed(log, monkeypatch):
    monkeypatch.setattr(state_machine, "REMOVALS_PER_ENTRY", 0)
    monkeypatch.setattr(state_machine, "REMOVALS_PER_COMMAND", 0)
    log.apply(1000, ["SET", 0, b"k", b"v", None, False, ["PX", 500]])
    watch = noted(log.machine, b"k")
    proposed = execute(watch, OTHER)
    log.tick(1499)
    assert not log.machine.has_changed(watch)
    assert log.apply(1500, proposed) == [None]
    assert b"k" in log.machine.keyspaces[0].values
    over = noted(log.machine, b"k")
    monkeypatch.setattr(state_machine, "REMOVALS_PER_ENTRY", 9)
    log.tick(2000)
    assert b"k" not in log.machine.keyspaces[0].values
    assert not log.machine.has_changed(over)


def words_of(rng: random.Random, command) -> list[bytes]:
    """A request, mostly a good one, on a few keys."""

    def word(argument: Argument) -> bytes:
        if argument.is_key:
            return b"k%d" % rng.randrange(6)
        if argument.kind in ("integer", "double", "unix-time"):
            return rng.choice([b"1", b"2", b"-1", b"0", b"9999999"])
        return rng.choice([b"a", b"b", b"1"])

    words = command.name.encode().split()
    for part in command.parts:
        if isinstance(part, Argument):
            words.append(word(part))
        elif isinstance(part, Optional) and rng.random() < 0.5:
            words.append(word(part.argument))
        elif isinstance(part, Repeated):
            words += [word(each) for _ in range(rng.randrange(1, 3)) for each in part.members]
        elif isinstance(part, Options):
            for member in part.members:
                option = member if isinstance(member, Option) else rng.choice(member.members)
                if rng.random() < 0.3:
                    words.append(option.token.encode())
                    words += [word(argument) for argument in option.arguments]
        elif isinstance(part, OptionsFirst):
            tokens = [option.token.encode() for option in part.options.members]
            words += rng.sample(tokens, rng.choice([0, 0, 1]))
            words += [word(each) for each in part.groups.members]
        elif isinstance(part, NumberedKeys):
            words += [b"2", b"k%d" % rng.randrange(6), b"k%d" % rng.randrange(6)]
    return words


@pytest.mark.parametrize("seed", range(6))
def test_every_change_by_every_command_is_noticed(seed):
    """Of all write commands there are, whatever they do: a key that differs was touched."""
    rng = random.Random(seed)
    node = MemoryNode()
    writes = [each for each in TABLE.values() if each.verb is Verb.WRITE and not each.subcommands]
    noticed = set()
    for _ in range(3000):
        before = [state_of(space) for space in node.machine.keyspaces]
        now_ms = node.machine.now_ms
        command = rng.choice(writes)
        watches = [
            [noted(node.machine, key, db=db) for key in [b"k%d" % n for n in range(6)]]
            for db in range(2)
        ]
        node.call(b"SELECT", rng.randrange(2))
        node.call(*words_of(rng, command))
        assert node.machine.now_ms == now_ms or not now_ms  # time stands still: nothing expires
        for db, space in enumerate(node.machine.keyspaces[:2]):
            after = state_of(space)
            for number, watch in enumerate(watches[db]):
                key = b"k%d" % number
                if before[db].get(key) != after.get(key):
                    assert node.machine.has_changed(watch), command.name
                    noticed.add(command.name)
    assert {"SET", "DEL", "HSET", "ZADD", "FLUSHALL", "INCRBY", "SWAPDB"} <= noticed


def state_of(space) -> dict:
    return {item[0]: item[1:] for item in space.items()}
