"""Whether a request that failed may have been executed: the client's one job."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from chaos.client import DEFINITE, Client
from goblin_raft import errors

REQUEST = ("GET", "k")


def ask(answer: Callable[[asyncio.StreamWriter], None] | None, timeout_s: float = 0.2):
    """What a client makes of a server that reads one request and then does `answer`; None: it is
    not there at all."""

    async def scenario():
        async def serve(reader, writer):
            await reader.read(100)
            answer(writer)

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        address = server.sockets[0].getsockname()
        if answer is None:
            server.close()
            await server.wait_closed()
        client = Client(address, timeout_s)
        try:
            return await client.call(*REQUEST)
        finally:
            client.close()
            server.close()

    return asyncio.run(scenario())


@pytest.mark.parametrize("row", errors.TABLE, ids=lambda row: row.text)
def test_errors_of_our_table_say_whether_it_was_executed(row):
    answer = ask(lambda writer: writer.write(b"-" + row.text.encode() + b"\r\n"))
    assert answer.outcome == ("fail" if row.definite else "unknown")
    assert answer.answered
    assert answer.error == row.text


def test_an_error_in_no_table_says_nothing():
    assert ask(lambda writer: writer.write(b"-STRANGE thing\r\n")).outcome == "unknown"
    assert "STRANGE" not in DEFINITE


def test_a_value_is_ok():
    answer = ask(lambda writer: writer.write(b"$2\r\nhi\r\n"))
    assert (answer.outcome, answer.value) == ("ok", "hi")


def test_a_connection_that_was_never_made_executed_nothing():
    answer = ask(None)
    assert (answer.outcome, answer.answered) == ("fail", False)


@pytest.mark.parametrize(
    "answer",
    [
        lambda writer: writer.close(),
        lambda writer: writer.write(b"$2\r\nh"),
        lambda writer: writer.write(b"?nonsense\r\n"),
        lambda writer: None,
    ],
    ids=["closed", "cut off", "garbage", "silence"],
)
def test_no_whole_answer_is_unknown(answer):
    got = ask(answer)
    assert (got.outcome, got.answered) == ("unknown", False)


def test_what_belongs_to_a_lost_connection_is_not_sent_on_another():
    async def scenario():
        received = []

        async def serve(reader, writer):
            received.append(await reader.read(100))
            writer.write(b"+OK\r\n")

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        client = Client(server.sockets[0].getsockname(), 1)
        assert (await client.call("WATCH", "k")).outcome == "ok"
        connection = client.connection
        client.close()
        [answer] = await client.pipeline([("EXEC",)], on_connection=connection)
        assert (answer.outcome, answer.answered) == ("fail", False)
        assert len(received) == 1
        server.close()

    asyncio.run(scenario())
