"""One chunk of a client's requests: what is answered at once, what goes to the engine, in order.

Knows the command table and the seam of the engine; nothing of sockets or of consensus. All data
commands of a chunk share one fate: if any of them writes, all lie in one log entry in their order;
if all only read, one barrier serves them. The next chunk begins when this one is answered, which is
what keeps the order within a connection.

Between MULTI and EXEC requests are queued (transactions.py), and EXEC has a chunk of its own.

A node command never shares a chunk with a data command: what it sees (INFO) is what the requests
before it have done, and what it changes (HELLO, READONLY, SELECT) is true only after it.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from goblin_raft import errors, errors_node, errors_talk
from goblin_raft.commands import TABLE, lookup
from goblin_raft.errors import StoreError
from goblin_raft.limits import Limits
from goblin_raft.node_view import NodeStatus, NodeView
from goblin_raft.reply import Failure, Reply
from goblin_raft.spec import OPEN, WHILE_SUBSCRIBED, Command, Verb
from goblin_raft.state_machine import StateMachine
from goblin_raft.transactions import Holders, Queue, Talk, refused

logger = logging.getLogger(__name__)

# A chunk is bounded so that one client's pipeline does not hold up the others.
CHUNK_REQUESTS_MAX = 1024
COMMAND_OVERHEAD_BYTES = 64
# What all connections together may have queued in transactions, or watch, unless a setting says so.
HELD_BYTES_MAX = 64 * 1024 * 1024

# What a browser sends when a web page makes it post to this port: close, as Redis does.
_CROSS_PROTOCOL = (b"POST", b"HOST:")

# By the two usual spellings, without the two-word names; `lookup` finds the rest.
_USUAL = {
    spelling: command
    for name, command in TABLE.items()
    if command.words_of_name == 1
    for spelling in (name, name.lower())
}

Done = Callable[[list[Reply]], None]


class Engine(Protocol):
    """What the frontend asks of consensus; consensus/engine.py, and memory.py its twin."""

    machine: StateMachine

    def propose(
        self, commands: list[list[Any]], size_bytes: int, settle: Callable[[list[Reply]], None]
    ) -> None:
        """Apply all commands in one entry, in order; `settle` gets one reply each, once."""

    def read(self, ready: Callable[[Failure | None], None]) -> None:
        """Call `ready(None)` when local state may be read, or `ready(failure)`."""

    def cluster_now_ms(self) -> int:
        """Cluster time, for remaining times."""

    def take_snapshot(self) -> bool:
        """Begin a snapshot; False when one is being taken already."""

    def status(self) -> NodeStatus:
        """This node's part in the cluster."""


class _Chunk:
    """What waits for the engine: all replies, with blanks where the data commands' belong."""

    __slots__ = ("began_s", "commands", "done", "first", "node", "replies", "slots")

    def __init__(self, node: NodeView, done: Done) -> None:
        self.node = node
        self.began_s = node.session.used_s = time.perf_counter()
        self.first: list[bytes] = []  # the first data command, as it came
        self.replies: list[Reply] = []
        self.slots: list[int] = []
        self.commands: list[list[Any]] = []
        self.done = done

    def finish(self, results: list[Reply]) -> None:
        """Fill the blanks in, count, and answer."""
        metrics, session = self.node.metrics, self.node.session
        took_us = int((time.perf_counter() - self.began_s) * 1_000_000)
        metrics.commands_stats.record(self.commands, took_us, results)
        if took_us >= metrics.slow_log.slower_than_us >= 0:
            more = len(results) - 1
            wall_s, address = int(self.node.now_s()), session.address
            metrics.slow_log.add(wall_s, took_us, self.first, more, address, session.name)
        if len(results) == len(self.replies):  # nothing but data commands
            self.done(results)
            return
        for slot, result in zip(self.slots, results, strict=True):
            self.replies[slot] = result
        self.done(self.replies)


