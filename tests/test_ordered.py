"""The row of a sorted set against a sorted list, over pieces and over their edges."""

from __future__ import annotations

import random
from bisect import bisect_left

import pytest

from goblin_raft.ordered import AFTER, PIECE_ITEMS_MAX, Ordered


def item(number: int) -> tuple[float, bytes]:
    return float(number % 7), b"%d" % number


@pytest.mark.parametrize("size", [0, 1, 50, PIECE_ITEMS_MAX, 5000])
def test_slices_and_positions_are_those_of_a_list(size):
    items = [item(number) for number in range(size)]
    row, expected = Ordered(items), sorted(items)
    assert len(row) == size
    rng = random.Random(size)
    for _ in range(60):
        start, stop = (rng.randrange(-2, size + 3) for _ in range(2))
        part = expected[max(0, start) : max(0, stop)]
        assert list(row.slice(start, stop)) == part
        assert list(row.slice_back(start, stop)) == part[::-1]
    for bound in [(-1.0,), (3.0,), (3.0, b"1"), (3.0, b"10", 0), (9.0,), *items[:20]]:
        assert row.position(bound) == bisect_left(expected, bound)
    for number in (-1.0, 2.0, 9.0):
        assert row.position((number, AFTER)) == sum(score <= number for score, _ in items)


def test_a_random_history():
    rng = random.Random(3)
    row, expected = Ordered(), set()
    for step in range(30_000):
        one = item(rng.randrange(6000))
        if one in expected:
            expected.remove(one)
            row.remove(one)
        else:
            expected.add(one)
            row.add(one)
        if step % 3000 == 0:
            start = rng.randrange(len(expected) + 1)
            stop = min(len(expected), start + rng.randrange(2000))
            gone = sorted(expected)[start:stop]
            assert row.remove_slice(start, stop) == gone
            expected -= set(gone)
            assert list(row.slice(0, len(expected))) == sorted(expected)
    pieces = row._pieces
    assert all(0 < len(piece) <= PIECE_ITEMS_MAX for piece in pieces)


def test_nothing_is_left_after_everything_was_removed():
    row = Ordered(item(number) for number in range(3000))
    assert len(row.remove_slice(0, 3000)) == 3000
    assert (len(row), row.position((AFTER,)), list(row.slice(0, 9))) == (0, 0, [])
    row.add(item(1))
    assert list(row.slice(0, 9)) == [item(1)]
    row.remove(item(1))
    assert len(row) == 0
