"""The links between nodes through a proxy, so that they can be cut and slowed without root.

Each node is told an address of its own for each peer. A node dials every peer and sends only on
the connection that it dialled, so one link (from, to) carries what `from` says to `to`, and cutting
one link cuts one direction. A cut link stalls its connections, as a network that drops packets
does: what was under way arrives when the link is whole again, unless the connection ended before.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

Address = tuple[str, int]
Pair = tuple[str, str]
# More than this waiting in the proxy, and the sender is not read any more.
QUEUE_BYTES_MAX = 1024 * 1024
# What a lost packet costs a TCP connection: the shortest time until it is sent again.
RETRANSMIT_S = 0.2
# Of ten losses one ends the connection.
RESET_SHARE = 0.1


@dataclass(slots=True)
class Shape:
    """How a link behaves. Losses are per chunk of bytes that passes."""

    blocked: bool = False
    delay_ms: float = 0.0
    jitter_ms: float = 0.0
    loss: float = 0.0


class Half(asyncio.Protocol):
    """One end of a connection through the proxy; what it receives goes to its twin."""

    def __init__(self, link: Link, *, dialled: bool) -> None:
        self.link = link
        self.dialled = dialled  # by us, towards the target
        self.twin: Half | None = None
        self.transport: asyncio.Transport | None = None
        self.queue: deque[tuple[float, bytes]] = deque()  # (when it is due at the twin, bytes)
        self.queued_bytes = 0
        self.timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.link.halves.add(self)
        if not self.dialled:
            self.link.reach(self)

    def data_received(self, data: bytes) -> None:
        shape, loop = self.link.shape, asyncio.get_running_loop()
        now_s = loop.time()
        wait_s = (shape.delay_ms + self.link.rng.uniform(0, shape.jitter_ms)) / 1000
        if shape.loss and self.link.rng.random() < shape.loss:
            if self.link.rng.random() < RESET_SHARE:
                self.abort()
                return
            wait_s += RETRANSMIT_S
        due_s = now_s + wait_s
        if self.queue:  # a stream keeps its order
            due_s = max(due_s, self.queue[-1][0])
        self.queue.append((due_s, data))
        self.queued_bytes += len(data)
        if self.queued_bytes > QUEUE_BYTES_MAX and self.transport is not None:
            self.transport.pause_reading()
        self.flush()

    def flush(self) -> None:
        """Hand on what is due, unless the link is cut or the other side not there yet."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        twin = self.twin
        if self.link.shape.blocked or twin is None or twin.transport is None:
            return
        now_s = asyncio.get_running_loop().time()
        while self.queue and self.queue[0][0] <= now_s:
            _, data = self.queue.popleft()
            self.queued_bytes -= len(data)
            if not twin.transport.is_closing():
                twin.transport.write(data)
        if self.queue:
            self.timer = asyncio.get_running_loop().call_at(self.queue[0][0], self.flush)
        if self.queued_bytes <= QUEUE_BYTES_MAX and self.transport is not None:
            self.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """An end is seen by the other side only if the link lets it through."""
        self.link.halves.discard(self)
        self.transport = None
        if self.timer is not None:
            self.timer.cancel()
        if self.twin is not None and self.twin.transport is not None:
            if self.link.shape.blocked:
                self.link.ended.append(self.twin)
            else:
                self.twin.transport.abort()

    def abort(self) -> None:
        for half in (self, self.twin):
            if half is not None and half.transport is not None:
                half.transport.abort()


class Link:
    """What one node says to one other."""

    def __init__(self, rng: random.Random, target: Address) -> None:
        self.rng = rng
        self.target = target
        self.shape = Shape()
        self.halves: set[Half] = set()
        self.ended: list[Half] = []  # their other end is gone, and they do not know yet
        self.server: asyncio.Server | None = None
        self.tasks: set[asyncio.Task[None]] = set()

    async def listen(self) -> Address:
        loop = asyncio.get_running_loop()
        self.server = await loop.create_server(lambda: Half(self, dialled=False), "127.0.0.1", 0)
        host, port = self.server.sockets[0].getsockname()
        return host, port

    def reach(self, half: Half) -> None:
        """Somebody dialled: go on to the target."""
        task = asyncio.get_running_loop().create_task(self._reach(half))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _reach(self, half: Half) -> None:
        """Connect the other side. While the link is cut nobody answers, as with lost packets."""
        while self.shape.blocked:  # noqa: ASYNC110 rare, and nothing waits for this
            await asyncio.sleep(0.02)
        if half.transport is None:
            return
        twin = Half(self, dialled=True)
        twin.twin = half
        try:
            await asyncio.get_running_loop().create_connection(lambda: twin, *self.target)
        except OSError:
            half.abort()
            return
        half.twin = twin
        if half.transport is None:
            twin.abort()
        half.flush()

    def change(self, shape: Shape, *, reset: bool = False) -> None:
        self.shape = shape
        if reset:
            for half in list(self.halves):
                half.abort()
        if not shape.blocked:
            for half in self.ended:
                half.abort()
            self.ended.clear()
            for half in list(self.halves):
                half.flush()

    async def close(self) -> None:
        if self.server is not None:
            self.server.close()
        for task in list(self.tasks):
            task.cancel()
        for half in list(self.halves):
            half.abort()


class ProxyLinks:
    """All links of a cluster. See netns.py for the same with root."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._links: dict[Pair, Link] = {}
        self._addresses: dict[Pair, Address] = {}

    async def open(self, raft_ports: dict[str, int]) -> None:
        """Begin, for nodes of these ids and raft ports."""
        for source in raft_ports:
            for target, port in raft_ports.items():
                if source != target:
                    link = Link(self._rng, ("127.0.0.1", port))
                    self._links[source, target] = link
                    self._addresses[source, target] = await link.listen()

    def host(self, node_id: str) -> str:
        """Where a node listens."""
        return "127.0.0.1"

    def address(self, source: str, target: str, port: int) -> Address:
        """Where `source` finds the raft port of `target`."""
        return self._addresses[source, target]

    def wrap(self, node_id: str, command: list[str]) -> list[str]:
        """The command line that runs `command` as this node."""
        return command

    async def cut(self, pairs: Iterable[Pair], *, reset: bool = False) -> None:
        """Nothing passes on these links; with `reset` their connections end as well."""
        for pair in pairs:
            self._links[pair].change(Shape(blocked=True), reset=reset)

    async def shape(
        self, pairs: Iterable[Pair], *, delay_ms: float, jitter_ms: float, loss: float
    ) -> None:
        """These links are slow and lose packets."""
        for pair in pairs:
            self._links[pair].change(Shape(delay_ms=delay_ms, jitter_ms=jitter_ms, loss=loss))

    async def heal(self, pairs: Iterable[Pair] | None = None) -> None:
        """These links, or all, are whole and fast."""
        for pair in self._links if pairs is None else pairs:
            self._links[pair].change(Shape())

    async def close(self) -> None:
        for link in self._links.values():
            await link.close()
