"""Peer messages: a round trip for each kind, and a refusal of everything else."""

from __future__ import annotations

import pickle

import msgpack
import pysyncobj.pickle
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goblin_raft.consensus import codec
from goblin_raft.consensus.codec import HEADER, BadFrame, decode_body, encode_frame

ENTRY = (b"\x00abc", 5, 2)
MESSAGES = [
    {"type": "hello", "version": 1, "cluster": "g", "node": "n1", "to": "n2", "resp": "h:1"},
    {
        "type": "append_entries",
        "term": 2,
        "commit_index": 3,
        "prev_index": 4,
        "prev_term": 1,
        "entries": [ENTRY, (b"\x01", 6, 2)],
        "clock_ms": 77,
        "answer": True,
    },
    {
        "type": "append_answer",
        "term": 2,
        "success": True,
        "prev_index": 4,
        "next_index": 7,
        "last_index": 6,
        "voter": True,
    },
    {
        "type": "snapshot_chunk",
        "term": 2,
        "clock_ms": 77,
        "last_index": 9,
        "last_term": 1,
        "size": 100,
        "crc": 5,
        "offset": 50,
        "data": b"abc",
    },
    {
        "type": "snapshot_answer",
        "term": 2,
        "last_index": 9,
        "wanted": 53,
        "done": False,
        "damaged": False,
    },
    {"type": "pre_vote", "term": 2, "last_log_index": 3, "last_log_term": 1},
    {"type": "pre_vote_answer", "term": 2, "granted": False, "current_term": 3, "blank": False},
    {"type": "request_vote", "term": 2, "last_log_index": 3, "last_log_term": 1, "transfer": True},
    {"type": "vote_answer", "term": 2, "granted": True},
    {"type": "timeout_now", "term": 2},
    {"type": "forward", "proposals": [b"a", b"b"]},
    {"type": "read_ask", "term": 2, "request": 1},
    {"type": "read_probe", "term": 2, "round": 1},
    {"type": "read_probe_answer", "term": 2, "round": 1},
    {"type": "read_index", "term": 2, "request": 1, "index": 9},
]


def test_every_kind_of_message_is_tried_here():
    assert {message["type"] for message in MESSAGES} == set(codec._SCHEMAS)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message["type"])
def test_a_message_comes_back_as_it_was(message):
    assert decode_body(encode_frame(message)[HEADER.size :]) == message


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message["type"])
def test_a_field_that_is_missing_added_or_of_another_kind_is_refused(message):
    for name in message:
        without = {key: value for key, value in message.items() if key != name}
        for bad in (
            without,
            {**message, "more": 1},
            {**message, name: None},
            {**message, name: -1},
            {**message, name: 1.5},
            {**message, name: {"a": 1}},
        ):
            with pytest.raises(BadFrame):
                decode_body(msgpack.packb(bad))


@pytest.mark.parametrize(
    "entries",
    [
        [(b"\x00a", 6, 2)],  # a gap
        [(b"\x00a", 5, 3)],  # beyond the leader's term
        [(b"\x00a", 5, 0)],  # before the previous term
        [(b"\x02a", 5, 2)],  # a membership change
        [(b"\x03a", 5, 2)],  # a code version
        [(b"", 5, 2)],
        [("text", 5, 2)],
        [(b"\x00a", True, 2)],
        [(b"\x00a", 5)],
        [5],
    ],
)
def test_entries_that_no_leader_sends_are_refused(entries):
    with pytest.raises(BadFrame):
        decode_body(msgpack.packb({**MESSAGES[1], "entries": entries}))


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_refused(data):
    try:
        message = decode_body(data)
    except BadFrame:
        return
    assert message["type"] in codec._SCHEMAS


def test_no_bytes_reach_pickle(monkeypatch):
    def loads(*_):
        raise AssertionError("pickle was reached")

    for module in (pickle, pysyncobj.pickle):
        monkeypatch.setattr(module, "loads", loads)
    with pytest.raises(BadFrame):
        decode_body(pickle.dumps({"type": "timeout_now", "term": 1}))
