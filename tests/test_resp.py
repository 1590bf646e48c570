"""Requests and replies as bytes: Redis's own answers, however the bytes are cut."""

from __future__ import annotations

import socket

import hiredis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goblin_raft.reply import OK, Failure, Map, Set, Verbatim
from goblin_raft.resp import (
    LONG_MEMBERS,
    RequestParser,
    encode,
    encode_all,
    open_long,
    split_inline,
)
from tests.socket_node import SocketNode, receive_all

# (bytes, requests that come of it, protocol error after them)
CASES = [
    (b"*1\r\n$4\r\nPING\r\n", [[b"PING"]], None),
    (b"PING\r\n", [[b"PING"]], None),
    (b"PING\n", [[b"PING"]], None),
    (b'SET k "a\\x41 b"\r\n', [[b"SET", b"k", b"aA b"]], None),
    (b"SET k 'it\\'s'\r\n", [[b"SET", b"k", b"it's"]], None),
    (b'SET k "a\r\n', [], "unbalanced quotes in request"),
    (b'SET k "a"b\r\n', [], "unbalanced quotes in request"),
    (b"\r\n   \r\n*0\r\n*-1\r\n*-10\r\nPING\r\n", [[b"PING"]], None),
    (b"*abc\r\n", [], "invalid multibulk length"),
    (b"*\r\n", [], "invalid multibulk length"),
    (b"*3000000000\r\n", [], "invalid multibulk length"),
    (b"*+1\r\n", [], "invalid multibulk length"),
    (b"*01\r\n", [], "invalid multibulk length"),
    (b"*1\r\n$-1\r\n", [], "invalid bulk length"),
    (b"*1\r\n$abc\r\n", [], "invalid bulk length"),
    (b"*1\r\n$536870913\r\n", [], "invalid bulk length"),
    (b"*2\r\n$3\r\nGET\r\n$-1\r\n", [], "invalid bulk length"),
    (b"*1\r\n:1\r\n", [], "expected '$', got ':'"),
    (b"*1\r\n+PING\r\n", [], "expected '$', got '+'"),
    (b"*1\r\n*1\r\n$4\r\nPING\r\n", [], "expected '$', got '*'"),
    (b"*1\r\n$0\r\n\r\n", [[b""]], None),
    (b"*1\r\n$4\r\nPINGxx*1\r\n$4\r\nPING\r\n", [[b"PING"], [b"PING"]], None),
    (b"*2\r\n$4\r\nECHO\r\n$8\r\n*1\r\n$1\r\n\r\n", [[b"ECHO", b"*1\r\n$1\r\n"]], None),
    (b"*1\r\n$4\r\nPING\r\n*1\r\n$x\r\n", [[b"PING"]], "invalid bulk length"),
    (b"x" * 70_000, [], "too big inline request"),
    (b"*" + b"1" * 70_000, [], "too big mbulk count string"),
    (b"*1\r\n$" + b"1" * 70_000, [], "too big bulk count string"),
    # However they are cut: a line that is over its limit is so with its end, too.
    (b"x" * 70_000 + b"\r\n", [], "too big inline request"),
    (b"*" + b"1" * 70_000 + b"\r\n", [], "too big mbulk count string"),
    (b"*1\r\n$" + b"1" * 70_000 + b"\r\n", [], "too big bulk count string"),
    (b"a\0b", [], "NUL in inline request"),
    (b"a\0b\r\n", [], "NUL in inline request"),
    # What would make hiredis allocate, or pass for a word.
    (b"*1\r\n>200000000\r\n", [], "expected '$', got '>'"),
    (b"*1\r\n~200000000\r\n", [], "expected '$', got '~'"),
    (b"*1\r\n|200000000\r\n", [], "expected '$', got '|'"),
    (b"*2\r\n+aaaaaaaaaa\r\n=15\r\ntxt:Some string\r\n", [], "expected '$', got '+'"),
    (b"*1\r\n\xff\r\n", [], "expected '$', got '\udcff'"),
    (b"*1\r\n\r\n", [], "expected '$', got '\r'"),
    # CR LF inside words, at their ends, and as a whole word.
    (b"*2\r\n$4\r\nECHO\r\n$2\r\n\r\n\r\n", [[b"ECHO", b"\r\n"]], None),
    (b"*2\r\n$4\r\nECHO\r\n$3\r\na\r\n\r\n", [[b"ECHO", b"a\r\n"]], None),
    (b"*1\r\n$4\rxPING\r\n", [[b"PING"]], None),
    (b"*2\r\n$4\r\nECHO\r\n$1100\r\n" + b"x" * 1100 + b"\r\n", [[b"ECHO", b"x" * 1100]], None),
]


