"""Scripts that are recognised do what a real Redis does with them; others are refused."""

from __future__ import annotations

import hashlib
import random

import pytest
from redis.lock import Lock

from goblin_raft.commands import scripting
from goblin_raft.limits import Limits
from goblin_raft.lua import TEXT_BYTES_MAX, digest
from goblin_raft.reply import Failure, Status
from goblin_raft.scripts import CLAIM, DELETE, FORMS, PROLONG, RENEW, TEXTS
from tests.conftest import Connection

CAD = (
    b'if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) end return 0'
)
RENEW_TEXT = CAD.replace(b'"del", KEYS[1]', b'"pexpire", KEYS[1], ARGV[2]')
OF_REDIS_PY = {
    Lock.LUA_RELEASE_SCRIPT: DELETE,
    Lock.LUA_EXTEND_SCRIPT: PROLONG,
    Lock.LUA_REACQUIRE_SCRIPT: RENEW,
}
CLAIM_TEXT = b"""
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'EX', ARGV[2]) then return 'CLAIMED' end
return redis.call('GET', KEYS[2])
"""


def sha1(text: bytes) -> bytes:
    return hashlib.sha1(text).hexdigest().encode()


@pytest.fixture(autouse=True)
def nothing_learned():
    scripting._learned.clear()


# ---- recognising ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        b"if redis.call('GET',KEYS[1])==ARGV[1] then return redis.call('DEL',KEYS[1])"
        b" else return 0 end",
        CAD.replace(b" ", b"\n\t"),
        b"--[[ a\nlong comment ]] " + CAD + b" -- done",
        CAD.replace(b'if redis.call("get", KEYS[1]) == ARGV[1] then',
                    b'if (redis.call("get", KEYS[1]) == ARGV[1]) then'),
        b"local key = KEYS[1]; local token = ARGV[1];\n"
        + CAD.replace(b"KEYS[1]", b"key").replace(b"ARGV[1]", b"token"),
    ],
)  # fmt: skip
def test_other_words_for_the_same_script_are_the_same(text):
    assert digest(text) == digest(CAD)
    assert FORMS[digest(text)] is DELETE


@pytest.mark.parametrize(
    "old, new",
    [
        (b"==", b"~="),
        (b"KEYS[1]) ==", b"KEYS[2]) =="),
        (b'"del"', b'"unlink"'),
        (b"return 0", b"return 1"),
        (b"redis.call", b"redis.pcall"),
        (b"end return 0", b'end redis.call("set", "a", "b") return 0'),
        (b"ARGV[1]", b"'ARGV[1]'"),
        (b"if redis", b"local key = KEYS[1] key = ARGV[2] if redis"),
        (b"if redis", b"local KEYS = {ARGV[2]} if redis"),
        (b"== ARGV[1]", b"== ARGV[1] .. ''"),
        (b"return 0", b"return [[0]]"),
        (b"get", b"g\\101t"),
    ],
)
def test_anything_more_or_else_is_another_script(old, new):
    text = CAD.replace(old, new)
    assert text != CAD
    assert digest(text) not in FORMS


def test_no_text_is_too_long_or_too_odd_to_be_looked_at():
    rng = random.Random(1)
    assert digest(CAD + b" " * TEXT_BYTES_MAX) is None
    assert digest(b"") not in FORMS
    for _ in range(2000):
        at, to = sorted(rng.randrange(len(CLAIM_TEXT)) for _ in range(2))
        digest(CLAIM_TEXT[:at] + bytes(rng.choices(b"()[]'\"-\\ ;\n\0\xff", k=3)) + CLAIM_TEXT[to:])


@pytest.mark.parametrize("text", OF_REDIS_PY)
def test_the_lock_of_redis_py_is_known_by_its_text_and_by_its_sha1(text):
    assert FORMS[digest(text.encode())] is OF_REDIS_PY[text]
    assert TEXTS[sha1(text.encode()).decode()] is OF_REDIS_PY[text]


