"""One connection to one node, one request at a time, and what became of each request.

Certain about one thing above all: whether a request that failed may have been executed. Knows the
Redis protocol and the table of errors; nothing of what the requests mean. It never retries.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Any

import hiredis

from chaos.history import Outcome
from goblin_raft import errors

CONNECT_TIMEOUT_S = 1.0
RECEIVE_BYTES = 65_536
# By the code that an error begins with: does it say that the command was certainly not executed?
DEFINITE: dict[str, bool] = {}
for _row in errors.TABLE:
    DEFINITE[_row.code] = DEFINITE.get(_row.code, True) and _row.definite


@dataclass(frozen=True, slots=True)
class Answer:
    """`value` counts with outcome ok, `error` otherwise. `answered`: the node said so itself."""

    outcome: Outcome
    value: Any = None
    error: str | None = None
    answered: bool = True


class Client:
    """Connects by itself when it has to. An unanswered request costs the connection."""

    def __init__(
        self,
        address: tuple[str, int],
        timeout_s: float,
        definite: dict[str, bool] = DEFINITE,
    ) -> None:
        self.address = address
        self.timeout_s = timeout_s
        self.connection = 0  # how many there were: what a connection holds goes with it
        self._definite = definite
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._replies = hiredis.Reader(encoding="utf-8", errors="replace")

    async def call(self, *words: str | int) -> Answer:
        """One request; never raises."""
        return (await self.pipeline([words]))[0]

    async def pipeline(
        self, requests: list[tuple[str | int, ...]], *, on_connection: int | None = None
    ) -> list[Answer]:
        """Several requests sent at once; one answer each. With `on_connection`, only there."""
        if on_connection is not None and (self._writer is None or on_connection != self.connection):
            failed = Answer("fail", error="not sent: the connection is gone", answered=False)
            return [failed] * len(requests)
        if self._writer is None:
            try:
                await self._connect()
            except (OSError, TimeoutError) as error:
                # Nothing was sent, so nothing was executed.
                failed = Answer("fail", error=f"no connection: {describe(error)}", answered=False)
                return [failed] * len(requests)
        assert self._writer is not None
        answers: list[Answer] = []
        try:
            async with asyncio.timeout(self.timeout_s):
                self._writer.write(b"".join(hiredis.pack_command(r) for r in requests))
                while len(answers) < len(requests):
                    answers.append(self._classify(await self._receive()))
        except (OSError, TimeoutError, hiredis.ProtocolError) as error:
            self.close()
            lost = Answer("unknown", error=f"no answer: {describe(error)}", answered=False)
            answers += [lost] * (len(requests) - len(answers))
        except asyncio.CancelledError:
            self.close()
            raise
        return answers

    def close(self) -> None:
        """The next request begins a new connection."""
        if self._writer is not None:
            with contextlib.suppress(OSError, RuntimeError):
                self._writer.transport.abort()
        self._writer = None

    async def _connect(self) -> None:
        async with asyncio.timeout(min(CONNECT_TIMEOUT_S, self.timeout_s)):
            self._reader, self._writer = await asyncio.open_connection(*self.address)
        self.connection += 1
        self._replies = hiredis.Reader(encoding="utf-8", errors="replace")

    async def _receive(self) -> Any:
        assert self._reader is not None
        # False is hiredis's word for "no whole reply yet"; RESP2 has no booleans.
        while (reply := self._replies.gets()) is False:
            data = await self._reader.read(RECEIVE_BYTES)
            if not data:
                msg = "the connection was closed"
                raise ConnectionError(msg)
            self._replies.feed(data)
        return reply

    def _classify(self, reply: Any) -> Answer:
        if not isinstance(reply, hiredis.ReplyError):
            return Answer("ok", reply)
        text = str(reply)
        # A code that is in no table says nothing certain.
        definite = self._definite.get(text.partition(" ")[0], False)
        return Answer("fail" if definite else "unknown", error=text)


def describe(error: BaseException) -> str:
    return str(error) or type(error).__name__