def parsed(chunks, *, fast):
    parser = RequestParser(fast=fast)
    for chunk in chunks:
        parser.feed(chunk)
    return list(parser.ready), parser.error


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize(("wire", "requests", "error"), CASES)
def test_a_request_whole_and_with_a_tail(wire, requests, error, fast):
    assert parsed([wire], fast=fast) == (requests, error)
    if error is None:
        tail = b"*1\r\n$4\r\nPING\r\n"
        assert parsed([wire + tail], fast=fast) == ([*requests, [b"PING"]], None)


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize(("wire", "requests", "error"), [c for c in CASES if len(c[0]) < 2000])
def test_a_request_byte_by_byte_and_cut_anywhere(wire, requests, error, fast):
    assert parsed([wire[i : i + 1] for i in range(len(wire))], fast=fast) == (requests, error)
    for cut in range(1, len(wire)):
        assert parsed([wire[:cut], wire[cut:]], fast=fast) == (requests, error)


WIRE = st.one_of(
    st.lists(
        st.lists(st.binary(max_size=8), min_size=1, max_size=4).map(
            lambda words: hiredis.pack_command(tuple(words))
        ),
        max_size=4,
    ).map(b"".join),
    st.lists(
        st.sampled_from(
            b"*1\r\n|*2\r\n|$4\r\n|$0\r\n|PING|\r\n|\n|*0\r\n|:1\r\n|+a\r\n|-e\r\n|_\r\n|#f\r\n|"
            b"*-1\r\n|$-1\r\n|%1\r\n|$1\r\n|x|\r|a 'b|>9\r\n|=6\r\ntxt:ab\r\n|*5\r\n|\0".split(b"|")
        ),
        max_size=10,
    ).map(b"".join),
)


@given(WIRE, st.lists(st.integers(0, 80), max_size=3).map(sorted))
def test_both_parsers_agree_on_every_input_however_it_is_cut(wire, cuts):
    ends = [*cuts, len(wire)]
    chunks = [wire[start:end] for start, end in zip([0, *cuts], ends, strict=True)]
    assert parsed(chunks, fast=True) == parsed([wire], fast=False)


@given(st.lists(st.lists(st.binary(max_size=1200), min_size=1, max_size=6), min_size=1, max_size=6))
def test_ordinary_requests_are_read_as_hiredis_reads_them(requests):
    wire = b"".join(hiredis.pack_command(tuple(request)) for request in requests)
    reader = hiredis.Reader()
    reader.feed(wire)
    assert parsed([wire], fast=True) == ([reader.gets() for _ in requests], None)


def test_a_large_header_allocates_nothing():
    parser = RequestParser()
    parser.feed(b"*1000000\r\n")
    assert parser.error is None
    assert not parser.ready
    assert parser.buffered_bytes < 100


def test_a_request_is_bounded_in_bytes_and_in_words():
    parser = RequestParser(request_bytes_max=1_000_000)
    parser.feed(b"*1048576\r\n")
    for _ in range(20_000):
        parser.feed(b"$0\r\n\r\n")
        assert parser.buffered_bytes < 1_100_000
    parser.feed(b"$500000\r\n")
    assert parser.error == "too big request"


