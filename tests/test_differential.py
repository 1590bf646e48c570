"""Random commands and passing time, here and on a real redis-server that runs the claim as EVAL.

Time really passes. Commands run at the beginning of slots of 120 ms, and all times to live end at
least 40 ms away from that: 1 s is 8 1/3 slots, 2 s are 16 2/3, milliseconds come in half slots.
"""

from __future__ import annotations

import random
import time

import pytest

from goblin_raft.commands import TABLE
from goblin_raft.consensus.memory import MemoryEngine
from goblin_raft.errors import StoreError
from goblin_raft.limits import Limits
from goblin_raft.reply import Double, Failure, Status
from goblin_raft.resp_client import RespClient, RespError
from goblin_raft.values import format_score

SCRIPT = (
    b"if redis.call('set', KEYS[1], ARGV[1], 'NX', 'EX', ARGV[2]) then return 'CLAIMED' end "
    b"return redis.call('get', KEYS[2])"
)
SLOT_MS = 120
LATE_MS = 35


@pytest.fixture
def client(redis_port):
    """A client of the real one."""
    with RespClient("127.0.0.1", redis_port) as client:
        yield client


def theirs(redis: RespClient, words: list[bytes]):
    if words[0] == b"GOBLIN.CLAIM":
        words = [b"EVAL", SCRIPT, b"2", *words[1:]]
    try:
        return redis.call(*words)
    except RespError as error:
        # An error inside a script has the script's place behind it.
        text = str(error).replace("'set' command", "'goblin.claim' command")
        return text.partition(" script:")[0]


def ours(engine: MemoryEngine, words: list[bytes]):
    command = TABLE[words[0]]
    try:
        arguments = command.decode(words, Limits())
    except StoreError as error:
        text = error.reply.text
        return text.replace("'set' command", "'goblin.claim' command")
    replies: list = []
    engine.propose([[command.name, 0, *arguments]], 0, replies.extend)
    match replies[0]:
        case Status(text):
            return text
        case Failure(text):
            return text
        case Double(number):
            return format_score(number)
        case reply:
            return reply


def command(rng: random.Random) -> list[bytes]:
    key, other = b"k%d" % rng.randrange(8), b"r%d" % rng.randrange(8)
    tenths = str(rng.randrange(1, 8) * SLOT_MS + SLOT_MS // 2).encode()
    seconds = rng.choice([b"1", b"1", b"2", b"0", b"-1", b"1.5", b"", b" 5", b"+5", b"9" * 18])
    return rng.choice(
        [
            [b"GOBLIN.CLAIM", key, other, b"token", seconds],
            [b"GOBLIN.CLAIM", key, other, b"token", b"1"],
            [b"SET", rng.choice([key, other]), b"v%d" % rng.randrange(99), b"PX", tenths],
            [b"SET", other, b"v", *rng.sample([b"NX", b"XX", b"GET", b"KEEPTTL", b"bad"], 2)],
            [b"SET", other, b"v", b"EX", seconds],
            [b"GET", rng.choice([key, other])],
            [b"EXISTS", key, other, key],
            [b"TYPE", rng.choice([key, other])],
            [b"DEL", rng.choice([key, other])],
            [b"HSET", other, b"f", b"v", *rng.choice([[], [b"odd"]])],
            [b"HGET", other, b"f"],
            [b"ZADD", other, rng.choice([b"1.5", b"3", b"inf", b"x"]), b"m"],
            [b"ZSCORE", other, b"m"],
            [b"PEXPIRE", rng.choice([key, other]), rng.choice([tenths, b"0", b"-5", b"x"])],
            [b"EXPIRE", key, rng.choice([b"1", b"-1", b"9" * 18])],
            [b"PERSIST", rng.choice([key, other])],
            rng.choice([[b"GET"], [b"SET", key], [b"DEL"], [b"EXPIRE", key], [b"HGET", key]]),
        ]
    )


def same_replies(redis: RespClient, rng: random.Random) -> bool:
    """Whether the comparison could be made: commands that come late say nothing of either."""
    redis.call("FLUSHALL")
    engine = MemoryEngine(lambda: time.time_ns() // 1_000_000)
    slot_s = SLOT_MS / 1000
    for _ in range(45):
        now_s = time.time()
        start_s = (now_s // slot_s + 1) * slot_s
        time.sleep(start_s - now_s)
        compared = []
        for _ in range(12):
            words = command(rng)
            compared.append((words, ours(engine, words), theirs(redis, words)))
        if time.time() - start_s > LATE_MS / 1000:
            return False
        for words, here, there in compared:
            assert here == there, words
    return True


@pytest.mark.parametrize("seed", range(2))
def test_a_random_sequence_gets_the_same_replies(client, seed):
    for _ in range(5):
        if same_replies(client, random.Random(seed)):
            return
    pytest.fail("this machine is too busy to keep to slots of time")
