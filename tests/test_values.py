"""Hashes and sorted sets keep what makes them fast in step, and go into snapshots in portions."""

from __future__ import annotations

import random

from goblin_raft.keyspace import Keyspace
from goblin_raft.machine_state import BLOCK_BYTES
from goblin_raft.state_machine import StateMachine
from goblin_raft.values import (
    PORTION_NAMES,
    UNINDEXED_MAX,
    Hash,
    SortedSet,
    copy_value,
)


def scanned(value: Hash | SortedSet) -> list[bytes]:
    cursor, found = value.page(0, 10)
    while cursor:
        cursor, names = value.page(cursor, 10)
        found = found + names
    return found


def test_a_random_history_of_a_sorted_set():
    rng = random.Random(1)
    members, expected = SortedSet(), {}
    for step in range(20_000):
        name, score = b"%d" % rng.randrange(400), rng.choice([0.0, 1.5, -3.0, float("inf")])
        if rng.random() < 0.6:
            members.set(name, score)
            expected[name] = score
        elif rng.random() < 0.99:
            assert members.remove(name) == (expected.pop(name, None) is not None)
        else:
            gone = sorted((score, name) for name, score in expected.items())[3:9]
            assert members.remove_slice(3, 9) == len(gone)
            for _, name in gone:
                del expected[name]
        if step % 500 == 0:
            row = sorted((score, name) for name, score in expected.items())
            assert list(members.order.slice(0, len(row))) == row
            assert sorted(scanned(members)) == sorted(expected)
    assert members == expected


def test_most_of_a_sorted_set_is_removed_at_once():
    for kept in (0, 3, 900, 1700):
        members = SortedSet((b"%d" % number, float(number)) for number in range(2000))
        assert members.remove_slice(kept, 2000) == 2000 - kept
        assert sorted(scanned(members)) == sorted(b"%d" % number for number in range(kept))
        members.set(b"new", 1.0)
        assert b"new" in scanned(members)


def test_a_random_history_of_a_hash():
    rng = random.Random(2)
    fields, expected = Hash(), {}
    for step in range(20_000):
        name = b"%d" % rng.randrange(400)
        if rng.random() < 0.55:
            assert fields.set(name, b"%d" % step) == (name not in expected)
            expected[name] = b"%d" % step
        else:
            assert fields.remove(name) == (expected.pop(name, None) is not None)
        if step % 500 == 0:
            assert sorted(scanned(fields)) == sorted(expected)
    assert fields == expected


def test_a_small_one_is_one_page_and_a_large_one_is_not():
    fields = Hash((b"%d" % number, b"v") for number in range(UNINDEXED_MAX))
    assert fields.page(0, 1)[0] == 0
    fields.set(b"one more", b"v")
    cursor, names = fields.page(0, 1)
    assert cursor
    assert len(names) == 1


def test_a_copy_of_a_large_one_is_its_own():
    for old in (
        Hash((b"%d" % number, b"v") for number in range(3000)),
        SortedSet((b"%d" % number, float(number)) for number in range(3000)),
    ):
        new = copy_value(old)
        assert type(new) is type(old)
        assert (new, list(new)) == (old, list(old))
        for number in range(1, 3000):
            assert old.remove(b"%d" % number)
        assert sorted(scanned(new)) == sorted(new)
        assert len(scanned(new)) == 3000
        assert scanned(old) == [b"0"]
        if isinstance(new, SortedSet):
            assert list(new.order.slice(2998, 9999)) == [(2998.0, b"2998"), (2999.0, b"2999")]
            assert list(old.order.slice(0, 9)) == [(0.0, b"0")]


def test_a_copy_is_its_own():
    for value in (Hash({b"a": b"1"}), SortedSet({b"a": 1.0})):
        copy = copy_value(value)
        assert type(copy) is type(value)
        value.remove(b"a")
        assert list(copy) == [b"a"]


def test_a_large_value_goes_through_a_snapshot_in_portions():
    count = 3 * PORTION_NAMES + 1
    old = Keyspace()
    old.put(b"h", Hash((b"%d" % number, b"v") for number in range(count)), 9)
    old.put(b"z", SortedSet((b"%d" % number, float(number)) for number in range(count)))
    old.put(b"large", Hash((b"%d" % number, b"v" * 100_000) for number in range(7)))
    items = list(old.items())
    assert [key for key, *_ in items] == [b"h"] * 4 + [b"large"] * 3 + [b"z"] * 4
    new = Keyspace()
    new.load(items[:2])
    new.load(items[2:])
    assert (new.values, new.deadlines) == (old.values, old.deadlines)
    assert list(new.items()) == items
    assert list(new.values[b"z"].order.slice(0, 3)) == [(0.0, b"0"), (1.0, b"1"), (2.0, b"2")]
    assert sorted(scanned(new.values[b"h"])) == sorted(old.values[b"h"])


def test_the_order_of_names_goes_through_a_snapshot():
    old = Keyspace()
    fields, members = Hash(), SortedSet()
    for name in (b"c", b"a", b"b", b"d"):
        fields.set(name, b"v")
        members.set(name, 1.0)
    fields.remove(b"a")
    fields.set(b"a", b"again")
    old.put(b"h", fields)
    old.put(b"z", members)
    new = Keyspace()
    new.load(list(old.items()))
    assert list(new.values[b"h"]) == [b"c", b"b", b"d", b"a"]
    assert list(new.values[b"z"]) == [b"c", b"a", b"b", b"d"]
    assert list(copy_value(new.values[b"h"])) == [b"c", b"b", b"d", b"a"]


def test_blocks_of_a_snapshot_are_bounded_also_with_large_hashes():
    machine = StateMachine()
    for number in range(20):
        fields = Hash((b"%d" % each, b"v" * 50_000) for each in range(20))
        machine.keyspaces[3].put(b"%d" % number, fields)
    blocks = machine.state()
    assert max(map(len, blocks)) < 2 * BLOCK_BYTES + 100_000
    copy = StateMachine()
    copy.restore(blocks)
    assert copy.state() == blocks
    assert copy.keyspaces[3].values == machine.keyspaces[3].values
