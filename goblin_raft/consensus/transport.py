"""Sessions between nodes: who may speak, in order, at most once, never across two sessions.

Each node dials every peer and sends on the connection that it dialled; what it hears comes on
those that the peers dialled. So no tie is to be broken, and a session has one direction. Knows
nothing of what messages mean.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable

from goblin_raft.config import Address, Config
from goblin_raft.consensus.codec import (
    HEADER,
    HELLO_BYTES_MAX,
    PROTOCOL_VERSION,
    BadFrame,
    decode_body,
    encode_frame,
)
from goblin_raft.consensus.stock import Message

logger = logging.getLogger(__name__)

RETRY_MIN_S = 0.05
RETRY_MAX_S = 0.5
DIAL_TIMEOUT_S = 1.0
HELLO_TIMEOUT_S = 5.0
# A peer that does not read costs this much memory at most; then its session ends.
SEND_BYTES_MAX = 64 * 1024 * 1024
# What a message adds around the entries or proposals in it.
FRAME_OVERHEAD_BYTES = 1024 * 1024


class Frames(asyncio.Protocol):
    """A connection as frames; any byte that does not fit closes it, and nothing else."""

    def __init__(self, network: Network, expected_peer: str | None) -> None:
        self.network = network
        self.expected_peer = expected_peer  # whom we dialled; None: who dialled us
        self.peer_id: str | None = None  # known after its hello
        self.closed = False
        self._buffer = bytearray()
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Say hello if we dialled; who does not say hello in time is no peer."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        # asyncio sets TCP_NODELAY by itself.
        self.network.give_up_on_silence(transport)
        transport.set_write_buffer_limits(high=SEND_BYTES_MAX)
        if self.network.is_paused:
            self.abort()
            return
        if self.expected_peer is not None:
            transport.write(encode_frame(self.network.hello(self.expected_peer)))
        asyncio.get_running_loop().call_later(HELLO_TIMEOUT_S, self._check_hello)

    def _check_hello(self) -> None:
        if self.peer_id is None:
            self.abort()

    def data_received(self, data: bytes) -> None:
        """Cut frames, check them, hand them on."""
        buffer = self._buffer
        buffer += data
        start = 0
        while not self.closed and len(buffer) - start >= HEADER.size:
            (size,) = HEADER.unpack_from(buffer, start)
            limit = HELLO_BYTES_MAX if self.peer_id is None else self.network.frame_bytes_max
            if size > limit:
                self._refuse(f"a frame of {size} bytes")
                return
            end = start + HEADER.size + size
            if len(buffer) < end:
                break
            body = bytes(memoryview(buffer)[start + HEADER.size : end])
            start = end
            try:
                self._frame(decode_body(body))
            except BadFrame as error:
                self._refuse(str(error))
                return
        if start:
            del buffer[:start]

    def _frame(self, message: Message) -> None:
        if self.peer_id is None:
            self._greet(message)
        elif self.expected_peer is not None or message["type"] == "hello":
            msg = "a message in the wrong direction"
            raise BadFrame(msg)
        else:
            self.network.on_message(self.peer_id, message)

    def _greet(self, message: Message) -> None:
        network = self.network
        if message["type"] != "hello":
            msg = "no hello"
            raise BadFrame(msg)
        peer_id = message["node"]
        if (
            message["version"] != PROTOCOL_VERSION
            or message["cluster"] != network.cluster_name
            or message["to"] != network.node_id
            or peer_id not in network.peers
            or self.expected_peer not in (None, peer_id)
        ):
            msg = (
                f"hello of node {peer_id!r} of cluster {message['cluster']!r} to"
                f" {message['to']!r}, protocol {message['version']}"
            )
            raise BadFrame(msg)
        self.peer_id = peer_id
        network.resp_addresses[peer_id] = message["resp"]
        if self.expected_peer is None:
            self.transport.write(encode_frame(network.hello(peer_id)))
            network.replace_incoming(peer_id, self)
        else:
            network.session_up(peer_id, self)

    def _refuse(self, why: str) -> None:
        logger.warning(
            "peer.refused from=%s why=%s", self.transport.get_extra_info("peername"), why
        )
        self.abort()

    def abort(self) -> None:
        """End the session; bytes that still come are dropped."""
        if not self.closed:
            self.closed = True
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """The session is over."""
        self.closed = True
        self.network.session_lost(self)


class Network:
    """All sessions of one node."""

    def __init__(
        self,
        config: Config,
        *,
        on_message: Callable[[str, Message], None],
        on_link: Callable[[str, bool], None],
    ) -> None:
        self.node_id = config.node_id
        self.cluster_name = config.cluster_name
        self.resp = config.resp
        self.address = config.raft_address
        self.peers: dict[str, Address] = config.peer_addresses
        # Who is not heard for so long does not count as reachable either.
        self.silence_ms = config.quorum_timeout_ms
        self.frame_bytes_max = 4 * config.entry_bytes_max + FRAME_OVERHEAD_BYTES
        self.on_message = on_message
        self.on_link = on_link
        self.resp_addresses: dict[str, str] = {}
        self._incoming: dict[str, Frames] = {}
        self._strangers: set[Frames] = set()
        self._outgoing: dict[str, Frames] = {}
        self._lost: dict[str, asyncio.Event] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._server: asyncio.Server | None = None
        self._running = asyncio.Event()
        self._running.set()

    async def listen(self) -> None:
        """Accept peers. Raises OSError when the address cannot be used."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            self._accepted, self.address.host, self.address.port, reuse_address=True
        )

    def dial(self) -> None:
        """Start to reach every peer, and go on as long as this node lives."""
        for peer_id in self.peers:
            self._lost[peer_id] = asyncio.Event()
            self._tasks.append(asyncio.get_running_loop().create_task(self._keep_dialling(peer_id)))

    def give_up_on_silence(self, transport: asyncio.Transport) -> None:
        """End a session whose bytes nobody acknowledges, instead of sending them again ever later.

        TCP waits twice as long after each try, so after a long partition the first message would
        pass as long again after it had healed; a session that is dialled anew passes at once.
        """
        sock = transport.get_extra_info("socket")
        if sock is not None and hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, self.silence_ms)

    def hello(self, to: str) -> Message:
        """What either side says first."""
        return {
            "type": "hello",
            "version": PROTOCOL_VERSION,
            "cluster": self.cluster_name,
            "node": self.node_id,
            "to": to,
            "resp": self.resp,
        }

    def send(self, messages: list[tuple[str, Message]]) -> None:
        """Send in order; what has no session is dropped, as Raft allows."""
        last: Message | None = None
        frame = b""
        frames: dict[str, list[bytes]] = {}
        for peer_id, message in messages:
            if peer_id not in self._outgoing:
                continue
            if message is not last:  # the same entries go to several followers: encode once
                frame, last = encode_frame(message), message
            frames.setdefault(peer_id, []).append(frame)
        for peer_id, parts in frames.items():
            session = self._outgoing[peer_id]
            session.transport.write(parts[0] if len(parts) == 1 else b"".join(parts))
            if session.transport.get_write_buffer_size() > SEND_BYTES_MAX:
                logger.warning("peer.too_slow node=%s", peer_id)
                session.abort()

    def pause(self) -> None:
        """End all sessions, and begin none until `resume`: to the others this node is gone."""
        self._running.clear()
        for session in [*self._outgoing.values(), *self._incoming.values(), *self._strangers]:
            session.abort()

    def resume(self) -> None:
        """Be there again."""
        self._running.set()

    @property
    def is_paused(self) -> bool:
        """Whether this node keeps away from the others."""
        return not self._running.is_set()

    async def close(self) -> None:
        """End all sessions."""
        for task in self._tasks:
            task.cancel()
        if self._server is not None:
            self._server.close()
        for session in [*self._outgoing.values(), *self._incoming.values(), *self._strangers]:
            session.transport.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # ---- what sessions report ------------------------------------------------------------------

    def _accepted(self) -> Frames:
        session = Frames(self, None)
        self._strangers.add(session)
        return session

    def replace_incoming(self, peer_id: str, session: Frames) -> None:
        """A new session of a peer ends the old one, whatever bytes it still holds."""
        self._strangers.discard(session)
        old = self._incoming.get(peer_id)
        self._incoming[peer_id] = session
        if old is not None:
            old.abort()

    def session_up(self, peer_id: str, session: Frames) -> None:
        """A peer that we dialled knows us."""
        self._outgoing[peer_id] = session
        logger.info("peer.connected node=%s", peer_id)
        self.on_link(peer_id, True)

    def session_lost(self, session: Frames) -> None:
        """A connection ended; if it was how we reach a peer, say so and dial again."""
        self._strangers.discard(session)
        peer_id = session.expected_peer
        if peer_id is None:
            if session.peer_id is not None and self._incoming.get(session.peer_id) is session:
                del self._incoming[session.peer_id]
            return
        if self._outgoing.get(peer_id) is session:
            del self._outgoing[peer_id]
            logger.info("peer.lost node=%s", peer_id)
            self.on_link(peer_id, False)
        self._lost[peer_id].set()

    async def _keep_dialling(self, peer_id: str) -> None:
        loop = asyncio.get_running_loop()
        host, port = self.peers[peer_id]
        wait_s = RETRY_MIN_S
        while True:
            await self._running.wait()
            self._lost[peer_id].clear()
            try:
                async with asyncio.timeout(DIAL_TIMEOUT_S):
                    _, session = await loop.create_connection(
                        lambda: Frames(self, peer_id), host, port
                    )
            except OSError:  # includes TimeoutError
                logger.debug("peer.unreachable node=%s address=%s:%d", peer_id, host, port)
            else:
                await self._lost[peer_id].wait()
                if session.peer_id is not None:
                    wait_s = RETRY_MIN_S
            await asyncio.sleep(wait_s)
            wait_s = min(RETRY_MAX_S, wait_s * 2)
