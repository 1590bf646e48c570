"""The same log gives the same state and replies in every process, whatever its hash seed."""

from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = """
import hashlib, random, sys
from goblin_raft.entry import encode_entry, encode_proposal
from goblin_raft import state_machine
from goblin_raft.state_machine import StateMachine
state_machine.HISTORY_BYTES = 5000  # so that generations of changes come and go
rng = random.Random(7)
machine, replies, now = StateMachine(), hashlib.sha256(), 1000
def key(): return b"k%d" % rng.randrange(60)
def command():
    return rng.choice([
        lambda: ["GOBLIN.CLAIM", rng.randrange(3), key(), b"r", b"t", 1 + rng.randrange(999)],
        lambda: ["SET", 0, key(), b"v", rng.choice([None, "NX", "XX"]), rng.random() < .5,
                 rng.choice([None, "KEEPTTL", ["PX", 500], ["EXAT", 2000]])],
        lambda: ["HSET", 0, key(), [b"f%d" % rng.randrange(9), b"v"]],
        lambda: ["ZADD", 0, key(), [rng.random(), b"m%d" % rng.randrange(9)]],
        lambda: ["GOBLIN.CAD", 0, key(), b"t"],
        lambda: ["GOBLIN.CAEXPIRE", 0, key(), b"t", 900],
        lambda: ["DEL", 0, [key(), key()]],
        lambda: ["FLUSHALL", 0, None] if rng.random() < .05 else ["PERSIST", 0, key()],
        lambda: ["TTL", 0, key()], lambda: ["DBSIZE", 0],
        lambda: ["EXEC", 0, [[0, key(), machine.history.entry - rng.randrange(60), True, None]],
                 [["PERSIST", 0, key()], ["GOBLIN.CAD", 0, key(), b"t"]]],
        lambda: ["PUBLISH", 0, b"channel", b"message"],
        lambda: ["LOCK.ACQUIRE", 0, b"t", 700, [key(), key()]],
    ])()
for number in range(1, 3000):
    now += rng.randrange(40)
    proposals = [
        encode_proposal("n%d" % rng.randrange(3), rng.randrange(2), rng.randrange(number),
                        max(1, number - 20), [command() for _ in range(rng.randrange(4))])
        for _ in range(rng.randrange(3))
    ]
    for outcome in machine.apply(encode_entry(now, now + 5, proposals)):
        replies.update(repr(outcome).encode())
    if number == 1500 and sys.argv[1] == "snapshot":
        state, machine = machine.state(), StateMachine()
        machine.restore(state)
        assert machine.state() == state
assert machine.internal_errors == 0
print(machine.digest(), replies.hexdigest())
"""

# All commands there are, also on hashes and sorted sets that are large.
EVERY_COMMAND = """
import hashlib, random, sys
from goblin_raft.commands import TABLE
from goblin_raft.entry import encode_entry, encode_proposal
from goblin_raft.errors import StoreError
from goblin_raft.limits import Limits
from goblin_raft.state_machine import StateMachine
from tests.test_changes import words_of
rng = random.Random(8)
machine, replies, now = StateMachine(), hashlib.sha256(), 1000
# What these answer is at random, or in no order, and never comes into the state.
FREE = {"HRANDFIELD", "KEYS", "RANDOMKEY", "ZRANDMEMBER"}
commands = [each for each in TABLE.values() if each.is_data and not each.subcommands]
large = [b"HSET h f%d v", b"HDEL h f%d", b"ZADD z 1.5 m%d", b"ZADD z 2 m%d", b"ZREM z m%d",
         b"HGETALL h", b"HSCAN h %d", b"ZRANGE z 0 %d", b"ZSCAN z %d", b"SCAN %d"]
def command():
    while True:
        if rng.random() < .5:
            words = rng.choice(large).replace(b"%d", b"%d" % rng.randrange(400)).split()
            each = TABLE[words[0]]
        else:
            each = rng.choice(commands)
            words = words_of(rng, each)
            if each.name.startswith("FLUSH") and rng.random() < .98:
                continue
        try:
            return [each.name, rng.randrange(2), *each.decode(words, Limits())]
        except StoreError:
            pass
sizes = []
for number in range(1, 3000):
    now += rng.randrange(40)
    some = [command() for _ in range(rng.randrange(6))]
    proposal = encode_proposal("n1", 1, number, number, some)
    for outcome in machine.apply(encode_entry(now, now + 5, [proposal])):
        told = [reply for (name, *_), reply in zip(some, outcome.replies) if name not in FREE]
        replies.update(repr(told).encode())
    sizes += [len(value) for value in machine.keyspaces[0].values.values()]
    if number % 400 == 0 and sys.argv[1] == "snapshot":
        state, machine = machine.state(), StateMachine()
        machine.restore(state)
        assert machine.state() == state
assert machine.internal_errors == 0
assert max(sizes) > 130
print(machine.digest(), replies.hexdigest())
"""


def run(hash_seed: str, mode: str, program: str = PROGRAM) -> str:
    return subprocess.run(
        [sys.executable, "-c", program, mode],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def test_two_processes_and_a_restored_one_agree_byte_for_byte():
    assert run("1", "live") == run("2", "live") == run("3", "snapshot")


def test_every_command_is_the_same_everywhere():
    one = run("1", "live", EVERY_COMMAND)
    assert run("2", "live", EVERY_COMMAND) == one == run("3", "snapshot", EVERY_COMMAND)
