"""Requests and replies as bytes: Redis's own answers, however the bytes are cut."""

from __future__ import annotations

import hiredis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goblin_raft.reply import OK, Failure, Map
from goblin_raft.resp import RequestParser, encode_all, split_inline

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
@pytest.mark.parametrize(("wire", "requests", "error"), [c for c in CASES if len(c[0]) < 1000])
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
            b"*-1\r\n|$-1\r\n|%1\r\n".split(b"|")
        ),
        max_size=10,
    ).map(b"".join),
)


@given(WIRE, st.integers(0, 60))
def test_both_parsers_agree_on_every_input(wire, cut):
    chunks = [wire[:cut], wire[cut:]]
    assert parsed(chunks, fast=True) == parsed(chunks, fast=False)


def test_a_large_header_allocates_nothing():
    parser = RequestParser()
    parser.feed(b"*1000000\r\n")
    assert parser.error is None
    assert not parser.ready
    assert parser.buffered_bytes < 100


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
    ],
)
def test_a_reply_in_both_protocols(reply, two, three):
    assert encode_all([reply], 2) == two
    assert encode_all([reply], 3) == three
