"""Client connections: bytes in, bytes out, in order, within bounds. Knows nothing of consensus."""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
import socket
import time
from collections.abc import Callable, Iterator

from goblin_raft import errors
from goblin_raft.config import Config
from goblin_raft.dispatch import Dispatcher, Engine
from goblin_raft.limits import Limits
from goblin_raft.messages import Messages
from goblin_raft.node_view import Changeable, ClientStatus, Metrics, NodeView
from goblin_raft.pubsub import Hub, Subscriber
from goblin_raft.reply import Failure, Push, Reply
from goblin_raft.resp import (
    BULK_BYTES_MAX,
    NESTED,
    RequestParser,
    encode,
    encode_all,
    open_long,
)
from goblin_raft.session import Session
from goblin_raft.users import DEFAULT_USER, Users

logger = logging.getLogger(__name__)

# Requests that wait for their turn on one connection, and the bytes they came in, before we stop
# reading from it. Both, because a request can be two bytes or many million.
READY_REQUESTS_MAX = 8192
READY_BYTES_MAX = 1024 * 1024
# Replies that a client has not read yet before we stop serving it. Some clients send a pipeline to
# its end before they read the first reply: this is room for the replies to two million claims, and
# whoever sends more than fits, without reading, waits for ever.
OUTPUT_BYTES_HIGH = 32 * 1024 * 1024
# Replies are put together up to this size for one write.
WRITE_BYTES = 64 * 1024
# What one connection may have served in one go, should the engine answer at once.
TURN_REQUESTS_MAX = 4096
# Codes that say "not executed, try again". Some clients then send the whole pipeline again, so what
# came with the refused command must not be executed either.
REFUSAL_CODES = frozenset({errors.CLUSTERDOWN.code, errors.TRYAGAIN.code})
# Find out that a silent client's machine is gone, as Redis does.
KEEPALIVE_S = 300
# How often the counters are looked at, for INFO's "per second".
SAMPLE_S = 1.0


