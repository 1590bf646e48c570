"""Links that can be cut: what passes, what waits, what is told."""

from __future__ import annotations

import asyncio
import random
import time

import pytest

from chaos.proxy import ProxyLinks


def scenario(story):
    """Run `story(links, reader, writer)` on a connection a -> b to a server that echoes."""

    async def run():
        async def echo(reader, writer):
            try:
                while data := await reader.read(1000):
                    writer.write(data)
            except ConnectionError:
                pass
            finally:
                writer.close()

        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        links = ProxyLinks(random.Random(1))
        await links.open({"a": 1, "b": server.sockets[0].getsockname()[1]})
        reader, writer = await asyncio.open_connection(*links.address("a", "b", 0))
        try:
            await story(links, reader, writer)
        finally:
            writer.close()
            await links.close()
            server.close()

    asyncio.run(run())


async def answer(reader, within_s=2.0):
    return await asyncio.wait_for(reader.read(1000), within_s)


def test_a_whole_link_passes_everything_in_order():
    async def story(links, reader, writer):
        sent = b"".join(b"%d," % number for number in range(20_000))
        writer.write(sent)
        got = b""
        while len(got) < len(sent):
            got += await answer(reader)
        assert got == sent

    scenario(story)


def test_a_cut_link_keeps_what_was_under_way_and_delivers_it_later():
    async def story(links, reader, writer):
        await links.cut([("a", "b")])
        writer.write(b"late")
        with pytest.raises(TimeoutError):
            await answer(reader, 0.1)
        await links.heal()
        assert await answer(reader) == b"late"

    scenario(story)


def test_the_other_direction_is_another_link():
    async def story(links, reader, writer):
        await links.cut([("b", "a")])
        writer.write(b"hears")
        assert await answer(reader) == b"hears"

    scenario(story)


def test_a_connection_over_a_cut_link_is_made_when_it_is_whole():
    async def story(links, reader, writer):
        await links.cut([("a", "b")])
        other_reader, other_writer = await asyncio.open_connection(*links.address("a", "b", 0))
        other_writer.write(b"hello")
        with pytest.raises(TimeoutError):
            await answer(other_reader, 0.1)
        await links.heal([("a", "b")])
        assert await answer(other_reader) == b"hello"
        other_writer.close()

    scenario(story)


def test_a_reset_ends_connections():
    async def story(links, reader, writer):
        writer.write(b"x")
        await answer(reader)
        await links.cut([("a", "b")], reset=True)
        try:
            assert await answer(reader) == b""
        except ConnectionError:
            pass  # an end is an end

    scenario(story)


def test_a_slow_link_delays_and_keeps_the_order():
    async def story(links, reader, writer):
        await links.shape([("a", "b")], delay_ms=40, jitter_ms=40, loss=0)
        began_s = time.monotonic()
        got = b""
        for number in range(5):
            writer.write(b"%d" % number)
            await asyncio.sleep(0.002)
        while len(got) < 5:
            got += await answer(reader)
        assert got == b"01234"
        assert time.monotonic() - began_s >= 0.08  # there and back

    scenario(story)


def test_a_lossy_link_delivers_late_or_breaks():
    async def story(links, reader, writer):
        await links.shape([("a", "b")], delay_ms=0, jitter_ms=0, loss=1.0)
        began_s = time.monotonic()
        writer.write(b"x")
        try:
            got = await answer(reader)
        except ConnectionError:
            got = b""
        assert got == b"" or time.monotonic() - began_s >= 0.2

    scenario(story)
