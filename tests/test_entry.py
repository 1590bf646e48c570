"""The log format: what is written is read back, and what is not ours is never guessed at."""

from __future__ import annotations

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goblin_raft.entry import (
    Entry,
    Proposal,
    Unreadable,
    decode_entry,
    decode_proposal,
    encode_entry,
    encode_proposal,
    entry_stamp_ms,
)

TIMES = st.integers(-(2**63), 2**64 - 1)
NUMBERS = st.integers(0, 2**64 - 1)
VALUES = st.none() | st.booleans() | NUMBERS | st.floats(allow_nan=False) | st.binary() | st.text()
COMMANDS = st.lists(st.lists(VALUES | st.lists(st.binary()), min_size=2))


@given(TIMES, TIMES, st.lists(st.binary()))
def test_an_entry_comes_back(stamp_ms, wall_ms, proposals):
    data = encode_entry(stamp_ms, wall_ms, proposals)
    assert decode_entry(data) == Entry(stamp_ms, wall_ms, proposals)
    assert entry_stamp_ms(data) == stamp_ms


@given(st.text(), NUMBERS, NUMBERS, NUMBERS, COMMANDS)
def test_a_proposal_comes_back(origin, boot, sequence, settled, commands):
    data = encode_proposal(origin, boot, sequence, settled, commands)
    assert decode_proposal(data) == Proposal(origin, boot, sequence, settled, commands)


def test_the_bytes_of_version_1_do_not_change():
    """Logs of released versions hold these bytes: a new format needs a new version."""
    proposal = encode_proposal("n1", 7, 3, 2, [["GOBLIN.CLAIM", 0, b"c", b"r", b"t", 30_000]])
    assert proposal.hex() == (
        "95a26e310703029196ac" + b"GOBLIN.CLAIM".hex() + "00c40163c40172c40174cd7530"
    )
    assert encode_entry(1000, 2000, [proposal]).hex() == "9401cd03e8cd07d091c423" + proposal.hex()
    assert encode_entry(5, 6, []).hex() == "9401050690"


@given(st.binary())
def test_any_bytes_are_readable_or_unreadable(data):
    for decode in (decode_entry, decode_proposal, entry_stamp_ms):
        try:
            decode(data)
        except Unreadable:
            pass


@given(st.data())
def test_no_beginning_of_an_entry_is_an_entry(data):
    entry = encode_entry(1000, 2000, [b"proposal"])
    end = data.draw(st.integers(0, len(entry) - 1))
    with pytest.raises(Unreadable):
        decode_entry(entry[:end])


def test_a_later_version_is_named():
    data = msgpack.packb([2, 1000, "whatever comes then"])
    for decode in (decode_entry, entry_stamp_ms):
        with pytest.raises(Unreadable, match="format 2"):
            decode(data)


@pytest.mark.parametrize("data", [b"", b"\xc1", msgpack.packb([1, "1", 2, []]), b"\x93\x01\x01"])
def test_what_is_not_ours(data):
    with pytest.raises(Unreadable):
        decode_entry(data)
