"""Peer messages to bytes and back; whatever does not fit its schema exactly is refused.

A frame is a length (4 bytes, big endian) and one msgpack map. No other encoding is reachable from
a peer's bytes, pickle least of all. Knows nothing of sockets and nothing of what messages do.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import msgpack

from goblin_raft.consensus.stock import NO_OP, REGULAR, LogEntry, Message

PROTOCOL_VERSION = 3
HEADER = struct.Struct(">I")
# Before its hello a peer is a stranger.
HELLO_BYTES_MAX = 4096
INTEGER_MAX = 2**63 - 1


class BadFrame(Exception):
    """Bytes that are no message of ours; the connection they came on must be closed."""


def _integer(value: Any) -> bool:
    return type(value) is int and 0 <= value <= INTEGER_MAX


def _boolean(value: Any) -> bool:
    return type(value) is bool


def _text(value: Any) -> bool:
    return type(value) is str and len(value) <= 256


def _blob(value: Any) -> bool:
    return type(value) is bytes


def _blobs(value: Any) -> bool:
    return type(value) is list and all(type(item) is bytes for item in value)


def _list(value: Any) -> bool:
    return type(value) is list


_SCHEMAS: dict[str, dict[str, Callable[[Any], bool]]] = {
    "hello": {
        "version": _integer,
        "cluster": _text,
        "node": _text,
        "to": _text,
        "resp": _text,
    },
    "append_entries": {
        "term": _integer,
        "commit_index": _integer,
        "prev_index": _integer,
        "prev_term": _integer,
        "entries": _list,
        "clock_ms": _integer,
        "answer": _boolean,
    },
    "snapshot_chunk": {
        "term": _integer,
        "clock_ms": _integer,
        "last_index": _integer,
        "last_term": _integer,
        "size": _integer,
        "crc": _integer,
        "offset": _integer,
        "data": _blob,
    },
    "snapshot_answer": {
        "term": _integer,
        "last_index": _integer,
        "wanted": _integer,
        "done": _boolean,
        "damaged": _boolean,
    },
    "append_answer": {
        "term": _integer,
        "success": _boolean,
        "prev_index": _integer,
        "next_index": _integer,
        "last_index": _integer,
        "voter": _boolean,
    },
    "pre_vote": {"term": _integer, "last_log_index": _integer, "last_log_term": _integer},
    "pre_vote_answer": {
        "term": _integer,
        "granted": _boolean,
        "current_term": _integer,
        "blank": _boolean,
    },
    "request_vote": {
        "term": _integer,
        "last_log_index": _integer,
        "last_log_term": _integer,
        "transfer": _boolean,
    },
    "vote_answer": {"term": _integer, "granted": _boolean},
    "timeout_now": {"term": _integer},
    "forward": {"proposals": _blobs},
    "read_ask": {"term": _integer, "request": _integer},
    "read_probe": {"term": _integer, "round": _integer},
    "read_probe_answer": {"term": _integer, "round": _integer},
    "read_index": {"term": _integer, "request": _integer, "index": _integer},
}


def encode_frame(message: Message) -> bytes:
    """One message with its length in front."""
    body: bytes = msgpack.packb(message)
    return HEADER.pack(len(body)) + body


def decode_body(body: bytes) -> Message:
    """The message in a frame's body; BadFrame unless every field is as its schema says."""
    try:
        message = msgpack.unpackb(body, raw=False, strict_map_key=True, ext_hook=_no_extension)
    except Exception as error:  # msgpack raises many kinds, all of which mean the same
        msg = f"not msgpack ({type(error).__name__})"
        raise BadFrame(msg) from error
    kind = message.get("type") if type(message) is dict else None
    schema = _SCHEMAS.get(kind) if type(kind) is str else None
    if schema is None or len(message) != len(schema) + 1:
        msg = f"no message of ours: {str(kind)[:40]!r}"
        raise BadFrame(msg)
    for name, is_valid in schema.items():
        if name not in message or not is_valid(message[name]):
            msg = f"{kind} with a bad {name}"
            raise BadFrame(msg)
    if kind == "append_entries":
        message["entries"] = _entries(message)
    return message


def _no_extension(code: int, data: bytes) -> Any:
    msg = f"extension type {code}"
    raise ValueError(msg)


def _entries(message: Message) -> list[LogEntry]:
    """The entries as tuples: indexes without a gap, terms never falling, known kinds only."""
    entries: list[LogEntry] = []
    index, term = message["prev_index"], message["prev_term"]
    for entry in message["entries"]:
        index += 1
        if (
            type(entry) is not list
            or len(entry) != 3
            or type(entry[0]) is not bytes
            or entry[0][:1] not in (REGULAR, NO_OP)
            or entry[1] != index
            or not _integer(entry[1])
            or not _integer(entry[2])
            or not term <= entry[2] <= message["term"]
        ):
            msg = f"append_entries with a bad entry at {index}"
            raise BadFrame(msg)
        term = entry[2]
        entries.append((entry[0], index, term))
    return entries
