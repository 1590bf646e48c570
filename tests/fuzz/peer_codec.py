"""Coverage-guided fuzzing of what comes from peers, by hand: frames and messages, with atheris.

    pip install atheris
    PYTHONPATH=. python tests/fuzz/peer_codec.py -max_total_time=300

The rules: whatever the bytes, a message is refused with BadFrame or is right by its schema and
survives another trip; a connection is closed or goes on, and before its hello nothing gets through.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import atheris

with atheris.instrument_imports():
    from goblin_raft.consensus import codec, transport

FRAME_BYTES_MAX = 1 << 20


class Network:
    """What a connection asks of the node around it."""

    frame_bytes_max = FRAME_BYTES_MAX
    cluster_name = "g"
    node_id = "n1"
    peers = ("n2",)

    def __init__(self) -> None:
        self.resp_addresses: dict[str, str] = {}
        self.greeted = False
        self.messages: list[dict] = []

    def hello(self, to: str) -> dict:
        return {"type": "hello", "version": 1, "cluster": "g", "node": "n1", "to": to, "resp": ""}

    def replace_incoming(self, peer_id: str, session) -> None:
        self.greeted = True

    def on_message(self, peer_id: str, message: dict) -> None:
        assert self.greeted
        assert peer_id == "n2"
        self.messages.append(message)


HELLO = codec.encode_frame(
    {
        "type": "hello",
        "version": codec.PROTOCOL_VERSION,
        "cluster": "g",
        "node": "n2",
        "to": "n1",
        "resp": "",
    }
)


def one_message(body: bytes) -> None:
    try:
        message = codec.decode_body(body)
    except codec.BadFrame:
        return
    schema = codec._SCHEMAS[message["type"]]
    assert set(message) == {"type", *schema}
    assert all(is_valid(message[name]) for name, is_valid in schema.items())
    assert codec.decode_body(codec.encode_frame(message)[codec.HEADER.size :]) == message


def one_connection(data: bytes, *, greeted: bool, cut: int) -> None:
    network = Network()
    session = transport.Frames(network, None)
    session.transport = SimpleNamespace(
        write=lambda _: None, abort=lambda: None, get_extra_info=lambda _: None
    )
    if greeted:
        session.data_received(HELLO)
        assert network.greeted
    for piece in (data[:cut], data[cut:]):
        if not session.closed:
            session.data_received(piece)
    assert len(session._buffer) <= FRAME_BYTES_MAX + codec.HEADER.size + len(data)


def test_one_input(data: bytes) -> None:
    if len(data) < 2:
        return
    kind, cut, rest = data[0], data[1], data[2:]
    if kind & 1:
        one_message(rest)
    else:
        one_connection(rest, greeted=bool(kind & 2), cut=cut)


def seeds() -> str:
    """A directory with one input for each kind of message."""
    from tests.test_codec import MESSAGES

    directory = Path(tempfile.mkdtemp(prefix="goblin-fuzz-"))
    for message in MESSAGES:
        frame = codec.encode_frame(message)
        name = message["type"]
        (directory / f"{name}-body").write_bytes(b"\x01\x00" + frame[codec.HEADER.size :])
        (directory / f"{name}-frame").write_bytes(b"\x02\x05" + frame)
    return str(directory)


if __name__ == "__main__":
    import logging

    logging.disable(logging.CRITICAL)
    atheris.Setup([*sys.argv, seeds()], test_one_input)
    atheris.Fuzz()
