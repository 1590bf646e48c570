"""How a log entry looks in bytes, version 1; what its commands mean is not known here.

    entry      [version, stamp_ms, wall_ms, [proposal, ...]]       the leader writes it
    proposal   [origin, boot, sequence, settled, [command, ...]]   the origin writes it, once
    command    [name, database, argument, ...]                     decoded arguments

All msgpack. An entry without proposals is a tick: it carries time and nothing else. A proposal
stays the bytes that its origin made of it, so the leader neither reads nor re-encodes it.

The names, number and meaning of a command's arguments are part of this format: the log of an
older version is read for as long as its entries are there. Change them only together with
`VERSION`, or under a new command name; or add to their end what has a default in the handler.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgpack

VERSION = 1

# The head of an entry: array, version and stamp are at most 1 + 1 + 9 bytes.
_HEAD_BYTES = 11


class Unreadable(Exception):
    """This version cannot read what lies in the log. The node must stop; it must never skip it."""


class Entry(NamedTuple):
    """What the leader put into one place of the log."""

    stamp_ms: int
    wall_ms: int
    proposals: list[bytes]


class Proposal(NamedTuple):
    """What one node proposed at once, under one id."""

    origin: str
    boot: int
    sequence: int
    # Every sequence below this one has its outcome at the origin and will never be sent again.
    settled: int
    commands: list[list[Any]]


def encode_entry(stamp_ms: int, wall_ms: int, proposals: list[bytes]) -> bytes:
    """An entry, ready for the log."""
    return msgpack.packb((VERSION, stamp_ms, wall_ms, proposals))  # type: ignore[no-any-return]


def decode_entry(data: bytes) -> Entry:
    """The inverse; raises Unreadable."""
    match _unpack(data):
        case [int(version), *_] if version != VERSION:
            msg = f"the log entry has format {version}; this version reads format {VERSION}"
            raise Unreadable(msg)
        case [_, int(stamp_ms), int(wall_ms), list(proposals)]:
            return Entry(stamp_ms, wall_ms, proposals)
    msg = "the log entry is not one of ours"
    raise Unreadable(msg)


def entry_stamp_ms(data: bytes) -> int:
    """The stamp alone, for a node that has the entry and does not apply it yet."""
    unpacker = msgpack.Unpacker()
    unpacker.feed(data[:_HEAD_BYTES])
    try:
        unpacker.read_array_header()
        version, stamp_ms = unpacker.unpack(), unpacker.unpack()
    except Exception as error:
        msg = "the log entry is not one of ours"
        raise Unreadable(msg) from error
    if version != VERSION or not isinstance(stamp_ms, int):
        msg = f"the log entry has format {version}; this version reads format {VERSION}"
        raise Unreadable(msg)
    return stamp_ms


def encode_proposal(
    origin: str, boot: int, sequence: int, settled: int, commands: list[list[Any]]
) -> bytes:
    """A proposal, to be sent to the leader as often as needed, always these same bytes."""
    return msgpack.packb(  # type: ignore[no-any-return]
        (origin, boot, sequence, settled, commands)
    )


def decode_proposal(data: bytes) -> Proposal:
    """The inverse; raises Unreadable."""
    match _unpack(data):
        case [str(origin), int(boot), int(sequence), int(settled), list(commands)]:
            return Proposal(origin, boot, sequence, settled, commands)
    msg = "the proposal is not one of ours"
    raise Unreadable(msg)


def _unpack(data: bytes) -> Any:
    try:
        return msgpack.unpackb(data)
    except MemoryError:
        raise
    except Exception as error:  # msgpack has many ways to say that bytes are not msgpack
        msg = f"the log holds bytes that are not msgpack: {type(error).__name__}"
        raise Unreadable(msg) from error
