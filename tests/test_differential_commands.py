"""All data commands, at random, here and on a real redis-server: reply by reply, in both protocols.

Requests are made of the patterns below, mostly good ones; keys are few, so that types collide.
Commands that Redis 7.0 does not have are compared with a script that says what they should do.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from io import BytesIO
from typing import Any

import pytest

from goblin_raft.resp import encode
from tests.conftest import Connection, MemoryNode

# ---- requests -----------------------------------------------------------------------------------

BAD_INTEGERS = [b"x", b"1.5", b"", b" 1", b"01", b"9223372036854775808"]
NUMBERS = [b"0", b"1", b"-1", b"3", b"10.5", b"0.1", b"-0.3", b"1e3", b"3.00", b"1e-10"]
TEXTS = [b"", b"a", b"text", b"0", b"7", b"-12", b"1.5", b"3.0e2", b"x\r\n\0y", b"long " * 12]
DAY = 86_400


def often(rng: random.Random, usual: Callable[[], bytes], seldom: list[bytes]) -> bytes:
    return rng.choice(seldom) if rng.random() < 0.04 else usual()


def integer(rng: random.Random) -> bytes:
    return often(rng, lambda: b"%d" % rng.randrange(-6, 12), BAD_INTEGERS)


def amount(rng: random.Random) -> bytes:
    extremes = [b"9223372036854775807", b"-9223372036854775808", b"9223372036854775806"]
    return often(rng, lambda: integer(rng), extremes)


def days(rng: random.Random, unit: int, start_s: int = 0) -> bytes:
    """Far away, and never twice the same, so that it makes no difference which comes first."""
    usual = b"%d" % ((start_s + rng.randrange(1, 10**6) * DAY) * unit)
    return often(rng, lambda: usual, [b"0", b"-5", b"x", b"9223372036854775807"])


def now_s() -> int:
    return int(time.time())


# What a letter in a pattern stands for. `?` before a group: now and then; `|`: one of them.
WORDS: dict[str, Callable[[random.Random], bytes]] = {
    "K": lambda rng: b"k%d" % rng.randrange(7),
    "Z": lambda rng: rng.choice([b"z0", b"z1", b"z2", b"z2", b"k1"]),
    "H": lambda rng: rng.choice([b"h0", b"h1", b"k2"]),
    "V": lambda rng: rng.choice(TEXTS),
    "I": integer,
    "N": amount,
    "F": lambda rng: often(
        rng, lambda: rng.choice(NUMBERS), [b"x", b"", b"inf", b"nan", b"1e5000"]
    ),
    "f": lambda rng: b"f%d" % rng.randrange(5),
    "m": lambda rng: b"m%d" % rng.randrange(6),
    "S": lambda rng: often(
        rng, lambda: rng.choice(NUMBERS), [b"inf", b"-inf", b"x", b"nan", b"1e400"]
    ),
    "B": lambda rng: often(
        rng,
        lambda: rng.choice([b"", b"("]) + rng.choice([*NUMBERS, b"-inf", b"+inf"]),
        [b"x", b"", b"(", b"nan", b" 1", b"1e400"],
    ),
    "L": lambda rng: often(
        rng, lambda: rng.choice([b"-", b"+", b"[m2", b"(m2", b"[m4", b"(m4", b"["]), [b"m", b""]
    ),
    "s": lambda rng: days(rng, 1),
    "p": lambda rng: days(rng, 1000),
    "a": lambda rng: days(rng, 1, now_s()),
    "q": lambda rng: days(rng, 1000, now_s()),
    "o": lambda rng: often(rng, lambda: b"%d" % rng.randrange(0, 30), [b"-1", b"x"]),
    "c": lambda rng: often(rng, lambda: b"%d" % rng.randrange(0, 5), [b"-1", b"x"]),
    "C": lambda rng: often(rng, lambda: b"0", [b"x", b" 0", b"", b"-", b"+0"]),
    "P": lambda rng: rng.choice([b"*", b"k*", b"?1", b"[km]2", b"f[^1]", b"", b"m*"]),
    "T": lambda rng: rng.choice([b"string", b"hash", b"ZSET", b"list"]),
    "W": lambda rng: often(rng, lambda: rng.choice([b"1", b"2", b"-0.5"]), [b"x", b"inf"]),
}

PATTERNS = """
GET K
SET K V ?(NX|XX) ?GET ?(EX s|PX p|EXAT a|PXAT q|KEEPTTL)
SETNX K V
SETEX K s V
PSETEX K p V
GETSET K V
GETDEL K
GETEX K ?(EX s|PX p|EXAT a|PXAT q|PERSIST)
MGET K H Z
MSET K V K V
MSETNX K V K V
APPEND K V
STRLEN K
GETRANGE K I I
SUBSTR K I I
SETRANGE K o V
INCR K
DECR K
INCRBY K N
DECRBY K N
INCRBYFLOAT K F
DEL K Z
UNLINK K H
EXISTS K K Z
TOUCH K K H
TYPE K
TYPE Z
RENAME K K
RENAME K Z
RENAMENX K K
COPY K K ?REPLACE ?(DB c)
COPY Z Z ?REPLACE
MOVE K c
EXPIRE K s ?(NX|XX|GT|LT|XX GT|XX LT|NX XX|GT LT|FOO)
PEXPIRE K p ?(NX|XX|GT|LT)
EXPIREAT K a ?(NX|XX|GT|LT)
PEXPIREAT Z q ?(NX|XX|GT|LT)
TTL K
PTTL K
EXPIRETIME K
PEXPIRETIME K
PERSIST K
DBSIZE
KEYS P
SCAN C MATCH P COUNT 1000
SCAN C TYPE T COUNT 1000
SCAN 0 COUNT I
RANDOMKEY
SWAPDB c c
OBJECT ENCODING Z
OBJECT FREQ K
HSET H f V f V
HMSET H f V f V
HSETNX H f V
HGET H f
HMGET H f f f
HDEL H f f
HGETALL H
HKEYS H
HVALS H
HLEN H
HEXISTS H f
HSTRLEN H f
HINCRBY H f N
HINCRBYFLOAT H f F
HRANDFIELD H ?(I) ?(WITHVALUES)
HSCAN H C ?(MATCH P) ?(COUNT 100)
ZADD Z S m S m
ZADD Z ?(NX|XX) ?(GT|LT) ?CH ?INCR S m
ZINCRBY Z S m
ZCARD Z
ZSCORE Z m
ZMSCORE Z m m m
ZRANK Z m
ZREVRANK Z m
ZREM Z m m
ZPOPMIN Z ?(c)
ZPOPMAX Z ?(c)
ZRANDMEMBER Z ?(I) ?(WITHSCORES)
ZSCAN Z C ?(MATCH P)
ZCOUNT Z B B
ZRANGE Z I I ?REV ?WITHSCORES
ZRANGE Z B B BYSCORE ?REV ?(LIMIT I I) ?WITHSCORES
ZRANGE Z I I ?(LIMIT I I) ?WITHSCORES
ZREVRANGE Z I I ?WITHSCORES
ZRANGEBYSCORE Z B B ?WITHSCORES ?(LIMIT I I)
ZREVRANGEBYSCORE Z B B ?WITHSCORES ?(LIMIT I I)
ZREMRANGEBYSCORE Z B B
ZREMRANGEBYRANK Z I I
ZRANGESTORE Z Z I I ?REV
ZRANGESTORE Z Z B B BYSCORE ?REV ?(LIMIT I I)
ZADD lex 0 m 0 m
ZREM lex m
ZRANGEBYLEX lex L L ?(LIMIT I I)
ZREVRANGEBYLEX lex L L ?(LIMIT I I)
ZRANGE lex L L BYLEX ?REV ?(LIMIT I I) ?WITHSCORES
ZLEXCOUNT lex L L
ZREMRANGEBYLEX lex L L
ZUNION 2 Z Z ?(WEIGHTS W W) ?(AGGREGATE SUM|AGGREGATE MIN|AGGREGATE MAX|AGGREGATE X) ?WITHSCORES
ZINTER 2 Z Z ?(WEIGHTS W W) ?(AGGREGATE SUM|AGGREGATE MIN|AGGREGATE MAX) ?WITHSCORES
ZDIFF 2 Z Z ?WITHSCORES
ZINTERCARD 2 Z Z ?(LIMIT c)
ZUNIONSTORE Z 2 Z Z ?(WEIGHTS W W) ?(AGGREGATE MAX|AGGREGATE MIN)
ZINTERSTORE Z 2 Z Z ?(WEIGHTS W W)
ZDIFFSTORE Z 2 Z Z
ZUNION I Z Z
""".strip().split("\n")
# Now and then, so that databases do not fill up.
RARE = ["FLUSHDB ?(ASYNC|SYNC|FOO)", "SELECT c", "FLUSHALL"]


def make(rng: random.Random, pattern: str, *, faults: float = 0.02) -> list[bytes]:
    """One request of a pattern; now and then with a word too many, too few, or an unknown one."""
    parts: list[str] = []
    depth = 0
    for word in pattern.split():
        if depth:
            parts[-1] += " " + word
        else:
            parts.append(word)
        depth += word.count("(") - word.count(")")
    name, *rest = parts
    words = [name.encode()]
    for part in rest:
        if part.startswith("?"):
            if rng.random() < 0.6:
                continue
            part = rng.choice(part[1:].strip("()").split("|"))
        words += [WORDS[word](rng) if word in WORDS else word.encode() for word in part.split()]
    if rng.random() < faults:
        words = rng.choice([words[:-1], [*words, b"FOO"], [*words, b"1"], words[:1]])
    return words or [name.encode()]


# ---- replies ------------------------------------------------------------------------------------


def read_tree(stream: Any) -> Any:
    """A reply of either protocol: its kind and content."""
    line = stream.readline()
    assert line.endswith(b"\r\n"), line
    kind, rest = line[:1].decode(), line[1:-2]
    if kind in "+-:,#_":
        return kind, rest
    size = int(rest)
    if size < 0:
        return "_", b""
    if kind in "$=":
        return kind, stream.read(size + 2)[:-2]
    return kind, [read_tree(stream) for _ in range(size * (2 if kind == "%" else 1))]


def pairs_of(row: list[Any]) -> list[Any]:
    return list(zip(row[::2], row[1::2], strict=True))


def comparable(words: list[bytes], tree: Any) -> Any:
    """What must be equal: without the order of what has none, and without what is at random."""
    name = words[0]
    kind, content = tree
    if kind == "-":
        return tree
    if name in (b"KEYS", b"HKEYS", b"HVALS"):
        return kind, sorted(content)
    if name == b"HGETALL":
        return kind, sorted(pairs_of(content))
    if name == b"SCAN" and words[-1] != b"1000":
        return kind
    if name == b"SCAN":
        return kind, content[0], sorted(content[1][1])
    if name in (b"HSCAN", b"ZSCAN"):
        return kind, content[0], sorted(pairs_of(content[1][1]))
    if name == b"RANDOMKEY":
        return kind
    if name in (b"HRANDFIELD", b"ZRANDMEMBER"):
        return kind, len(content) if kind == "*" else None
    if name in (b"TTL", b"PTTL", b"EXPIRETIME", b"PEXPIRETIME"):
        unit = 1000 if name.startswith(b"P") else 1
        return kind, round(int(content) / unit / 1000) if int(content) >= 0 else content
    if name == b"OBJECT":  # Redis also remembers how a string came about
        return kind, b"raw" if content in (b"int", b"embstr") else content
    return one_zero(tree) if name.startswith(b"Z") else tree


def one_zero(tree: Any) -> Any:
    """Redis makes a score of -0 0 when it stores it in a small set, and only then."""
    kind, content = tree
    if isinstance(content, list):
        return kind, [one_zero(each) for each in content]
    return kind, b"0" if content == b"-0" else content


def agree(words: list[bytes], here: Any, there: Any) -> bool:
    if comparable(words, here) == comparable(words, there):
        return True
    # What is malformed never reaches the log here, so it is refused whatever the key holds.
    if words[0] in KEY_FIRST or (there[0] == "-" and there[1].startswith(b"WRONGTYPE")):
        return here[0] == "-" and here[1].startswith(b"ERR ")
    # Two things are wrong, and each side says another one first.
    return here[0] == there[0] == "-" and words[0] in SEVERAL_FAULTS


# These look for the key before they read their options.
KEY_FIRST = {b"GETEX", b"HSCAN", b"ZSCAN"}
SEVERAL_FAULTS = {
    *[b"ZADD", b"ZRANGE", b"ZRANGESTORE", b"ZRANGEBYSCORE", b"ZREVRANGEBYSCORE", b"ZRANGEBYLEX"],
    *[b"ZREVRANGEBYLEX", b"ZUNION", b"ZINTER", b"COPY", b"HRANDFIELD", b"ZRANDMEMBER", b"SCAN"],
    *[b"HSCAN", b"ZSCAN", b"EXPIRE", b"ZREVRANGE", b"ZUNIONSTORE", b"ZINTERSTORE"],
}


class Pair:
    """The two that are asked the same."""

    def __init__(self, redis_port: int, protocol: int) -> None:
        self.protocol = protocol
        self.node = MemoryNode()
        self.node.engine._now_ms = self.node.engine._wall_ms = lambda: time.time_ns() // 1_000_000
        self.redis = Connection(redis_port)
        self.post([[b"HELLO", b"%d" % protocol], [b"FLUSHALL"]])

    def post(self, requests: list[list[bytes]]) -> list[Any]:
        for words in requests:
            self.redis.post(*words)
        return [read_tree(self.redis.stream) for _ in requests]

    def here(self, words: list[bytes]) -> Any:
        return read_tree(BytesIO(encode(self.node.call(*words), self.protocol)))


@pytest.fixture(params=[2, 3], ids=["resp2", "resp3"])
def pair(redis_port, request):
    pair = Pair(redis_port, request.param)
    yield pair
    assert pair.node.machine.internal_errors == 0
    pair.redis.close()


@pytest.mark.parametrize("seed", range(3))
def test_every_command_gets_the_same_replies(pair, seed):
    rng = random.Random(seed)
    answered: Counter[str] = Counter()
    for _ in range(30):
        patterns = rng.choices(PATTERNS, k=250) + rng.choices(RARE, k=2)
        rng.shuffle(patterns)
        requests = [make(rng, pattern) for pattern in patterns]
        for words, there in zip(requests, pair.post(requests), strict=True):
            here = pair.here(words)
            assert agree(words, here, there), f"{words}\nhere  {here}\nthere {there}"
            answered[words[0].decode()] += here[0] != "-"
    # Refusals alone would prove little.
    assert all(answered[pattern.split()[0]] for pattern in PATTERNS if "FREQ" not in pattern)


def test_a_large_collection_is_scanned_as_completely(pair):
    for start in range(0, 2000, 100):
        numbers = range(start, start + 100)
        hset = [b"HSET", b"h", *[b"%d" % n for number in numbers for n in (number, -number)]]
        zadd = [b"ZADD", b"z", *[b"%d" % n for number in numbers for n in (number % 9, number)]]
        for words in (hset, zadd):
            assert [pair.here(words)] == pair.post([words])
    for words in ([b"HSCAN", b"h"], [b"ZSCAN", b"z"], [b"HSCAN", b"h", b"MATCH", b"*7*"]):
        found = []
        for call in (pair.here, lambda words: pair.post([words])[0]):
            cursor, rows = b"0", []
            while cursor != b"0" or not rows:
                _, [(_, cursor), (_, row)] = call([*words[:2], cursor, *words[2:], b"COUNT", b"50"])
                rows += pairs_of(row)
                assert len(row) < 1000
            found.append(sorted(rows))
        assert found[0] == found[1]


# ---- commands that Redis 7.0 does not have ------------------------------------------------------

COMPARE = "local v = redis.call('get', KEYS[1]) "
SCRIPTS = {
    "GOBLIN.INCREX": "local n = redis.call('incr', KEYS[1]) "
    "if n == 1 then redis.call('expire', KEYS[1], ARGV[1]) end return n",
    "GOBLIN.INCRBOUND": "local n = tonumber(redis.call('get', KEYS[1]) or '0') "
    "if n + tonumber(ARGV[1]) > tonumber(ARGV[2]) then return -1 end "
    "return redis.call('incrby', KEYS[1], ARGV[1])",
    "GOBLIN.DECRPOS": "local n = tonumber(redis.call('get', KEYS[1]) or '0') "
    "if n > 0 then return redis.call('decr', KEYS[1]) end return -1",
    "GOBLIN.HCAD": "if redis.call('hget', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end "
    "return redis.call('hdel', KEYS[1], ARGV[1])",
    "GOBLIN.HSETGT": "local n = tonumber(redis.call('hget', KEYS[1], ARGV[1]) or '-inf') "
    "if tonumber(ARGV[2]) <= n then return 0 end "
    "redis.call('hset', KEYS[1], ARGV[1], ARGV[2]) return 1",
    "GOBLIN.ZWINDOW": "redis.call('zremrangebyscore', KEYS[1], '-inf', ARGV[1] - ARGV[2]) "
    "if redis.call('zcard', KEYS[1]) >= tonumber(ARGV[3]) then return 0 end "
    "redis.call('zadd', KEYS[1], ARGV[1], ARGV[4]) "
    "redis.call('expire', KEYS[1], ARGV[2]) return 1",
    "SET": COMPARE + "local met = v == ARGV[3] if ARGV[2] == 'IFNE' then met = not met end "
    "if not met then return false end return redis.call('set', KEYS[1], ARGV[1])",
    "DELEX": COMPARE + "if not v then return 0 end local met = v == ARGV[2] "
    "if ARGV[1] == 'IFNE' then met = not met end "
    "if not met then return 0 end return redis.call('del', KEYS[1])",
    "DELIFEQ": COMPARE + "if v ~= ARGV[1] then return 0 end return redis.call('del', KEYS[1])",
}
LIKE_SCRIPTS = """
GOBLIN.INCREX K s
GOBLIN.INCREX Z s
GOBLIN.INCRBOUND K J J
GOBLIN.DECRPOS K
GOBLIN.DECRPOS K
GOBLIN.HCAD H f V
GOBLIN.HCAD H f U
GOBLIN.HSETGT H f U
GOBLIN.ZWINDOW Z U J c m
SET K V IFEQ V
SET K V IFNE V
DELEX K IFEQ V
DELEX K IFNE V
DELIFEQ K V
""".strip().split("\n")
AROUND = """
SET K U
SET K V
HSET H f U
ZADD Z S m
GET K
HGETALL H
ZRANGE Z 0 -1 WITHSCORES
TTL K
TTL Z
DEL K Z
DEL H
EXISTS Z
""".strip().split("\n")


def test_what_redis_has_not_does_what_a_script_would(pair, monkeypatch):
    # Scripts take more for a number than commands do.
    monkeypatch.setitem(WORDS, "V", lambda rng: rng.choice([b"", b"a", b"b", b"7", b"-12"]))
    monkeypatch.setitem(WORDS, "U", lambda rng: b"%d" % rng.randrange(20))
    monkeypatch.setitem(WORDS, "J", lambda rng: b"%d" % rng.randrange(-4, 9))
    monkeypatch.setitem(WORDS, "s", lambda rng: b"%d" % rng.choice([-1, 0, 1000, 10**6]))
    monkeypatch.setitem(WORDS, "S", lambda rng: b"%d" % rng.randrange(20))
    monkeypatch.setitem(WORDS, "c", lambda rng: b"%d" % rng.randrange(4))
    monkeypatch.setitem(WORDS, "Z", lambda rng: rng.choice([b"z0", b"z1", b"k1"]))
    rng = random.Random(9)
    answered: Counter[str] = Counter()
    for _ in range(20):
        requests = [make(rng, rng.choice(LIKE_SCRIPTS + AROUND), faults=0) for _ in range(200)]
        scripted = [scripted_form(words) for words in requests]
        for words, there in zip(requests, pair.post(scripted), strict=True):
            here = pair.here(words)
            if there[0] == "-":
                there = "-", there[1].partition(b" script:")[0]
                if b"attempt to" in there[1]:  # the script has met something that is no number
                    there = "-", b"ERR value is not an integer or out of range"
                    if words[0] == b"GOBLIN.HSETGT":
                        there = "-", b"ERR hash value is not a float"
            assert comparable(words, here) == comparable(words, there), words
            answered[words[0].decode()] += here[0] != "-"
    assert all(answered[pattern.split()[0]] > 20 for pattern in LIKE_SCRIPTS)


def scripted_form(words: list[bytes]) -> list[bytes]:
    name = words[0].decode()
    pattern_has_condition = name != "SET" or len(words) == 5
    if name in SCRIPTS and pattern_has_condition:
        return [b"EVAL", SCRIPTS[name].encode(), b"1", *words[1:]]
    return words