def test_the_claim_is_known(node):
    assert FORMS[digest(CLAIM_TEXT)] is CLAIM
    assert node.call("EVAL", CLAIM_TEXT, 2, "c", "r", "me", 30) == b"CLAIMED"
    assert node.call("EVAL", CLAIM_TEXT, 2, "c", "r", "you", 30) is None
    node.call("SET", "r", "done")
    assert node.call("EVAL", CLAIM_TEXT, 2, "c", "r", "you", 30) == b"done"
    assert node.machine.keyspaces[0].deadlines == {b"c": node.machine.now_ms + 30_000}


def test_every_script_has_its_command_and_reads_what_it_is_given():
    for script in {*FORMS.values(), *TEXTS.values()}:
        words = [b"k%d" % n for n in range(script.keys or 2)] + [b"7"] * script.arguments
        call = scripting.call_of(script, script.keys or 2, words, Limits())
        assert call.command.name == script.command


# ---- running -------------------------------------------------------------------------------------


def test_a_sha1_that_is_learned_is_known_on_this_node_until_it_is_flushed(node):
    text = CAD + b" -- mine"
    assert "NOSCRIPT" in str(node.call("EVALSHA", sha1(text), 1, "k", "t"))
    assert node.call("SCRIPT", "LOAD", text) == sha1(text)
    node.call("SET", "k", "t")
    assert node.call("EVALSHA", sha1(text).upper(), 1, "k", "t") == 1
    known = sha1(Lock.LUA_RELEASE_SCRIPT.encode())
    assert node.call("SCRIPT", "EXISTS", sha1(text), known, "x") == [1, 1, 0]
    node.call("SCRIPT", "FLUSH")
    assert node.call("SCRIPT", "EXISTS", sha1(text), known, "x") == [0, 1, 0]
    assert node.call("EVALSHA", known, 1, "k", "t") == 0


def test_what_a_node_learns_is_bounded(node, monkeypatch):
    monkeypatch.setattr(scripting, "LEARNED_MAX", 3)
    texts = [CAD + b" " * number for number in range(1, 7)]
    for text in texts:
        node.call("SCRIPT", "LOAD", text)
    assert node.call("SCRIPT", "EXISTS", *map(sha1, texts)) == [0, 0, 0, 1, 1, 1]


def test_scripts_are_queued_in_a_transaction_and_unknown_ones_break_it(node):
    node.call("MULTI")
    for words in (["SET", "k", "t"], ["EVAL", CAD, 1, "k", "t"], ["GET", "k"]):
        assert node.call(*words) == Status(b"QUEUED")
    assert node.call("EXEC") == [Status(b"OK"), 1, None]
    node.call("MULTI")
    assert "not supported" in str(node.call("EVAL", "return 1", 0))
    assert "EXECABORT" in str(node.call("EXEC"))


REDLOCK_5 = [b"96da70f7716f27d278a5218544df37fd8b0a5e4c",
             b"aed6f382e410db8ba7926d4e5e9aab410bf2a78a",
             b"e4612211c9f8f51c257e26e056b0a654b3187242"]  # fmt: skip
SESAMECARE = [b"1b77b94aa78451d55dfa97e18819bfbfc596cb5b",
              b"820e9778d2b6733e9ed771e4be90ae73a95a6f3b",
              b"df51f6837dcfe303d334e6abea9aeae192bab216"]  # fmt: skip


@pytest.mark.parametrize("sha1s, before", [(REDLOCK_5, []), (SESAMECARE, ["3"])])
def test_locks_of_several_keys_are_taken_and_kept_together(node, sha1s, before):
    acquire, extend, release = sha1s
    db = 3 if before else 0
    assert node.call("EVALSHA", acquire, 2, "a", "b", *before, "me", 1000) == 2
    assert set(node.machine.keyspaces[db].values) == {b"a", b"b"}
    assert node.call("EVALSHA", acquire, 2, "b", "c", *before, "you", 1000) == 0
    assert node.call("EVALSHA", extend, 2, "a", "b", *before, "me", 5000) == 2
    assert node.call("EVALSHA", extend, 2, "a", "b", *before, "you", 9000) == 0
    assert node.machine.keyspaces[db].deadlines == dict.fromkeys(
        (b"a", b"b"), node.machine.now_ms + 5000
    )
    assert node.call("EVALSHA", release, 3, "a", "b", "c", *before, "you") == 0
    assert node.call("EVALSHA", release, 3, "a", "b", "c", *before, "me") == 2
    assert not node.machine.keyspaces[db].values


