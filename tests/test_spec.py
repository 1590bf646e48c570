"""What follows from a declaration, on commands made for this test, and on Redis's own numbers."""

from __future__ import annotations

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goblin_raft import errors
from goblin_raft.arguments import (
    flag,
    integer,
    key,
    one_of,
    optional,
    options,
    repeated,
    seconds,
    string,
    valued,
)
from goblin_raft.errors import StoreError
from goblin_raft.limits import Limits
from goblin_raft.readers import (
    EXPIRE_MS_MAX,
    INT64_MAX,
    INT64_MIN,
    read_integer,
    read_milliseconds,
    read_score,
    read_seconds,
    read_signed_milliseconds,
    read_signed_seconds,
    read_unix_seconds,
)
from goblin_raft.reply import Failure, Map, Status
from goblin_raft.spec import Command, Family, build_table

LIMITS = Limits()


def declare(*parts, name="TEST", verb="write") -> Command:
    family = Family("test")

    @getattr(family, verb)(name, *parts)
    def handler(*_):
        """Do nothing."""

    return family.commands[0]


def refusal(command: Command, *words: bytes) -> str:
    with pytest.raises(StoreError) as caught:
        command.decode([b"TEST", *words], LIMITS)
    return caught.value.reply.text


# ---- the shape of a request ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "parts, arity",
    [
        ([], 1),
        ([key()], 2),
        ([key(), string("value")], 3),
        ([optional(string("message"))], -1),
        ([key(), optional(string("message"))], -2),
        ([repeated(key())], -2),
        ([key(), repeated(string("field"), string("value"))], -4),
        ([repeated(string("name"), least=0)], -1),
        ([key(), options(flag("NX"))], -2),
    ],
)
def test_arity_is_in_redis_notation(parts, arity):
    assert declare(*parts).arity == arity


def test_words_become_arguments_in_their_order():
    command = declare(key(), string("value"), integer("count"))
    assert command.decode([b"TEST", b"k", b"v", b"7"], LIMITS) == [b"k", b"v", 7]
    assert refusal(command, b"k", b"v") == "ERR wrong number of arguments for 'test' command"
    assert refusal(command, b"k", b"v", b"7", b"8").startswith("ERR wrong number of arguments")


def test_a_missing_word_is_none():
    command = declare(key(), optional(string("message")))
    assert command.decode([b"TEST", b"k"], LIMITS) == [b"k", None]
    assert command.decode([b"TEST", b"k", b"m"], LIMITS) == [b"k", b"m"]


def test_repeated_words_are_one_flat_list():
    command = declare(key(), repeated(string("field"), integer("value")))
    assert command.decode([b"TEST", b"k", b"f", b"1", b"g", b"2"], LIMITS) == [
        b"k",
        [b"f", 1, b"g", 2],
    ]
    assert refusal(command, b"k", b"f", b"1", b"g").startswith("ERR wrong number of arguments")


OPTIONS = declare(
    key(),
    options(
        flag("GET"),
        one_of("condition", flag("NX"), flag("XX")),
        one_of("expiry", valued("EX", seconds()), flag("KEEPTTL")),
    ),
)


@pytest.mark.parametrize(
    "words, expected",
    [
        ("", [False, None, None]),
        ("GET", [True, None, None]),
        ("nx ex 5 get", [True, "NX", ["EX", 5000]]),
        ("EX 5 NX", [False, "NX", ["EX", 5000]]),
        ("KEEPTTL XX XX GET GET", [True, "XX", "KEEPTTL"]),
        ("EX 5 EX 6", [False, None, ["EX", 6000]]),
    ],
)
def test_options_in_any_order(words, expected):
    argv = [b"TEST", b"k", *words.encode().split()]
    assert OPTIONS.decode(argv, LIMITS) == [b"k", *expected]
    assert OPTIONS.width == len(expected) + 1


