"""Every field of every kind of peer message, from its schema: what fits comes back as it was, what
does not is refused, and nothing but BadFrame is ever raised."""

from __future__ import annotations

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goblin_raft.consensus import codec
from goblin_raft.consensus.codec import HEADER, INTEGER_MAX, BadFrame, decode_body, encode_frame

KINDS = sorted(codec._SCHEMAS)
TEXT_MAX = 256

integers = st.integers(0, INTEGER_MAX)
blobs = st.binary(max_size=40)
VALID = {
    codec._integer: integers,
    codec._boolean: st.booleans(),
    codec._text: st.text(max_size=TEXT_MAX),
    codec._blob: blobs,
    codec._blobs: st.lists(blobs, max_size=4),
    codec._list: st.just([]),
}
# One value of each msgpack type, and the ends of what an integer may be.
WRONG = {
    "nil": st.none(),
    "boolean": st.booleans(),
    "integer": integers,
    "negative": st.integers(-(2**63), -1),
    "too large": st.integers(INTEGER_MAX + 1, 2**64 - 1),
    "float": st.floats(),
    "text": st.text(max_size=8),
    "long text": st.text(min_size=TEXT_MAX + 1, max_size=TEXT_MAX + 8),
    "blob": blobs,
    "list": st.lists(integers, min_size=1, max_size=3),
    "list of text": st.lists(st.text(max_size=3), min_size=1, max_size=2),
    "empty list": st.just([]),
    "map": st.dictionaries(st.text(max_size=3), integers, max_size=2),
}
FITS = {
    codec._integer: {"integer"},
    codec._boolean: {"boolean"},
    codec._text: {"text"},
    codec._blob: {"blob"},
    codec._blobs: {"empty list"},
    codec._list: {"empty list"},
}


@st.composite
def entries(draw, previous: int, previous_term: int, term: int):
    """A row of entries as a leader of this term sends it."""
    found = []
    for number in range(draw(st.integers(0, 4))):
        previous_term = draw(st.integers(previous_term, term))
        command = draw(st.sampled_from([b"\x00", b"\x01"])) + draw(blobs)
        found.append((command, previous + 1 + number, previous_term))
    return found


@st.composite
def messages(draw, kind: str | None = None):
    """Any message that is right."""
    kind = kind or draw(st.sampled_from(KINDS))
    message = {"type": kind}
    for name, is_valid in codec._SCHEMAS[kind].items():
        message[name] = draw(VALID[is_valid])
    if kind == "append_entries":
        message["prev_index"] = draw(st.integers(0, 2**62))
        message["prev_term"] = draw(st.integers(0, message["term"]))
        message["entries"] = draw(
            entries(message["prev_index"], message["prev_term"], message["term"])
        )
    return message


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=20, deadline=None)
def test_what_fits_comes_back_as_it_was(kind, data):
    message = data.draw(messages(kind))
    assert decode_body(encode_frame(message)[HEADER.size :]) == message


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=5, deadline=None)
def test_each_field_of_each_other_type_or_range_is_refused(kind, data):
    message = data.draw(messages(kind))
    for name, is_valid in codec._SCHEMAS[kind].items():
        for what, values in WRONG.items():
            if what in FITS[is_valid]:
                continue
            bad = {**message, name: data.draw(values)}
            with pytest.raises(BadFrame):
                decode_body(msgpack.packb(bad))


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=5, deadline=None)
def test_a_field_too_many_or_too_few_is_refused(kind, data):
    message = data.draw(messages(kind))
    name = data.draw(st.sampled_from(sorted(message)))
    without = {key: value for key, value in message.items() if key != name}
    other = data.draw(st.text(max_size=8).filter(lambda text: text not in message))
    for bad in (without, {**message, other: 1}, {**without, other: 1}, {**message, 5: 1}):
        with pytest.raises(BadFrame):
            decode_body(msgpack.packb(bad))


BAD_ENTRIES = {
    "a gap": lambda e, m: [e[0], e[1] + 1, e[2]],
    "a repetition": lambda e, m: [e[0], e[1] - 1, e[2]],
    "beyond the leader's term": lambda e, m: [e[0], e[1], m["term"] + 1],
    "before the term before it": lambda e, m: [e[0], e[1], m["prev_term"] - 1],
    "an unknown type": lambda e, m: [b"\x02" + e[0][1:], e[1], e[2]],
    "empty": lambda e, m: [b"", e[1], e[2]],
    "text": lambda e, m: ["\x00", e[1], e[2]],
    "no term": lambda e, m: [e[0], e[1]],
    "more": lambda e, m: [*e, 1],
    "a boolean": lambda e, m: [e[0], True, e[2]],
    "a float": lambda e, m: [e[0], float(e[1]), e[2]],
    "a map": lambda e, m: {"command": e[0]},
}


@pytest.mark.parametrize("change", BAD_ENTRIES.values(), ids=BAD_ENTRIES)
@given(data=st.data())
@settings(max_examples=10, deadline=None)
def test_each_bad_entry_among_good_ones_is_refused(change, data):
    term = data.draw(st.integers(1, 2**40))
    previous_term = data.draw(st.integers(1, term))
    previous = data.draw(st.integers(1, 2**40))
    good = data.draw(entries(previous, previous_term, term).filter(bool))
    message = {**data.draw(messages("append_entries")), "term": term, "entries": good}
    message.update(prev_index=previous, prev_term=previous_term)
    assert decode_body(msgpack.packb(message)) == message
    position = data.draw(st.integers(0, len(good) - 1))
    changed = change(list(good[position]), message)
    bad = [*good[:position], changed, *good[position + 1 :]]
    with pytest.raises(BadFrame):
        decode_body(msgpack.packb({**message, "entries": bad}))


@given(message=messages(), data=st.data())
@settings(max_examples=300, deadline=None)
def test_changed_bytes_are_a_message_or_refused(message, data):
    """Bytes flipped, cut out or put in: mostly close to being right."""
    body = bytearray(encode_frame(message)[HEADER.size :])
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(body)))
        match data.draw(st.sampled_from(["flip", "cut", "put"])):
            case "flip" if at < len(body):
                body[at] ^= 1 << data.draw(st.integers(0, 7))
            case "cut":
                del body[at : at + data.draw(st.integers(1, 4))]
            case _:
                body[at:at] = data.draw(st.binary(min_size=1, max_size=4))
    check(bytes(body))


def check(body: bytes) -> None:
    """What is accepted is right, and means the same after another trip."""
    try:
        message = decode_body(body)
    except BadFrame:
        return
    schema = codec._SCHEMAS[message["type"]]
    assert set(message) == {"type", *schema}
    assert all(is_valid(message[name]) for name, is_valid in schema.items())
    assert decode_body(encode_frame(message)[HEADER.size :]) == message
