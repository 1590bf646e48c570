"""The engine around a replica: while the disk does not answer, and with callers that fail."""

from __future__ import annotations

import asyncio
import threading

import pytest

from goblin_raft.config import Config
from goblin_raft.consensus.engine import RaftEngine
from goblin_raft.consensus.errors import StartRefused
from goblin_raft.reply import OK

SET = [["SET", 0, b"k", b"v", None, False, None]]


@pytest.fixture
def config(tmp_path):
    """One node without peers, with short deadlines."""
    return Config(
        dir=str(tmp_path),
        resp="127.0.0.1:0",
        raft="127.0.0.1:0",
        heartbeat_ms=10,
        election_min_ms=50,
        election_max_ms=60,
        leader_wait_ms=300,
        commit_timeout_ms=300,
    )


async def answer(ask) -> object:
    """What a callback gets."""
    future = asyncio.get_running_loop().create_future()
    ask(future.set_result)
    return await asyncio.wait_for(future, 5)


async def proposed(engine) -> list:
    return await answer(lambda settle: engine.propose(SET, 10, settle))


def test_a_disk_that_hangs_leaves_nobody_without_an_answer(config):
    async def story():
        engine = await RaftEngine.open(config)
        assert await proposed(engine) == [OK]
        disk, write = threading.Event(), engine._log.write

        def slow_write(batch):
            disk.wait(10)
            write(batch)

        engine._log.write = slow_write
        under_way = asyncio.ensure_future(proposed(engine))
        await asyncio.sleep(0)
        while not engine._writer.busy:  # noqa: ASYNC110 the event that it waits for is a private one
            await asyncio.sleep(0)
        behind = asyncio.ensure_future(proposed(engine))
        read = await answer(engine.read)
        assert (await under_way)[0].code == "UNCERTAIN"
        assert (await behind)[0].code == "CLUSTERDOWN"
        assert read.code == "CLUSTERDOWN"
        disk.set()
        while (await proposed(engine)) != [OK]:
            pass
        await engine.close()

    asyncio.run(story())


def test_a_caller_that_fails_at_its_answer_harms_nobody_else(config, caplog):
    async def story():
        engine = await RaftEngine.open(config)

        def bad(_):
            raise ValueError("a bug in one connection")

        engine.propose(SET, 10, bad)
        engine.read(bad)
        assert await proposed(engine) == [OK]
        assert await answer(engine.read) is None
        await engine.close()

    asyncio.run(story())
    assert caplog.text.count("answer.bug") == 2


def test_what_was_applied_is_there_after_a_restart(config):
    async def story():
        engine = await RaftEngine.open(config)
        assert await proposed(engine) == [OK]
        digest = engine.machine.keyspaces[0].values.copy()
        await engine.close()
        engine = await RaftEngine.open(config)
        assert await answer(engine.read) is None
        assert engine.machine.keyspaces[0].values == digest
        await engine.close()

    asyncio.run(story())


def test_a_directory_in_use_is_refused(config):
    async def story():
        engine = await RaftEngine.open(config)
        with pytest.raises(StartRefused, match="in use"):
            await RaftEngine.open(config)
        await engine.close()

    asyncio.run(story())