class Connection(asyncio.Protocol):
    """One client. One chunk is under way at a time; the next starts when it is answered."""

    def __init__(self, frontend: Frontend) -> None:
        self.frontend = frontend
        self.parser = RequestParser(
            bulk_bytes_max=max(BULK_BYTES_MAX, 2 * frontend.config.value_bytes_max)
        )
        self.busy = False  # a chunk is under way
        self.output: list[bytes] = []  # encoded, not written yet
        self.output_bytes = 0
        # Replies that found the output full: what is left of them, the innermost array last.
        self.unwritten: list[Iterator[Reply]] = []
        self.output_full = False
        self.backlog_bytes = 0  # came since the last time that nothing waited
        self.input_paused = False
        self.refusal: Failure | None = None  # for all that came with a command that was refused
        self.eof = False
        self.lost = False
        self.advancing = False
        self.messages = Messages()
        self.node: NodeView
        self.transport: asyncio.Transport

    # ---- the transport's calls -------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client came; past `maxclients` it is told so, in Redis's words."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.set_write_buffer_limits(high=OUTPUT_BYTES_HIGH)
        if (sock := transport.get_extra_info("socket")) is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_S)
        frontend = self.frontend
        frontend.metrics.connections_total += 1
        session = frontend.session(transport, self.deliver)
        self.node = frontend.view(session)
        if len(frontend.connections) >= frontend.changeable.maxclients:
            frontend.metrics.connections_rejected += 1
            transport.write(encode_all([errors.MAX_CLIENTS.failure()], 2))
            session.closing = True
            transport.close()
            return
        frontend.connections.add(self)
        frontend.metrics.connections = len(frontend.connections)

    def data_received(self, data: bytes) -> None:
        """Parse, go on if nothing is under way, and stop reading when too much waits."""
        parser = self.parser
        self.frontend.metrics.input_bytes += len(data)
        self.backlog_bytes += len(data)
        parser.restricted = self.node.session.user is None
        parser.feed(data)
        self.advance()
        if (
            self.backlog_bytes > READY_BYTES_MAX or len(parser.ready) > READY_REQUESTS_MAX
        ) and not (self.input_paused or self.transport.is_closing()):
            self.input_paused = True
            self.transport.pause_reading()

    def pause_writing(self) -> None:
        """The client does not read: serve nothing more until it does."""
        self.output_full = True

    def resume_writing(self) -> None:
        """It reads again."""
        self.output_full = False
        if not self.advancing:
            self.advance()

    def eof_received(self) -> bool:
        """The client sends no more, and still gets all its replies."""
        self.eof = True
        self.advance()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """What is under way goes on; nobody hears of it."""
        self.lost = True
        self.node.session.subscriber.leave()
        self.node.session.watch = None
        self.unwritten.clear()
        self.parser.ready.clear()
        self.frontend.connections.discard(self)
        self.frontend.metrics.connections = len(self.frontend.connections)

    # ---- chunk after chunk -----------------------------------------------------------------------

    def advance(self) -> None:
        """Serve chunk after chunk until one has to wait, or nothing is left."""
        if self.advancing or self.busy or self.output_full or self.lost:
            return
        self.advancing = True
        ready, session, dispatcher = self.parser.ready, self.node.session, self.frontend.dispatcher
        if self.unwritten:
            self._write()
        served_until = len(ready) - TURN_REQUESTS_MAX
        while (ready or self.parser.stalled) and not (
            self.busy or self.output_full or self.unwritten or session.closing or self.lost
        ):
            if not ready:
                # What was too large for an unknown client: perhaps it is known by now.
                self.parser.restricted = session.user is None
                self.parser.feed(b"")
                continue
            if len(ready) <= served_until:
                asyncio.get_running_loop().call_soon(self.advance)  # others have their turn
                break
            self.busy = True
            dispatcher.run_chunk(ready, self.node, self.answered, refusal=self.refusal)
        self._flush()
        self.advancing = False
        if not (self.busy or self.output_full or self.unwritten or self.lost):
            self._rest()

    def answered(self, replies: list[Reply]) -> None:
        """The chunk under way has its replies."""
        self.busy = False
        if self.lost:
            return
        metrics = self.frontend.metrics
        metrics.commands += len(replies)
        for reply in replies:
            if type(reply) is Failure:
                metrics.count_error(reply.code)
                if reply.code in REFUSAL_CODES:
                    self.refusal = reply
        if len(replies) == 1 and not self.unwritten and type(replies[0]) not in NESTED:
            data = encode(replies[0], self.node.session.protocol)  # the quick way
            self.output.append(data)
            self.output_bytes += len(data)
        else:
            self.unwritten.append(iter(replies))
            self._write()
        if not self.advancing:
            self._flush()
            self.advance()

    def _rest(self) -> None:
        """Nothing is under way. Is there a reason to close, or to read again?"""
        parser, session = self.parser, self.node.session
        if parser.ready and not session.closing:
            return
        self.backlog_bytes = 0
        if self.refusal is not None and not (parser.buffered_bytes or self.input_paused):
            self.refusal = None  # what comes now was sent by itself
        if parser.error is not None and not session.closing:
            self.unwritten.append(iter([errors.PROTOCOL_ERROR.failure(problem=parser.error)]))
            self._write()
            self._flush()
            session.closing = True
        if session.closing or self.eof:
            self.transport.close()  # after what is written was sent
        elif self.input_paused:
            self.input_paused = False
            self.transport.resume_reading()

    # ---- output ----------------------------------------------------------------------------------

    def _write(self) -> None:
        """Encode what is unwritten until the output is full; the rest waits as it is."""
        unwritten, output = self.unwritten, self.output
        protocol = self.node.session.protocol
        while unwritten:
            for reply in unwritten[-1]:
                inner = None
                if type(reply) in NESTED and (opened := open_long(reply, protocol)):
                    # A request of some bytes can ask for gigabytes: not all of it at once.
                    data, inner = opened
                    unwritten.append(inner)
                else:
                    data = encode(reply, protocol)
                output.append(data)
                self.output_bytes += len(data)
                if self.output_bytes > WRITE_BYTES:
                    self._flush()
                    if self.output_full:
                        return
                if inner is not None:
                    break
            else:
                unwritten.pop()

    def deliver(self, push: Push) -> None:
        """A message of a channel. Who does not read them is disconnected, and misses the rest."""
        if self.lost or self.transport.is_closing():
            return
        loop = asyncio.get_running_loop()
        if not self.messages.waiting:
            loop.call_soon(self._flush)
        data = self.frontend.encoded(push, self.node.session.protocol)
        unsent_bytes = self.output_bytes + self.transport.get_write_buffer_size()
        if not self.messages.add(data, unsent_bytes, loop.time()):
            logger.warning("subscriber.too_slow address=%s", self.node.session.address)
            self.transport.abort()

    def _flush(self) -> None:
        """One write for all that was encoded."""
        if self.messages.waiting and not self.unwritten:  # else a reply may be there in part
            self.output_bytes += self.messages.size_bytes
            self.output.append(self.messages.take())
        if self.output and not self.lost:
            self.frontend.metrics.output_bytes += self.output_bytes
            self.output_bytes = 0
            data = b"".join(self.output)
            self.output.clear()
            self.transport.write(data)


