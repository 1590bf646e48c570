"""What a transcript cannot say about claims: many callers, and nothing half done."""

from __future__ import annotations

import pytest

from goblin_raft.commands.claims import CLAIMED, WRONG_TYPE, claim
from goblin_raft.keyspace import Instant, Keyspace
from goblin_raft.readers import EXPIRE_MS_MAX
from goblin_raft.reply import Failure, Status


def test_of_three_hundred_callers_exactly_one_gets_the_claim(node):
    replies = [node.call("GOBLIN.CLAIM", "c", "r", f"worker-{i}", 30) for i in range(300)]
    assert replies == [CLAIMED] + [None] * 299


def test_claimed_is_a_bulk_string_also_when_it_is_a_result(node):
    """A result that reads CLAIMED cannot be told from a won claim: the seed's decision, kept."""
    assert node.call("GOBLIN.CLAIM", "c", "r", "t", 30) == b"CLAIMED"
    node.call("SET", "r", "CLAIMED")
    assert node.call("GOBLIN.CLAIM", "c", "r", "u", 30) == b"CLAIMED"
    assert node.call("GET", "c") == b"t"


def test_a_claim_never_lacks_its_deadline():
    """Not even for a moment: a claim without an end would be held for ever."""
    keyspace = Keyspace()
    claim(keyspace, Instant(1000, 1000, 0), b"c", b"r", b"t", 30_000)
    assert keyspace.deadlines == {b"c": 31_000}


def test_the_longest_lease_fits_into_the_state(node):
    seconds = EXPIRE_MS_MAX // 1000
    assert node.call("GOBLIN.CLAIM", "c", "r", "t", seconds) == CLAIMED
    assert isinstance(node.call("GOBLIN.CLAIM", "d", "r", "t", seconds + 1), Failure)
    node.machine.restore(node.machine.state())
    assert node.call("GET", "c") == b"t"


@pytest.mark.parametrize(
    "words",
    [
        ("GOBLIN.CLAIM", "held", "hash", "t", 30),
        ("GOBLIN.CAD", "hash", "t"),
        ("GOBLIN.CAEXPIRE", "hash", "t", 1000),
        ("GOBLIN.CAS", "hash", "t", "u"),
        ("SET", "hash", "v", "GET"),
        ("HSET", "held", "f", "v"),
        ("HGET", "held", "f"),
        ("ZADD", "held", 1, "m"),
        ("ZSCORE", "hash", "m"),
        ("GET", "hash"),
    ],
    ids=lambda words: words[0],
)
def test_a_refusal_changes_nothing(node, words):
    node.call("HSET", "hash", "f", "v")
    node.call("GOBLIN.CLAIM", "held", "r", "owner", 30)
    items = [list(keyspace.items()) for keyspace in node.machine.keyspaces]
    assert node.call(*words) == WRONG_TYPE
    assert [list(keyspace.items()) for keyspace in node.machine.keyspaces] == items


@pytest.mark.parametrize("token", [b"", b"\x00" * 16, "ü".encode(), b"t" * 1000])
def test_tokens_are_compared_byte_by_byte(node, token):
    node.call("GOBLIN.CLAIM", "c", "r", token, 30)
    assert node.call("GOBLIN.CAEXPIRE", "c", token + b" ", 1000) == 0
    assert node.call("GOBLIN.CAEXPIRE", "c", token, 60_000) == 1
    assert node.call("PTTL", "c") == 60_000
    assert node.call("GOBLIN.CAS", "c", token, b"next") == Status(b"OK")
    assert node.call("GOBLIN.CAD", "c", token) == 0
    assert node.call("GOBLIN.CAD", "c", b"next") == 1