@pytest.mark.parametrize("words", ["NX XX", "EX", "EX 5 KEEPTTL", "FOO", "EX 0 FOO", "\xff"])
def test_options_that_are_refused(words):
    assert refusal(OPTIONS, b"k", *words.encode().split()) == "ERR syntax error"


def test_options_are_looked_at_before_numbers():
    command = declare(key(), integer("count"), options(flag("NX")))
    assert refusal(command, b"k", b"x", b"FOO") == "ERR syntax error"
    assert refusal(command, b"k", b"x", b"NX") == errors.NOT_AN_INTEGER.text


def test_decoded_arguments_survive_the_log():
    decoded = OPTIONS.decode([b"TEST", b"k", b"EX", b"5", b"NX"], LIMITS)
    assert msgpack.unpackb(msgpack.packb(decoded)) == decoded


# ---- numbers ------------------------------------------------------------------------------------


def read(reader, word: bytes):
    try:
        return reader(word, LIMITS, "TEST")
    except StoreError as error:
        return error.reply.text


@given(st.integers(INT64_MIN, INT64_MAX))
def test_an_integer_has_one_way_to_be_written(number):
    assert read(read_integer, b"%d" % number) == number
    for other in (b"+%d", b" %d", b"%d ", b"0%d", b"%d.0", b"%d\0", b"%d\n"):
        assert read(read_integer, other % number) == errors.NOT_AN_INTEGER.text


@given(st.binary(max_size=25))
def test_what_is_read_as_an_integer_reads_back(word):
    number = read(read_integer, word)
    assert number == errors.NOT_AN_INTEGER.text or b"%d" % number == word


@pytest.mark.parametrize(
    "word", [b"", b"-", b"-0", b"00", b"1_0", b"\xd9\xa1", b"9" * 19, b"9" * 5000, b"--1", b"0-1"]
)
def test_no_integer(word):
    assert read(read_integer, word) == errors.NOT_AN_INTEGER.text


INVALID = "ERR invalid expire time in 'test' command"