class Frontend:
    """All client connections of a node."""

    def __init__(self, config: Config, engine: Engine, *, now_s: Callable[[], float]) -> None:
        self.config = config
        self.engine = engine
        self.now_s = now_s
        limits = Limits(config.key_bytes_max, config.value_bytes_max)
        self.dispatcher = Dispatcher(
            engine, limits, config.entry_bytes_max, config.waiting_bytes_max
        )
        self.metrics = Metrics(started_s=now_s(), run_id=secrets.token_hex(20))
        self.changeable = Changeable(maxclients=config.maxclients)
        self.users = Users(config.users)
        self.connections: set[Connection] = set()
        self.ids = itertools.count(1)
        self.hub = Hub()
        engine.machine.hub = self.hub
        self._encoded: tuple[Push, int, bytes] | None = None
        self._server: asyncio.Server | None = None
        self._sampler: asyncio.TimerHandle | None = None

    def encoded(self, push: Push, protocol: int) -> bytes:
        """Encode a message once for all who get it."""
        last = self._encoded
        if last is not None and last[0] is push and last[1] == protocol:
            return last[2]
        self._encoded = (push, protocol, encode(push, protocol))
        return self._encoded[2]

    def session(self, transport: asyncio.Transport, deliver: Callable[[Push], None]) -> Session:
        """Of a connection that has just begun."""
        peer = transport.get_extra_info("peername") or ("?", 0)
        local = transport.get_extra_info("sockname") or ("?", 0)
        sock = transport.get_extra_info("socket")
        return Session(
            id=next(self.ids),
            address=f"{peer[0]}:{peer[1]}",
            local_address=f"{local[0]}:{local[1]}",
            fd=-1 if sock is None else sock.fileno(),
            created_s=self.now_s(),
            used_s=time.perf_counter(),
            user=None if self.users.required else DEFAULT_USER.encode(),
            subscriber=Subscriber(self.hub, deliver),
        )

    def view(self, session: Session) -> NodeView:
        """What node commands of this session may see."""
        machine = self.engine.machine
        return NodeView(
            session=session,
            config=self.config,
            changeable=self.changeable,
            users=self.users,
            metrics=self.metrics,
            status=self.engine.status,
            keys_by_database=lambda: [
                (len(space.values), len(space.deadlines)) for space in machine.keyspaces
            ],
            expired_keys=lambda: machine.expired_keys,
            state_digest=machine.digest,
            take_snapshot=self.engine.take_snapshot,
            now_s=self.now_s,
            clients=self.clients,
            kill=lambda session_id: self.kill(session_id, unless=session),
        )

    def clients(self) -> list[ClientStatus]:
        """All connections, the oldest first."""
        now_s = time.perf_counter()
        listed = [
            ClientStatus(
                connection.node.session,
                int(now_s - connection.node.session.used_s),
                connection.parser.buffered_bytes,
                connection.output_bytes + connection.transport.get_write_buffer_size(),
            )
            for connection in self.connections
        ]
        return sorted(listed, key=lambda client: client.session.id)

    def kill(self, session_id: int, *, unless: Session) -> None:
        """End a connection at once; what it sent may still happen. `unless` closes by itself."""
        for connection in self.connections:
            session = connection.node.session
            if session.id == session_id and session is not unless:
                connection.transport.abort()

    def _sample(self) -> None:
        metrics, loop = self.metrics, asyncio.get_running_loop()
        counts = (metrics.commands, metrics.input_bytes, metrics.output_bytes)
        metrics.rates.sample(loop.time(), *counts)
        self._sampler = loop.call_later(SAMPLE_S, self._sample)

    async def listen(self) -> tuple[str, int]:
        """Accept clients; the address in use. Raises OSError when it cannot be had."""
        host, port = self.config.resp_address
        self._server = await asyncio.get_running_loop().create_server(
            lambda: Connection(self), host, port, backlog=1024, reuse_address=True
        )
        self._sample()
        address = self._server.sockets[0].getsockname()
        return address[0], address[1]

    @property
    def busy(self) -> bool:
        """Whether any client waits for an answer."""
        return any(connection.busy for connection in self.connections)

    def refuse(self, failure: Failure) -> None:
        """From now on data commands that come get this answer; what is under way goes on."""
        self.dispatcher.refusal = failure
        if self._server is not None:
            self._server.close()

    def close(self) -> None:
        """End all connections, after what was written is sent."""
        if self._sampler is not None:
            self._sampler.cancel()
        for connection in list(self.connections):
            connection.transport.close()