def test_a_large_word_in_small_pieces_is_put_together_once():
    parser = RequestParser()
    word = bytes(1_000_000)
    wire = hiredis.pack_command((b"ECHO", word)) + b"PING\r\n"
    for start in range(0, len(wire), 1000):
        parser.feed(wire[start : start + 1000])
    assert list(parser.ready) == [[b"ECHO", word], [b"PING"]]


# What clients.md and Redis's source know of odd input. The answer of a real one is the reference;
# ECHO shows how the words were read.
PROBES = [
    *(wire for wire, _, _ in CASES if b"\0" not in wire and len(wire) < 1000),
    b"*01\r\n", b"*-0\r\n", b"* 1\r\n", b"*+1\r\n", b"*1 \r\n", b"*2147483648\r\n",
    b"*1\r\n$ 4\r\nPING\r\n", b"*1\r\n$04\r\nPING\r\n", b"*1\r\n$\r\n", b"*1\r\n$-10\r\n",
    b"*1\r\n$9223372036854775808\r\n", b"*1\r\nPING\r\n", b"*1\r\n \r\n", b"*1\rXX$4\rX",
    b"*2\r\n$4\r\nECHO\r\n$1\r\naXX*1\r\n$4\r\nPING\r\n", b"  PING\r\n", b"\tPING\t\r\n",
    b"PING\n\n\n", b"ECHO 'a'\"b\"\r\n", b"ECHO a\"b c\"\r\n", b"ECHO a'b c'\r\n", b"ECHO ''\r\n",
    b'ECHO ""\r\n', b'ECHO "\\x4g"\r\n', b'ECHO "\\x41\\n\\r\\t\\b\\a\\\\\\"\\q"\r\n',
    b'ECHO "a\\"\r\n', b"ECHO 'a\\'b'\r\n", b"ECHO 'a\\\\'\r\n", b"ECHO 'a\\n'\r\n",
    b"ECHO a\x0bb\r\n", b"ECHO \x0ba\r\n",
    b'ECHO "a"\x0c\r\n', b"ECHO a\rb\r\n", b"ECHO a\r\r\n", b'ECHO "\r"\r\n', b"ECHO \xff\x80\r\n",
    b"ECHO 'a\r\n", b"\"\r\n", b"PING\r\n*1\r\n$4\r\nPING\r\nPING\r\n*x\r\nPING\r\n",
    b"*1\r\n$0\r\n\r\n", b"*3\r\n$6\r\nnosuch\r\n$3\r\na\r\n\r\n$2\r\nbc\r\n", b"nosuch a b\r\n",
    b"*2\r\n$6\r\nnosuch\r\n$200\r\n" + b"x" * 200 + b"\r\n", b"x" * 200 + b" y\r\n",
    b"client nosuch\r\n", b"ping a b\r\n", b"POST / HTTP/1.1\r\n", b"Host: here\r\n",
]  # fmt: skip


# Where we differ on purpose: our answer. Redis waits for more bytes.
DIFFERENT = {
    b"*1048577\r\n": b"-ERR Protocol error: invalid multibulk length\r\n",
    b"*1\r\n$16777217\r\n": b"-ERR Protocol error: invalid bulk length\r\n",
    b"a\0b\r\n": b"-ERR Protocol error: NUL in inline request\r\n",
}


def answer_of(address, wire):
    with socket.create_connection(address, timeout=5) as client:
        client.sendall(wire)
        client.shutdown(socket.SHUT_WR)
        try:
            return receive_all(client)
        except ConnectionResetError:
            return b"reset"


def test_odd_input_is_answered_as_redis_answers_it(redis_port):
    different = {}
    with SocketNode() as node:
        for wire in (*PROBES, *DIFFERENT):
            theirs = answer_of(("127.0.0.1", redis_port), wire)
            ours = node.exchange(wire)
            if ours != theirs:
                different[wire] = (ours, theirs)
    assert different == {wire: (ours, b"") for wire, ours in DIFFERENT.items()}


