"""INCRBYFLOAT's arithmetic, against the processor's own where there is a redis-server."""

from __future__ import annotations

import random

import pytest

from goblin_raft.long_double import CHARS_MAX, add, format_long_double, parse_long_double


def total(one: bytes, other: bytes) -> bytes | None:
    first, second = parse_long_double(one), parse_long_double(other)
    if first is None or second is None:
        return b"not a number"
    found = add(first, second)
    return None if found is None else format_long_double(found)


@pytest.mark.parametrize(
    "one, other, expected",
    [
        (b"0.1", b"0.2", b"0.3"),
        (b"10.50", b"0.1", b"10.6"),
        (b"5.0e3", b"200", b"5200"),
        (b"3.0", b"-3", b"0"),
        (b"-0", b"-0", b"0"),
        (b"0x1p4", b".5", b"16.5"),
        (b"1e-17", b"0", b"0.00000000000000001"),
        (b"-1e-18", b"0", b"0"),
        (b"9007199254740993", b"0.5", b"9007199254740993.5"),
        (b"18446744073709551616", b"1", b"18446744073709551616"),
        (b"inf", b"1", None),
        (b"inf", b"-inf", None),
        (b"1e4932", b"1e4932", None),
        (b"nan", b"1", b"not a number"),
        (b"", b"1", b"not a number"),
        (b" 1", b"1", b"not a number"),
        (b"1 ", b"1", b"not a number"),
        (b".", b"1", b"not a number"),
        (b"e5", b"1", b"not a number"),
        (b"0x", b"1", b"not a number"),
        (b"1e5000", b"1", b"not a number"),
        (b"1e-5000", b"1", b"not a number"),
        (b"0e99999999999999999999", b"1", b"1"),
        (b"1e99999999999999999999", b"1", b"not a number"),
        (b"1" * (CHARS_MAX + 1), b"1", b"not a number"),
    ],
)
def test_table(one, other, expected):
    assert total(one, other) == expected


def test_the_largest_number_can_be_written():
    assert len(total(b"1.1e4932", b"0")) == 4933


def word(rng: random.Random) -> bytes:
    digits = str(rng.randrange(10 ** rng.randrange(1, 25)))
    point = rng.randrange(len(digits) + 1)
    text = rng.choice(["", "-", "+"]) + digits[:point] + rng.choice([".", ""]) + digits[point:]
    if rng.random() < 0.3:
        text += f"e{rng.randrange(-40, 40)}"
    return text.encode()


def test_random_sums_are_those_of_redis(redis):
    rng = random.Random(6)
    for _ in range(500):
        one, other = word(rng), word(rng)
        redis.ask(b"SET", b"k", one)
        there = redis.ask(b"INCRBYFLOAT", b"k", other)
        here = total(one, other)
        assert here is not None
        shown = "(error) ERR value is not a valid float" if here == b"not a number" else None
        assert (shown or f'"{here.decode()}"') == there, (one, other)
