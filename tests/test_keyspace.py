"""The keyspace against a model that is too simple to be wrong, and its bounds."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from goblin_raft.keyspace import REBUILD_SLACK, Keyspace
from goblin_raft.values import Hash, SortedSet

KEYS = [b"a", b"b", b"c", b"d"]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "stay", "deadline", "persist", "delete", "remove", "ask"]),
        st.sampled_from(KEYS),
        st.integers(0, 60),
    ),
    max_size=80,
)


def expected_removals(values, deadlines, now_ms, keys_max):
    over = sorted((deadline, key) for key, deadline in deadlines.items() if deadline <= now_ms)
    return [key for _, key in over[:keys_max]]


@given(STEPS)
@settings(max_examples=300)
def test_behaves_like_two_dicts(steps):
    keyspace, values, deadlines, now_ms = Keyspace(), {}, {}, 0
    for number, (step, key, ms) in enumerate(steps):
        value = b"%d" % number
        if step == "put":
            keyspace.put(key, value, now_ms + ms)
            values[key], deadlines[key] = value, now_ms + ms
        elif step == "stay":
            keyspace.put(key, value)
            values[key] = value
            deadlines.pop(key, None)
        elif step == "deadline" and key in values:
            keyspace.set_deadline(key, now_ms + ms)
            deadlines[key] = now_ms + ms
        elif step == "persist" and key in values:
            assert keyspace.clear_deadline(key) == (key in deadlines)
            deadlines.pop(key, None)
        elif step == "delete" and key in values:
            keyspace.delete(key)
            del values[key]
            deadlines.pop(key, None)
        elif step == "remove":
            now_ms += ms
            gone = expected_removals(values, deadlines, now_ms, ms % 3)
            assert keyspace.remove_expired(now_ms, ms % 3) == len(gone)
            for each in gone:
                del values[each], deadlines[each]
        elif step == "ask":  # which also tidies up, so not after every step
            assert keyspace.next_deadline_ms() == min(deadlines.values(), default=None)
        assert keyspace.values == values
        assert keyspace.deadlines == deadlines
        assert sorted(keyspace.index.page(0, 100)[1]) == sorted(values)


def test_a_key_is_over_at_its_deadline_and_not_before():
    keyspace = Keyspace()
    keyspace.put(b"k", b"v", 1000)
    assert keyspace.get(b"k", 999) == b"v"
    assert keyspace.get(b"k", 1000) is None
    assert len(keyspace) == 1  # reading removes nothing


def test_what_is_removed_depends_on_the_keys_and_not_on_how_they_came_about():
    """One keyspace has a long history of renewals and deletions, the other has none."""
    old, new = Keyspace(), Keyspace()
    for key in KEYS:
        for deadline_ms in (5, 500, 50, 10):
            old.put(key, b"v", deadline_ms)
            old.put(key, b"v")
            old.put(key, b"v", deadline_ms)
        old.delete(key)
        old.put(key, b"v", 10)
        new.put(key, b"v", 10)
    for _ in range(2):
        assert old.remove_expired(10, 2) == new.remove_expired(10, 2) == 2
        assert old.values == new.values  # ties go by key
    assert old.remove_expired(10, 2) == 0


def test_renewals_cost_no_memory():
    keyspace = Keyspace()
    keyspace.put(b"k", b"v", 1000)
    for ms in range(1000, 50_000):
        keyspace.set_deadline(b"k", ms + 1)
    assert keyspace._schedule.size == 1
    assert keyspace.next_deadline_ms() == 50_000


def test_claims_that_are_released_leave_nothing_behind():
    keyspace = Keyspace()
    for number in range(20_000):
        keyspace.put(b"%d" % (number % 7), b"v", 30_000 + number)
        keyspace.delete(b"%d" % (number % 7))
    assert keyspace._schedule.size <= REBUILD_SLACK + 2
    assert keyspace.next_deadline_ms() is None


def test_items_are_canonical():
    one, other = Keyspace(), Keyspace()
    one.put(b"h", Hash({b"a": b"1", b"b": b"2"}), 5)
    one.put(b"z", SortedSet({b"m": 1.5, b"n": float("inf")}))
    one.put(b"s", b"v")
    other.put(b"s", b"v")
    other.put(b"gone", b"v", 3)
    other.put(b"z", SortedSet({b"m": 1.5, b"n": float("inf")}))
    other.put(b"h", Hash({b"a": b"1", b"b": b"2"}), 5)
    other.delete(b"gone")
    assert list(one.items()) == list(other.items())
    copy = Keyspace()
    copy.load(list(one.items()))
    assert (copy.values, copy.deadlines) == (one.values, one.deadlines)
    assert type(copy.values[b"h"]) is Hash
    assert copy.next_deadline_ms() == 5


def test_a_name_that_becomes_due_among_names_that_are_being_removed_keeps_the_order():
    keyspace = Keyspace()
    for key in (b"d", b"b", b"e", b"c"):
        keyspace.put(key, b"v", 10)
    assert keyspace.remove_expired(10, 1) == 1
    assert sorted(keyspace.values) == [b"c", b"d", b"e"]
    keyspace.put(b"a", b"v", 10)
    gone: list[bytes] = []
    assert keyspace.remove_expired(10, 9, gone) == 4
    assert gone == [b"a", b"c", b"d", b"e"]
    assert keyspace._schedule.size == 0