def test_words_of_an_inline_command():
    assert split_inline(b'a "b c" \'d\' "\\n"') == [b"a", b"b c", b"d", b"\n"]


@pytest.mark.parametrize(
    ("reply", "two", "three"),
    [
        (None, b"$-1\r\n", b"_\r\n"),
        (b"OK", b"$2\r\nOK\r\n", b"$2\r\nOK\r\n"),
        (b"", b"$0\r\n\r\n", b"$0\r\n\r\n"),
        (OK, b"+OK\r\n", b"+OK\r\n"),
        (7, b":7\r\n", b":7\r\n"),
        (Failure("ERR a\r\nb"), b"-ERR a  b\r\n", b"-ERR a  b\r\n"),
        ([1, [None]], b"*2\r\n:1\r\n*1\r\n$-1\r\n", b"*2\r\n:1\r\n*1\r\n_\r\n"),
        (Map({b"a": 1}), b"*2\r\n$1\r\na\r\n:1\r\n", b"%1\r\n$1\r\na\r\n:1\r\n"),
        (Map({}), b"*0\r\n", b"%0\r\n"),
        (Set([1, None]), b"*2\r\n:1\r\n$-1\r\n", b"~2\r\n:1\r\n_\r\n"),
        (Verbatim(b"a:1\r\n"), b"$5\r\na:1\r\n\r\n", b"=9\r\ntxt:a:1\r\n\r\n"),
    ],
)
def test_a_reply_in_both_protocols(reply, two, three):
    assert encode_all([reply], 2) == two
    assert encode_all([reply], 3) == three


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("count", [LONG_MEMBERS, LONG_MEMBERS + 1])
def test_a_long_reply_in_pieces_has_the_same_bytes(protocol, count):
    for reply in (list(range(count)), Map({b"%d" % n: n for n in range(count)})):
        opened = open_long(reply, protocol)
        assert (opened is None) == (count == LONG_MEMBERS)
        if opened is not None:
            header, members = opened
            assert header + encode_all(list(members), protocol) == encode(reply, protocol)


# ---- a client that has not said who it is --------------------------------------------------------

SMALL = hiredis.pack_command((b"AUTH", b"x" * 100))
TOO_MANY = hiredis.pack_command((b"EXISTS", *[b"k"] * 10))
TOO_LARGE = hiredis.pack_command((b"AUTH", b"x" * 16_385))


@pytest.mark.parametrize("wire, problem", [(TOO_MANY, "multibulk"), (TOO_LARGE, "bulk")])
def test_a_restricted_client_may_send_little(wire, problem):
    parser = RequestParser()
    parser.restricted = True
    parser.feed(SMALL + b"PING\r\n" + wire)
    assert len(parser.ready) == 2
    assert (parser.error, parser.stalled) == (None, True)
    parser.feed(SMALL)  # nothing more until what is ready was served
    assert len(parser.ready) == 2
    parser.ready.clear()
    parser.feed(b"")
    assert parser.error == f"unauthenticated {problem} length"


@given(st.lists(st.sampled_from([SMALL, TOO_MANY, TOO_LARGE, b"PING\r\n"]), max_size=6), st.data())
def test_after_the_restriction_all_is_read_however_it_was_cut(requests, data):
    wire = SMALL + b"".join(requests)
    cut = data.draw(st.integers(0, len(wire)))
    parser = RequestParser()
    parser.restricted = True
    parser.feed(wire[:cut])
    parser.feed(wire[cut:])
    taken = [parser.ready.popleft()]
    parser.restricted = False
    while parser.ready or parser.stalled:
        taken += parser.ready
        parser.ready.clear()
        parser.feed(b"")
    assert (taken + list(parser.ready), parser.error) == parsed([wire], fast=False)
