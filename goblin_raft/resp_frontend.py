"""Client connections: bytes in, bytes out, in order, within bounds. Knows nothing of consensus."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable

from goblin_raft import errors
from goblin_raft.config import Config
from goblin_raft.dispatch import Dispatcher, Engine
from goblin_raft.limits import Limits
from goblin_raft.node_view import Metrics, NodeView
from goblin_raft.reply import Failure, Reply
from goblin_raft.resp import BULK_BYTES_MAX, RequestParser, encode_all
from goblin_raft.session import Session

logger = logging.getLogger(__name__)

# Requests that wait for their turn on one connection before we stop reading from it.
READY_REQUESTS_MAX = 8192
# Replies that a client has not read yet before we stop serving it.
OUTPUT_BYTES_HIGH = 1024 * 1024


class Connection(asyncio.Protocol):
    """One client. One chunk is under way at a time; the next starts when it is answered."""

    def __init__(self, frontend: Frontend) -> None:
        self.frontend = frontend
        self.parser = RequestParser(
            bulk_bytes_max=max(BULK_BYTES_MAX, 2 * frontend.config.value_bytes_max)
        )
        self.busy = False
        self.output_full = False
        self.input_paused = False
        self.eof = False
        self.lost = False
        self.advancing = False
        self.node: NodeView
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client came; past `maxclients` it is told so, in Redis's words."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.set_write_buffer_limits(high=OUTPUT_BYTES_HIGH)
        frontend = self.frontend
        frontend.metrics.connections_total += 1
        peer = transport.get_extra_info("peername") or ("?", 0)
        session = Session(id=next(frontend.ids), address=f"{peer[0]}:{peer[1]}")
        self.node = frontend.view(session)
        if len(frontend.connections) >= frontend.config.maxclients:
            frontend.metrics.connections_rejected += 1
            transport.write(encode_all([errors.MAX_CLIENTS.failure()], 2))
            session.closing = True
            transport.close()
            return
        frontend.connections.add(self)
        frontend.metrics.connections = len(frontend.connections)

    def data_received(self, data: bytes) -> None:
        """Parse, and go on if nothing is under way."""
        self.frontend.metrics.input_bytes += len(data)
        self.parser.feed(data)
        if self.busy or self.output_full:
            if len(self.parser.ready) > READY_REQUESTS_MAX and not self.input_paused:
                self.input_paused = True
                self.transport.pause_reading()
        else:
            self.advance()

    def advance(self) -> None:
        """Serve chunk after chunk until one has to wait, or nothing is left."""
        if self.advancing:
            return
        self.advancing = True
        session = self.node.session
        parser = self.parser
        while parser.ready and not (self.busy or self.output_full or session.closing or self.lost):
            self.busy = True
            self.frontend.dispatcher.run_chunk(parser.ready, self.node, self.answered)
        self.advancing = False
        if self.busy or self.output_full or self.lost:
            return
        if parser.error is not None and not session.closing:
            self.write([errors.PROTOCOL_ERROR.failure(problem=parser.error)])
            session.closing = True
        if session.closing or (self.eof and not parser.ready):
            self.transport.close()  # after what is written was sent
        elif self.input_paused and len(parser.ready) <= READY_REQUESTS_MAX // 2:
            self.input_paused = False
            self.transport.resume_reading()

    def answered(self, replies: list[Reply]) -> None:
        """The chunk under way has its replies."""
        self.busy = False
        if self.lost:
            return
        self.write(replies)
        if not self.advancing and (
            self.parser.ready
            or self.parser.error is not None
            or self.eof
            or self.input_paused
            or self.node.session.closing
        ):
            self.advance()

    def write(self, replies: list[Reply]) -> None:
        """One write for a whole chunk."""
        metrics = self.frontend.metrics
        metrics.commands += len(replies)
        for reply in replies:
            if type(reply) is Failure:
                metrics.count_error(reply.code)
        data = encode_all(replies, self.node.session.protocol)
        metrics.output_bytes += len(data)
        self.transport.write(data)

    def pause_writing(self) -> None:
        """The client does not read: serve nothing more until it does."""
        self.output_full = True

    def resume_writing(self) -> None:
        """It reads again."""
        self.output_full = False
        if not self.busy:
            self.advance()

    def eof_received(self) -> bool:
        """The client sends no more, and still gets all its replies."""
        self.eof = True
        if not self.busy and not self.output_full:
            self.advance()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """What is under way goes on; nobody hears of it."""
        self.lost = True
        self.frontend.connections.discard(self)
        self.frontend.metrics.connections = len(self.frontend.connections)


class Frontend:
    """All client connections of a node."""

    def __init__(self, config: Config, engine: Engine, *, now_s: Callable[[], float]) -> None:
        self.config = config
        self.engine = engine
        self.now_s = now_s
        limits = Limits(config.key_bytes_max, config.value_bytes_max)
        self.dispatcher = Dispatcher(engine, limits, config.entry_bytes_max)
        self.metrics = Metrics(started_s=now_s())
        self.connections: set[Connection] = set()
        self.ids = itertools.count(1)
        self._server: asyncio.Server | None = None

    def view(self, session: Session) -> NodeView:
        """What node commands of this session may see."""
        machine = self.engine.machine
        return NodeView(
            session=session,
            config=self.config,
            metrics=self.metrics,
            status=self.engine.status,
            keys_by_database=lambda: [
                (len(space.values), len(space.deadlines)) for space in machine.keyspaces
            ],
            expired_keys=lambda: machine.expired_keys,
            now_s=self.now_s,
        )

    async def listen(self) -> tuple[str, int]:
        """Accept clients; the address in use. Raises OSError when it cannot be had."""
        host, port = self.config.resp_address
        self._server = await asyncio.get_running_loop().create_server(
            lambda: Connection(self), host, port, backlog=1024, reuse_address=True
        )
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
        for connection in list(self.connections):
            connection.transport.close()
