"""Patterns: the table, and random ones against a matcher that tries everything."""

from __future__ import annotations

import random
import time

import pytest

from goblin_raft.glob import matcher


@pytest.mark.parametrize(
    "pattern, text, fits",
    [
        (b"", b"", True),
        (b"", b"a", False),
        (b"*", b"", True),
        (b"*", b"a\n\xff\0", True),
        (b"?", b"\n", True),
        (b"?", b"", False),
        (b"h?llo", b"hello", True),
        (b"h*llo", b"heeeello", True),
        (b"h*llo", b"hllo", True),
        (b"h[ae]llo", b"hallo", True),
        (b"h[ae]llo", b"hillo", False),
        (b"h[^e]llo", b"hallo", True),
        (b"h[^e]llo", b"hello", False),
        (b"h[a-b]llo", b"hbllo", True),
        (b"h[b-a]llo", b"hbllo", True),
        (b"a\\*b", b"a*b", True),
        (b"a\\*b", b"axb", False),
        (b"a\\", b"a\\", True),
        (b"[\\]]", b"]", True),
        (b"[]", b"", False),
        (b"[]", b"x", False),
        (b"[^]", b"x", True),
        (b"[abc", b"b", True),
        (b"[a-]", b"-", False),
        (b"[a", b"a", True),
        (b"*a*b*", b"xaxbx", True),
        (b"*a*b*", b"xbxax", False),
        (b"*ab", b"aab", True),
        (b"a.c", b"abc", False),
        (b"(a|b)+", b"(a|b)+", True),
        (b"\xff?", b"\xff\xfe", True),
    ],
)
def test_table(pattern, text, fits):
    assert matcher(pattern)(text) is fits


def tries_everything(pattern: bytes, text: bytes) -> bool:
    if not pattern:
        return not text
    if pattern[:1] == b"*":
        return any(tries_everything(pattern[1:], text[at:]) for at in range(len(text) + 1))
    return (
        bool(text) and pattern[:1] in (b"?", text[:1]) and tries_everything(pattern[1:], text[1:])
    )


def test_random_patterns():
    rng = random.Random(4)
    for _ in range(3000):
        pattern = bytes(rng.choice(b"ab*?") for _ in range(rng.randrange(7)))
        text = bytes(rng.choice(b"ab") for _ in range(rng.randrange(8)))
        assert matcher(pattern)(text) is tries_everything(pattern, text), (pattern, text)


def test_random_patterns_mean_the_same_to_redis(redis):
    rng = random.Random(5)
    for _ in range(600):
        pattern = bytes(rng.choice(b"abc-]^*?[\\[") for _ in range(rng.randrange(1, 9)))
        text = bytes(rng.choice(b"abc-]^[\\") for _ in range(rng.randrange(1, 5)))
        redis.ask(b"FLUSHALL")
        redis.ask(b"SET", text, b"v")
        fits = redis.ask(b"KEYS", pattern) != "(empty array)"
        assert matcher(pattern)(text) is fits, (pattern, text)


def test_many_stars_do_not_take_for_ever():
    pattern = b"*a" * 50 + b"b"
    began = time.perf_counter()
    assert not matcher(pattern)(b"a" * 5000)
    assert time.perf_counter() - began < 1
