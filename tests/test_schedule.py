"""What is due and in which order, against a sorted list."""

from __future__ import annotations

from heapq import heappop

from hypothesis import given
from hypothesis import strategies as st

from goblin_raft.schedule import Schedule

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "take", "next", "drop"]),
        st.integers(0, 5),
        st.sampled_from([b"a", b"b", b"c"]),
    ),
    max_size=60,
)


@given(STEPS)
def test_names_come_in_order_of_time_and_then_of_name(steps):
    schedule, entries = Schedule(), []
    for step, ms, name in steps:
        if step == "add":
            schedule.add(ms, name)
            entries.append((ms, name))
        elif step == "take":
            due = schedule.due(ms)
            assert (due is not None) == any(each <= ms for each, _ in entries)
            if due is not None:
                first = min(entries)
                assert (due[0], heappop(due[1])) == first
                schedule.size -= 1
                entries.remove(first)
        elif entries:
            shown = schedule.next()
            assert shown in entries
            assert shown[0] == min(entries)[0]
            if step == "drop":
                schedule.drop_next()
                entries.remove(shown)
        else:
            assert schedule.next() is None
        assert schedule.size == len(entries)


def test_it_begins_with_what_it_is_given():
    schedule = Schedule([(2, b"b"), (1, b"a")])
    assert schedule.size == 2
    assert schedule.next() == (1, b"a")
