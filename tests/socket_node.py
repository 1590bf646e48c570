"""A frontend on a loopback socket in its own thread, over an engine that the test commands."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time

from goblin_raft.config import Config
from goblin_raft.consensus.memory import MemoryEngine
from goblin_raft.resp_frontend import Frontend
from tests.conftest import START_MS, START_WALL_MS


class HeldEngine(MemoryEngine):
    """Keeps what is proposed and what waits for a barrier until `release`, or refuses it."""

    def __init__(self, now_ms, wall_ms):
        super().__init__(now_ms, wall_ms=wall_ms)
        self.held = []
        self.settles = []  # of proposals that are held, to be answered otherwise
        self.holding = False
        self.refusals = []  # for what comes next, one each
        self.proposed = []  # the commands of each proposal

    def propose(self, commands, size_bytes, settle):
        self.proposed.append(commands)
        if self.refusals:
            settle([self.refusals.pop(0)] * len(commands))
        elif self.holding:
            self.settles.append(settle)
            self.held.append(lambda: super(HeldEngine, self).propose(commands, size_bytes, settle))
        else:
            super().propose(commands, size_bytes, settle)

    def read(self, ready):
        if self.refusals:
            ready(self.refusals.pop(0))
        elif self.holding:
            self.held.append(lambda: super(HeldEngine, self).read(ready))
        else:
            super().read(ready)

    def release(self):
        held, self.held = self.held, []
        for go in held:
            go()


class SocketNode:
    """Start it with `with`; `call` runs a function in the node's own thread."""

    def __init__(self, **settings):
        self.passed_ms = 0
        self.engine = HeldEngine(
            lambda: START_MS + self.passed_ms, lambda: START_WALL_MS + self.passed_ms
        )
        self.config = Config(resp="127.0.0.1:0", **settings)
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    async def _serve(self):
        self.loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self.frontend = Frontend(
            self.config, self.engine, now_s=lambda: (START_WALL_MS + self.passed_ms) / 1000
        )
        self.address = await self.frontend.listen()
        self._started.set()
        await self._stop.wait()
        self.frontend.close()
        await asyncio.sleep(0.01)

    def __enter__(self):
        self._thread.start()
        assert self._started.wait(5)
        return self

    def __exit__(self, *_):
        self.loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(5)
        assert not self._thread.is_alive()

    def pass_time(self, ms):
        self.passed_ms += ms

    def call(self, function):
        done = threading.Event()
        result = []

        def run():
            result.append(function())
            done.set()

        self.loop.call_soon_threadsafe(run)
        assert done.wait(10), "the node's thread is busy"
        return result[0]

    @contextlib.contextmanager
    def connect(self, timeout_s=10.0):
        with socket.create_connection(self.address, timeout=timeout_s) as client:
            yield client

    def exchange(self, data, *, half_close=True):
        """All that the node answers to these bytes until it closes."""
        with self.connect() as client:
            client.sendall(data)
            if half_close:
                client.shutdown(socket.SHUT_WR)
            return receive_all(client)


def receive_all(client):
    parts = []
    while data := client.recv(65536):
        parts.append(data)
    return b"".join(parts)


def receive(client, count):
    """Exactly so many bytes, or what came before the end."""
    parts = bytearray()
    while len(parts) < count and (data := client.recv(count - len(parts))):
        parts += data
    return bytes(parts)


def wait_until(condition, timeout_s=5.0):
    give_up = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < give_up, "it did not happen in time"
        time.sleep(0.005)
