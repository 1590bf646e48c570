"""One chunk of a client's requests: what is answered at once, what goes to the engine, in order.

Knows the command table and the seam of the engine; nothing of sockets or of consensus. All data
commands of a chunk share one fate: if any of them writes, all lie in one log entry in their order;
if all only read, one barrier serves them. The next chunk begins when this one is answered, which is
what keeps the order within a connection.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from goblin_raft import errors
from goblin_raft.commands import TABLE
from goblin_raft.errors import StoreError
from goblin_raft.limits import Limits
from goblin_raft.node_view import NodeStatus, NodeView
from goblin_raft.reply import Failure, Reply
from goblin_raft.spec import Verb
from goblin_raft.state_machine import StateMachine

# A chunk is bounded so that one client's pipeline does not hold up the others.
CHUNK_REQUESTS_MAX = 1024

# What a browser sends when a web page makes it post to this port: close, as Redis does.
_CROSS_PROTOCOL = (b"POST", b"HOST:")

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

    def status(self) -> NodeStatus:
        """This node's part in the cluster."""


class Dispatcher:
    """See the module."""

    def __init__(self, engine: Engine, limits: Limits, chunk_bytes_max: int) -> None:
        self.engine = engine
        self.limits = limits
        self.chunk_bytes_max = chunk_bytes_max
        self.refusal: Failure | None = None  # set while this node shuts down

    def run_chunk(self, requests: deque[list[bytes]], node: NodeView, done: Done) -> None:
        """Take a chunk from `requests` and call `done` with its replies, once, perhaps at once."""
        session = node.session
        replies: list[Reply] = []
        slots: list[int] = []
        commands: list[list[Any]] = []
        size_bytes = 0
        writes = False
        while requests and len(replies) < CHUNK_REQUESTS_MAX and not session.closing:
            request_bytes = sum(map(len, requests[0]))
            if commands and size_bytes + request_bytes > self.chunk_bytes_max:
                break
            argv = requests.popleft()
            command = TABLE.get(argv[0]) or TABLE.get(argv[0].upper())
            if command is None:
                if argv[0].upper() in _CROSS_PROTOCOL:
                    session.closing = True
                    break
                replies.append(errors.unknown_command(argv))
                continue
            if command.subcommands and len(argv) > 1:
                command = command.subcommands.get(argv[1].upper())
                if command is None:
                    replies.append(errors.unknown_subcommand(argv))
                    continue
            try:
                args = command.decode(argv, self.limits)
                if command.verb is Verb.NODE:
                    replies.append(command.handler(node, *args))
                    continue
            except StoreError as error:
                replies.append(error.reply)
                continue
            writes = writes or command.verb is Verb.WRITE
            slots.append(len(replies))
            replies.append(None)
            commands.append([command.name, session.db, *args])
            # Small commands cost more than their words: their frame in the entry and in memory.
            size_bytes += request_bytes + 64
        if not commands:
            done(replies)
        elif self.refusal is not None:
            self._finish(replies, slots, [self.refusal] * len(commands), done)
        elif writes:
            self.engine.propose(
                commands,
                size_bytes,
                lambda results: self._finish(replies, slots, results, done),
            )
        elif session.readonly:
            self._finish(replies, slots, self._read_all(commands), done)
        else:
            self.engine.read(lambda failure: self._read(failure, replies, slots, commands, done))

    def _read(
        self,
        failure: Failure | None,
        replies: list[Reply],
        slots: list[int],
        commands: list[list[Any]],
        done: Done,
    ) -> None:
        results: list[Reply] = (
            self._read_all(commands) if failure is None else [failure] * len(commands)
        )
        self._finish(replies, slots, results, done)

    def _read_all(self, commands: list[list[Any]]) -> list[Reply]:
        now_ms = self.engine.cluster_now_ms()
        return [self.engine.machine.read(command, now_ms) for command in commands]

    @staticmethod
    def _finish(replies: list[Reply], slots: list[int], results: list[Reply], done: Done) -> None:
        if len(results) == len(replies):  # nothing but data commands
            done(results)
            return
        for slot, result in zip(slots, results, strict=True):
            replies[slot] = result
        done(replies)
