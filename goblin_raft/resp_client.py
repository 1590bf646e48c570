"""A blocking Redis client for our own tools: one request, one reply; it must not know any command.

It is no client library: no pool, no retries. Applications use the Redis client that they have.
"""

from __future__ import annotations

import socket
import time
from typing import Any

import hiredis

CONNECT_TIMEOUT_S = 1.0
CALL_TIMEOUT_S = 2.0
RECEIVE_BYTES = 65_536


class RespError(Exception):
    """The node answered with an error; the text is that answer without the leading '-'."""


class RespClient:
    """One connection. Every call has a deadline, so that a paused node cannot hold up the tool.

    Connection trouble and an overrun deadline are OSErrors. After one of them the connection is
    of no use any more, because a late reply would be taken for that of the next call.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        timeout_s: float = CALL_TIMEOUT_S,
        login: tuple[str, str] | None = None,
    ) -> None:
        self._timeout_s = timeout_s
        self._reader = hiredis.Reader()
        self._socket = socket.create_connection((host, port), min(CONNECT_TIMEOUT_S, timeout_s))
        if login is not None:
            try:
                self.call("AUTH", *login)
            except BaseException:
                self.close()
                raise

    def __enter__(self) -> RespClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def call(self, *words: str | bytes | int) -> Any:
        """Send one request and return its reply: bytes, int, None or a list of these."""
        deadline_s = time.monotonic() + self._timeout_s
        self._socket.settimeout(self._timeout_s)
        # hiredis's own stub asks for a tuple of exactly one word.
        self._socket.sendall(hiredis.pack_command(words))  # type: ignore[arg-type]
        reply = self._receive(deadline_s)
        if isinstance(reply, hiredis.ReplyError):
            raise RespError(str(reply))
        return reply

    def _receive(self, deadline_s: float) -> Any:
        while True:
            try:
                reply = self._reader.gets()
            except hiredis.ProtocolError as error:
                raise ConnectionError(
                    f"what it answered is not the Redis protocol: {error}"
                ) from error
            # hiredis says False for "no whole reply yet"; RESP2 has no booleans to mix it up with.
            if reply is not False:
                return reply
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                raise TimeoutError("no answer in time")
            self._socket.settimeout(left_s)
            data = self._socket.recv(RECEIVE_BYTES)
            if not data:
                raise ConnectionError("the connection was closed")
            self._reader.feed(data)


def parse_info(reply: bytes) -> dict[str, str]:
    """The fields of an INFO reply by name, without its section headings."""
    lines = reply.decode("utf-8", "replace").splitlines()
    pairs = (line.partition(":") for line in lines if line and not line.startswith("#"))
    return {name: value for name, colon, value in pairs if colon}