@pytest.mark.parametrize(
    "reader, number, expected",
    [
        (read_seconds, 1, 1000),
        (read_seconds, 0, INVALID),
        (read_seconds, -1, INVALID),
        (read_seconds, EXPIRE_MS_MAX // 1000, EXPIRE_MS_MAX // 1000 * 1000),
        (read_seconds, EXPIRE_MS_MAX // 1000 + 1, INVALID),
        (read_seconds, INT64_MAX, INVALID),
        (read_seconds, INT64_MAX + 1, errors.NOT_AN_INTEGER.text),
        (read_milliseconds, EXPIRE_MS_MAX, EXPIRE_MS_MAX),
        (read_milliseconds, EXPIRE_MS_MAX + 1, INVALID),
        (read_milliseconds, 0, INVALID),
        (read_unix_seconds, INT64_MAX // 1000, INT64_MAX // 1000 * 1000),
        (read_unix_seconds, INT64_MAX // 1000 + 1, INVALID),
        (read_unix_seconds, 0, INVALID),
        (read_signed_seconds, -1, -1000),
        (read_signed_seconds, -(2**63 // 1000), -(2**63 // 1000) * 1000),
        (read_signed_seconds, -(2**63 // 1000) - 1, INVALID),
        (read_signed_milliseconds, INT64_MIN, INT64_MIN),
        (read_signed_milliseconds, INT64_MAX, INVALID),
    ],
)
def test_times(reader, number, expected):
    assert read(reader, b"%d" % number) == expected


@given(st.floats(allow_nan=False))
def test_a_score_reads_back(score):
    assert read(read_score, repr(score).encode()) == score
    assert read(read_score, b"%.17g" % score) == score


def test_there_is_one_zero():
    """Two would be equal and yet give two different states."""
    for word in (b"-0", b"-0.0", b"-0e5", b"-0x0"):
        assert str(read(read_score, word)) == "0.0"


@pytest.mark.parametrize("word", [b"nan", b"-nan", b"", b"1e400", b"1e-400", b"0x", b"1e", b"i"])
def test_no_score(word):
    assert read(read_score, word) == errors.NOT_A_FLOAT.text


# ---- limits -------------------------------------------------------------------------------------


def test_limits_are_inclusive():
    small = Limits(key_bytes_max=4, value_bytes_max=8)
    command = declare(key(), string("value"))
    assert command.decode([b"TEST", b"k" * 4, b"v" * 8], small) == [b"k" * 4, b"v" * 8]
    for argv, text in [
        ([b"TEST", b"k" * 5, b"v"], "ERR key is longer than 4 bytes"),
        ([b"TEST", b"k", b"v" * 9], "ERR value is longer than 8 bytes"),
    ]:
        with pytest.raises(StoreError) as caught:
            command.decode(argv, small)
        assert caught.value.reply == Failure(text)


# ---- what a declaration must be -----------------------------------------------------------------


def test_a_command_without_a_docstring_is_no_command():
    family = Family("test")
    with pytest.raises(AssertionError, match="docstring"):
        family.read("TEST")(lambda: None)


def test_a_name_cannot_be_declared_twice():
    with pytest.raises(AssertionError, match="twice"):
        build_table([_family("TEST"), _family("TEST")])


def test_a_tail_is_the_end():
    with pytest.raises(AssertionError, match="tail"):
        declare(repeated(key()), string("value"))
    with pytest.raises(AssertionError, match="tail"):
        declare(repeated(key()), options(flag("NX")))


def test_subcommands_lie_under_their_first_word():
    table = build_table([_family("OUTER", "OUTER INNER")])
    outer = table[b"OUTER"]
    assert outer.subcommands == {b"INNER": table[b"OUTER INNER"]}
    assert outer.arity == -1
    assert table[b"OUTER INNER"].full_name == "outer|inner"
    assert table[b"OUTER INNER"].decode([b"OUTER", b"INNER"], LIMITS) == []
    with pytest.raises(AssertionError, match="without"):
        build_table([_family("OUTER INNER")])


def _family(*names: str) -> Family:
    family = Family("test")
    for name in names:

        @family.node(name)
        def handler(node):
            """Do nothing."""

    return family


# ---- what others are told -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "parts, positions",
    [
        ([], (0, 0, 0)),
        ([string("message")], (0, 0, 0)),
        ([key()], (1, 1, 1)),
        ([key("a"), key("b"), string("token")], (1, 2, 1)),
        ([repeated(key())], (1, -1, 1)),
        ([repeated(key(), string("value"))], (1, -1, 2)),
        ([string("first"), key()], (2, 2, 1)),
    ],
)
def test_key_positions(parts, positions):
    assert declare(*parts).key_positions == positions


def test_docs_describe_options():
    arguments = OPTIONS.docs().items[b"arguments"]
    assert OPTIONS.usage == "TEST key [GET] [NX | XX] [EX seconds | KEEPTTL]"
    assert [each.items[b"name"] for each in arguments] == [b"key", b"get", b"condition", b"expiry"]
    expiry = arguments[3].items
    assert expiry[b"type"] == b"oneof"
    assert expiry[b"flags"] == [Status(b"optional")]
    seconds_doc, keepttl_doc = expiry[b"arguments"]
    assert (seconds_doc.items[b"token"], seconds_doc.items[b"type"]) == (b"EX", b"integer")
    assert (keepttl_doc.items[b"token"], keepttl_doc.items[b"type"]) == (b"KEEPTTL", b"pure-token")


def test_docs_describe_repetition():
    command = declare(key(), repeated(string("field"), string("value")))
    assert command.usage == "TEST key field value [field value ...]"
    block = command.docs().items[b"arguments"][1].items
    assert (block[b"type"], block[b"flags"]) == (b"block", [Status(b"multiple")])
    assert [each.items[b"name"] for each in block[b"arguments"]] == [b"field", b"value"]
    assert isinstance(command.row()[8][0], Map)
