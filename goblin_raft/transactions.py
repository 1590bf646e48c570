"""Between MULTI and EXEC: the queue, the watched keys, and the one proposal that comes of them.

A transaction is one command in the log: [EXEC, 0, watched keys, commands]. Whether the watched keys
are untouched is decided where it is applied (changes.py), so it holds across nodes and leaders. The
commands that a node answers by itself (PING, SELECT, ...) are run here, after the others and only
if these were: they see nothing of the data. Knows nothing of sockets or of consensus.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from goblin_raft import errors, errors_talk
from goblin_raft.changes import Watch, Watched
from goblin_raft.commands import lookup
from goblin_raft.errors import StoreError
from goblin_raft.limits import Limits
from goblin_raft.node_view import NodeView
from goblin_raft.reply import NULL_ARRAY, OK, QUEUED, Failure, Reply
from goblin_raft.session import Transaction
from goblin_raft.spec import Call, Command, Verb
from goblin_raft.state_machine import EXECUTE, StateMachine

# What a command, or a watched key, costs in an entry and in memory beside its bytes.
OVERHEAD_BYTES = 64
# Never queued: what Redis runs at once also here, and what a browser sends (see dispatch.py).
AT_ONCE = frozenset({b"QUIT", b"RESET", b"POST", b"HOST:"})

Done = Callable[[list[Reply]], None]
Answer = Callable[[Command, NodeView, list[Any]], Reply]


class Engine(Protocol):
    """What a transaction asks of consensus; a part of dispatch.Engine."""

    machine: StateMachine

    def propose(self, commands: list[list[Any]], size_bytes: int, settle: Done) -> None:
        """See dispatch.Engine."""

    def read(self, ready: Callable[[Failure | None], None]) -> None:
        """See dispatch.Engine."""

    def cluster_now_ms(self) -> int:
        """See dispatch.Engine."""


class Queue:
    """Takes the requests between MULTI and EXEC."""

    def __init__(self, node: NodeView, limits: Limits, bytes_max: int) -> None:
        transaction = node.session.transaction
        assert transaction is not None
        self.session = node.session
        self.transaction = transaction
        self.limits = limits
        self.bytes_max = bytes_max

    def take(self, requests: deque[list[bytes]], requests_max: int) -> list[Reply]:
        """Queue the requests up to the next one that must not be, and answer each."""
        replies: list[Reply] = []
        while requests and len(replies) < requests_max:
            argv = requests[0]
            if argv[0].upper() in AT_ONCE:
                break
            try:
                command = lookup(argv)
                args = command.decode(argv, self.limits)
                if command.verb is Verb.SESSION and not command.in_transactions:
                    break
                self._add(argv, command, args)
                replies.append(QUEUED)
            except StoreError as error:
                self.transaction.broken = True
                self.transaction.queued.clear()
                replies.append(error.reply)
                if argv[0].upper() == b"EXEC":  # not as it should be written: that ends it as well
                    self.session.transaction = self.session.watch = None
                    reason = error.reply.text.partition(" ")[2]
                    replies[-1] = errors_talk.EXECABORT_BECAUSE.failure(reason=reason)
            requests.popleft()
            if self.session.transaction is None:
                break
        return replies

    def _add(self, argv: list[bytes], command: Command, args: list[Any]) -> None:
        if not command.in_transactions:
            raise errors_talk.NOT_IN_MULTI.refusal()
        self.transaction.size_bytes += sum(map(len, argv)) + OVERHEAD_BYTES
        if self.transaction.size_bytes > self.bytes_max:
            raise errors_talk.TRANSACTION_TOO_LONG.refusal(limit=self.bytes_max)
        if command.verb is Verb.SESSION:
            command.handler(self, *args)
        else:
            self.run(Call(command, args))

    def run(self, call: Call) -> None:
        """What is queued after an error is never executed."""
        if not self.transaction.broken:
            self.transaction.queued.append(call)


class Talk:
    """One request that steers a transaction, and whom to answer."""

    def __init__(
        self,
        engine: Engine,
        node: NodeView,
        done: Done,
        *,
        answer: Answer,
        refusal: Failure | None,
        limits: Limits,
        size_bytes: int,
        bytes_max: int,
    ) -> None:
        self.limits = limits
        self.engine = engine
        self.node = node
        self.session = node.session
        self.done = done
        self.answer = answer
        self.refusal = refusal
        self.bytes_max = bytes_max
        self.size_bytes = size_bytes

    def begin(self) -> None:
        """MULTI."""
        if self.session.transaction is not None:
            self.done([errors_talk.NESTED_MULTI.failure()])
            return
        self.session.transaction = Transaction()
        self.done([OK])

    def discard(self) -> None:
        """DISCARD."""
        if self.session.transaction is None:
            self.done([errors_talk.DISCARD_WITHOUT_MULTI.failure()])
            return
        self.session.transaction = self.session.watch = None
        self.done([OK])

    def watch(self, keys: list[bytes]) -> None:
        """WATCH: behind a barrier, so that what was acknowledged before is no change after it."""
        session = self.session
        if session.transaction is not None:
            self.done([errors_talk.WATCH_INSIDE_MULTI.failure()])
            return
        held_bytes = session.watch.size_bytes if session.watch else 0
        if held_bytes + sum(len(key) + OVERHEAD_BYTES for key in keys) > self.bytes_max // 2:
            self.done([errors_talk.WATCH_TOO_LONG.failure(limit=self.bytes_max // 2)])
            return

        def ready(failure: Failure | None) -> None:
            if failure is None:
                session.watch = session.watch or Watch()
                self.engine.machine.watch(session.watch, session.db, keys)
            self.done([failure or OK])

        self._behind_barrier(ready)

    def execute(self) -> None:
        """EXEC."""
        transaction, watch = self.session.transaction, self.session.watch
        if transaction is None:
            self.done([errors_talk.EXEC_WITHOUT_MULTI.failure()])
            return
        self.session.transaction = self.session.watch = None
        if transaction.broken:
            self.done([errors_talk.EXECABORT.failure()])
            return
        commands = _data_commands(transaction, self.session.db)
        if watch is not None and self.engine.machine.has_changed(watch):
            self.done([NULL_ARRAY])  # known here already: it need not travel
        elif watch is None and not commands:
            self._finish(transaction, [])
        elif self.refusal is not None:
            self.done([self.refusal])
        elif any(call.command.verb is Verb.WRITE for call in transaction.queued):
            self._propose(transaction, watch.keys() if watch else [], commands)
        else:
            self._read(transaction, watch, commands)

    def _propose(
        self, transaction: Transaction, watched: list[Watched], commands: list[list[Any]]
    ) -> None:
        size_bytes = transaction.size_bytes
        size_bytes += sum(len(each.key) + OVERHEAD_BYTES for each in watched)

        def settle(results: list[Reply]) -> None:
            (result,) = results
            if isinstance(result, list):
                self._finish(transaction, result)
            else:
                self.done([NULL_ARRAY if result is None else result])

        self.engine.propose([[EXECUTE, 0, watched, commands]], size_bytes, settle)

    def _read(
        self, transaction: Transaction, watch: Watch | None, commands: list[list[Any]]
    ) -> None:
        """Nothing is written: one state behind one barrier gives all replies."""
        machine = self.engine.machine

        def ready(failure: Failure | None) -> None:
            if failure is not None:
                self.done([failure])
            elif watch is not None and machine.has_changed(watch):
                self.done([NULL_ARRAY])
            else:
                now_ms = self.engine.cluster_now_ms()
                self._finish(transaction, machine.read_transaction(commands, now_ms))

        self._behind_barrier(ready)

    def _behind_barrier(self, ready: Callable[[Failure | None], None]) -> None:
        if self.refusal is not None:
            ready(self.refusal)
        elif self.session.readonly:
            ready(None)
        else:
            self.engine.read(ready)

    def _finish(self, transaction: Transaction, results: list[Reply]) -> None:
        """Put the replies in the order of the queue, with those of the node's own commands."""
        queued: list[Call] = transaction.queued
        names = [[call.command.name] for call in queued if call.command.is_data]
        self.node.metrics.commands_stats.record(names, 0, results)
        of_data = iter(results)
        replies = [
            call.answer(next(of_data))
            if call.command.is_data
            else self.answer(call.command, self.node, call.args)
            for call in queued
        ]
        self.done([replies])

    def run(self, call: Call) -> None:
        """One command that stands for a script; all of them write."""
        db = self.session.db if call.db is None else call.db
        words = [call.command.name, db, *call.args]
        if self.size_bytes > self.bytes_max:
            raise errors.COMMAND_TOO_LONG.refusal(limit=self.bytes_max)
        if self.refusal is not None:
            self.done([self.refusal])
            return

        def settle(results: list[Reply]) -> None:
            self.done([call.answer(results[0])])

        self.engine.propose([words], self.size_bytes, settle)


def _data_commands(transaction: Transaction, db: int) -> list[list[Any]]:
    """As they lie in the log. SELECT between them counts for those that follow."""
    commands = []
    for call in transaction.queued:
        if call.command.is_data:
            commands.append([call.command.name, db if call.db is None else call.db, *call.args])
        elif call.command.name == "SELECT" and 0 <= call.args[0] < Limits().databases:
            db = call.args[0]
    return commands