class Dispatcher:
    """See the module."""

    def __init__(
        self,
        engine: Engine,
        limits: Limits,
        chunk_bytes_max: int,
        held_bytes_max: int = HELD_BYTES_MAX,
    ) -> None:
        self.engine = engine
        self.limits = limits
        self.chunk_bytes_max = chunk_bytes_max
        # A key and two values at their limits always fit, as in GOBLIN.CAS.
        self.command_bytes_max = max(
            chunk_bytes_max, limits.key_bytes_max + 2 * limits.value_bytes_max
        )
        self.holders = Holders(held_bytes_max)
        self.refusal: Failure | None = None  # set while this node shuts down

    def run_chunk(
        self,
        requests: deque[list[bytes]],
        node: NodeView,
        done: Done,
        *,
        requests_max: int = CHUNK_REQUESTS_MAX,
        refusal: Failure | None = None,
    ) -> None:
        """Take a chunk from `requests` and call `done` with its replies, once, perhaps at once.

        With a `refusal` data commands get it for an answer and are not executed.
        """
        refusal = refusal or self.refusal
        subscriber = node.session.subscriber
        if node.session.transaction is not None and requests:
            queue = Queue(node, self.limits, self.command_bytes_max, self.holders)
            if queued := queue.take(requests, requests_max):
                done(queued)
                return
        # Not its `count`: every request comes through here.
        listens = subscriber.channels or subscriber.patterns
        if listens and node.session.protocol == 2 and requests:
            reply = self._while_subscribed(requests[0])
            if reply is not None:
                requests.popleft()
                done([reply])
                return
            requests_max = 1
        self._run_chunk(requests, node, done, requests_max, refusal)

    def _while_subscribed(self, argv: list[bytes]) -> Reply | None:
        """The reply to what is different in this state; None for what is as always."""
        try:
            command = lookup(argv)
            args = command.decode(argv, self.limits)
        except StoreError:
            return None
        if command.name == "PING":
            return [b"pong", args[0] or b""]
        if command.name in WHILE_SUBSCRIBED:
            return None
        return errors_talk.NOT_WHILE_SUBSCRIBED.failure(name=command.full_name)

    def _run_chunk(
        self,
        requests: deque[list[bytes]],
        node: NodeView,
        done: Done,
        requests_max: int,
        refusal: Failure | None,
    ) -> None:
        chunk = _Chunk(node, done)
        replies, slots, commands = chunk.replies, chunk.slots, chunk.commands
        locked = node.session.user is None
        size_bytes, writes = 0, False
        alone: Command | None = None
        limits, command_bytes_max = self.limits, self.command_bytes_max
        while requests and len(replies) < requests_max:
            argv = requests[0]
            try:
                command = _USUAL.get(argv[0])
                if command is None or command.subcommands:
                    command = lookup(argv)
                args = command.decode(argv, limits)
                if locked and command.name not in OPEN:
                    raise errors_node.NOAUTH.refusal()
                if not command.is_data:
                    alone = None if replies else command
                    break
                request_bytes = sum(map(len, argv))
                if request_bytes - len(argv[0]) > command_bytes_max:
                    raise errors.COMMAND_TOO_LONG.refusal(limit=command_bytes_max)
            except StoreError as error:
                requests.popleft()
                if self._refused(argv, error, node, replies):
                    break
                continue
            # Small commands cost more than their words: their frame in the entry and in memory.
            size_bytes += request_bytes + COMMAND_OVERHEAD_BYTES
            if commands and size_bytes > self.chunk_bytes_max:
                size_bytes -= request_bytes + COMMAND_OVERHEAD_BYTES
                break
            requests.popleft()
            if not commands:
                first = argv
            writes = writes or command.verb is Verb.WRITE
            slots.append(len(replies))
            replies.append(None)
            commands.append([command.name, node.session.db, *args])
        if alone is not None:
            chunk.first = requests.popleft()
            self._answer_alone(chunk, alone, args, refusal)
        elif commands:
            chunk.first = first
            self._send(chunk, size_bytes, writes, refusal)
        else:
            done(replies)

    def _send(self, chunk: _Chunk, size_bytes: int, writes: bool, refusal: Failure | None) -> None:
        """Data commands to where they run."""
        commands, session = chunk.commands, chunk.node.session
        session.last_command = commands[-1][0]
        if refusal is not None:
            chunk.finish([refusal] * len(commands))
        elif writes:
            self.engine.propose(commands, size_bytes, chunk.finish)
        else:
            self._read(chunk, at_once=session.readonly)

    @staticmethod
    def _refused(
        argv: list[bytes], error: StoreError, node: NodeView, replies: list[Reply]
    ) -> bool:
        """Answer what is refused before it reaches the log; whether the connection ends by it."""
        name = argv[0].upper()
        if name in _CROSS_PROTOCOL:
            node.session.closing = True
            return True
        replies.append(refused(argv, error, node.session))
        try:  # by its name, if it has one
            node.metrics.commands_stats[lookup(argv).name].rejected += 1
        except StoreError:
            pass
        return False

    def _answer_alone(
        self, chunk: _Chunk, command: Command, args: list[Any], refusal: Failure | None
    ) -> None:
        """A chunk of one request that is not for the engine, or not in the usual way."""
        if command.verb is Verb.NODE:
            chunk.done([self._answer(command, chunk.node, args)])
            return
        chunk.commands, chunk.slots, chunk.replies = [[command.name]], [0], [None]
        chunk.node.session.last_command = command.name
        talk = Talk(
            self.engine,
            chunk.node,
            chunk.finish,
            answer=self._answer,
            refusal=refusal,
            limits=self.limits,
            size_bytes=sum(map(len, chunk.first)) + COMMAND_OVERHEAD_BYTES,
            bytes_max=self.command_bytes_max,
            holders=self.holders,
        )
        try:
            command.handler(talk, *args)
        except StoreError as error:
            chunk.finish([error.reply])

    @staticmethod
    def _answer(command: Command, node: NodeView, args: list[Any]) -> Reply:
        began_s = time.perf_counter()
        node.session.last_command = command.name
        try:
            reply = command.handler(node, *args)
        except StoreError as error:
            reply = error.reply
        except Exception as error:  # a bug, or the system refused it; the connection can go on
            # Without the exception's text, which may quote a client's data.
            kind = type(error).__name__
            logger.error("node_command.bug command=%s error=%s", command.name, kind)
            reply = errors.INTERNAL_ERROR.failure()
        took_us = int((time.perf_counter() - began_s) * 1_000_000)
        node.metrics.commands_stats.record([[command.name]], took_us, [reply])
        return reply

    def _read(self, chunk: _Chunk, *, at_once: bool) -> None:
        commands = chunk.commands

        def ready(failure: Failure | None) -> None:
            refused: list[Reply] = [failure] * len(commands)
            replies = self._read_all(commands) if failure is None else refused
            if failure is None:
                misses = replies.count(None)
                chunk.node.metrics.misses += misses
                chunk.node.metrics.hits += len(replies) - misses
            chunk.finish(replies)

        if at_once:
            ready(None)
        else:
            self.engine.read(ready)

    def _read_all(self, commands: list[list[Any]]) -> list[Reply]:
        now_ms = self.engine.cluster_now_ms()
        return [self.engine.machine.read(command, now_ms) for command in commands]