TEXTS_HERE = [
    (CAD, 1),
    (RENEW_TEXT, 2),
    (RENEW_TEXT.replace(b"pexpire", b"expire"), 2),
    (b"if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end "
     b"redis.call('pexpire', KEYS[1], ARGV[2]) return 1", 2),
    (b"local val = redis.call('get', KEYS[1]) if val == ARGV[1] then "
     b"return redis.call('del', KEYS[1]) elseif val == false then return -1 else return 0 end", 1),
    (b"return redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])", 2),
    (b"if redis.call('set', KEYS[1], ARGV[1], 'EX', ARGV[2], 'NX') then return 'CLAIMED' end "
     b"return redis.call('get', KEYS[2])", 2),
    (b"if redis.call('set', KEYS[1], ARGV[1], 'NX', 'EX', ARGV[2]) then return 1 else return 0 end",
     2),
    (b"return redis.call('incrby', KEYS[1], ARGV[1])", 1),
    *((text.encode(), 3) for text in OF_REDIS_PY),
]  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_they_do_what_they_do_in_a_real_redis(node, redis: Connection, seed):
    rng = random.Random(seed)
    stage = node.stage()
    for _ in range(600):
        text, arguments = rng.choice(TEXTS_HERE)
        keys = rng.sample([b"k0", b"k1", b"k2"], 2)
        lease = rng.choice([b"100000", b"200000"])
        argv = [rng.choice([b"1", b"2"]), lease, rng.choice([b"0", b"1"])][:arguments]
        if b"incrby" in text and rng.random() < 0.8:
            continue
        request = rng.choice(
            [
                [b"EVAL", text, b"2", *keys, *argv],
                [b"SET", keys[0], argv[0]],
                [b"PERSIST", keys[0]],
                [b"HSET", keys[0], b"f", b"v"],
                [b"DEL", keys[0]],
            ]
        )
        ours, theirs = stage.send(request, 0), redis.ask(*request)
        if "WRONGTYPE" in theirs or "not an integer" in theirs:
            assert ours.split()[:2] == theirs.split()[:2], request
        else:
            assert ours == theirs, request
        for key in keys:
            for question in ([b"TYPE", key], [b"EXISTS", key]):
                assert stage.send(question, 0) == redis.ask(*question), request
            mine, real = (
                int(ask(b"PTTL", key).split()[-1])
                for ask in (lambda *words: stage.send(list(words), 0), redis.ask)
            )
            assert abs(mine - real) < 30_000, request
    assert node.machine.internal_errors == 0


@pytest.mark.parametrize(
    "words, text",
    [
        (["EVAL", CAD, 3, "k", "t"], "ERR Number of keys can't be greater than number of args"),
        (["EVAL", CAD, -1, "k", "t"], "ERR Number of keys can't be negative"),
        (["EVAL", CAD, "x", "k", "t"], "ERR value is not an integer or out of range"),
        (["EVAL", CAD, 2, "k", "t"], "ERR this script needs 1 keys and 1 other arguments"),
        (["EVAL_RO", CAD, 1, "k", "t"],
         "ERR Write commands are not allowed from read-only scripts."),
        (["EVALSHA_RO", b"0" * 40, 0], "NOSCRIPT No matching script. Please use EVAL."),
        (["EVAL", RENEW_TEXT, 1, "k", "t", "x"], "ERR value is not an integer or out of range"),
    ],
)  # fmt: skip
def test_refusals(node, words, text):
    assert node.call(*words) == Failure(text)
