"""Between MULTI and EXEC: the queue, the watched keys, and the one proposal that comes of them.

A transaction is one command in the log: [EXEC, 0, watched keys, commands]. Whether the watched keys
are untouched is decided where it is applied (changes.py), so it holds across nodes and leaders. The
commands that a node answers by itself (PING, SELECT, ...) are run here, after the others and only
if these were: they see nothing of the data. Knows nothing of sockets or of consensus.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Protocol
from weakref import WeakSet

from goblin_raft import errors, errors_talk
from goblin_raft.call import Call
from goblin_raft.changes import Watch, Watched
from goblin_raft.commands import lookup
from goblin_raft.errors import StoreError
from goblin_raft.limits import Limits
from goblin_raft.node_view import NodeView
from goblin_raft.reply import NULL_ARRAY, OK, QUEUED, Failure, Reply
from goblin_raft.session import Session, Transaction
from goblin_raft.spec import Command, Verb
from goblin_raft.state_machine import EXECUTE, StateMachine

# What a command, or a watched key, costs in an entry and in memory beside its bytes.
OVERHEAD_BYTES = 64
# What all clients together may have queued, or watch, is looked at whenever one of them holds so
# much more; less than that is theirs in any case.
COUNTED_BYTES = 16_384
# Never queued: what Redis runs at once also here, and what a browser sends (see dispatch.py).
AT_ONCE = frozenset({b"QUIT", b"RESET", b"POST", b"HOST:"})

# A refusal of these is one of the whole: the client could not have known, and must not go on.
TOO_LONG = tuple(
    each.text.partition("{")[0] for each in (errors.KEY_TOO_LONG, errors.VALUE_TOO_LONG)
)

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


class Holders:
    """All transactions and watches of a node, so that they do not hold too much together."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self._all: WeakSet[Transaction | Watch] = WeakSet()

    def add(self, holder: Transaction | Watch, more_bytes: int) -> None:
        """One of them wants to hold more. Raises StoreError when all together would hold too much.

        Only now and then all are counted, because that takes a while.
        """
        before_bytes = holder.size_bytes
        holder.size_bytes += more_bytes
        if holder.size_bytes // COUNTED_BYTES > before_bytes // COUNTED_BYTES:
            self._all.add(holder)
            if sum(each.size_bytes for each in self._all) > self.bytes_max:
                holder.size_bytes = before_bytes
                raise errors.TRYAGAIN.refusal()


def refused(argv: list[bytes], error: StoreError, session: Session) -> Reply:
    """The answer to what cannot be read. An EXEC that cannot ends the transaction all the same."""
    if argv[0].upper() != b"EXEC":
        return error.reply
    session.transaction = session.watch = None
    reason = error.reply.text.partition(" ")[2]
    return errors_talk.EXECABORT_BECAUSE.failure(reason=reason)


class Queue:
    """Takes the requests between MULTI and EXEC."""

    def __init__(self, node: NodeView, limits: Limits, bytes_max: int, holders: Holders) -> None:
        transaction = node.session.transaction
        assert transaction is not None
        self.holders = holders
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
                call = self._read(argv)
                if call.command.verb is Verb.SESSION and not call.command.in_transactions:
                    break
                self._add(argv, call)
                replies.append(QUEUED)
            except StoreError as error:
                self.transaction.broken = True
                self.transaction.queued.clear()
                self.transaction.size_bytes = 0
                replies.append(refused(argv, error, self.session))
            requests.popleft()
            if self.session.transaction is None:
                break
        return replies

    def _read(self, argv: list[bytes]) -> Call:
        """As in Redis, what is wrong with an argument is the command's reply when EXEC comes."""
        command = lookup(argv)
        if not command.words_min <= len(argv) <= command.words_max:
            raise StoreError(errors.wrong_number_of_arguments(command.full_name))
        try:
            return Call(command, command.decode(argv, self.limits))
        except StoreError as error:
            if error.reply.text.startswith(TOO_LONG):
                raise
            return Call(command, [], failure=error.reply)

    def _add(self, argv: list[bytes], call: Call) -> None:
        if not call.command.in_transactions:
            raise errors_talk.NOT_IN_MULTI.refusal()
        if self.transaction.broken:
            return  # whatever comes, EXEC refuses the whole
        more_bytes = sum(map(len, argv)) + OVERHEAD_BYTES
        if self.transaction.size_bytes + more_bytes > self.bytes_max:
            raise errors_talk.TRANSACTION_TOO_LONG.refusal(limit=self.bytes_max)
        self.holders.add(self.transaction, more_bytes)
        if call.command.verb is Verb.SESSION and call.failure is None:
            call.command.handler(self, *call.args)
        else:
            self.run(call)

    def run(self, call: Call) -> None:
        """See commands/scripting.py."""
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
        holders: Holders,
    ) -> None:
        self.limits = limits
        self.holders = holders
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
        watch = session.watch or Watch()
        more_bytes = sum(len(key) + OVERHEAD_BYTES for key in keys)
        if watch.size_bytes + more_bytes > self.bytes_max // 2:
            self.done([errors_talk.WATCH_TOO_LONG.failure(limit=self.bytes_max // 2)])
            return
        self.holders.add(watch, more_bytes)

        def ready(failure: Failure | None) -> None:
            if failure is None:
                session.watch = watch
                self.engine.machine.watch(watch, session.db, keys)
            else:
                watch.size_bytes -= more_bytes
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
            self._complete(transaction, [])
        elif self.refusal is not None:
            self.done([self.refusal])
        elif any(call.command.verb is Verb.WRITE for call in transaction.queued if call.in_log):
            self._propose(transaction, watch.keys() if watch else [], commands)
        else:
            self._read(transaction, watch, commands)

    def _propose(
        self, transaction: Transaction, watched: list[Watched], commands: list[list[Any]]
    ) -> None:
        size_bytes = transaction.size_bytes
        size_bytes += sum(len(each.key) + OVERHEAD_BYTES for each in watched)
        if size_bytes > self.bytes_max:
            self.done([errors_talk.TRANSACTION_TOO_LONG.failure(limit=self.bytes_max)])
            return

        def settle(results: list[Reply]) -> None:
            (result,) = results
            if isinstance(result, list):
                self._complete(transaction, result)
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
                self._complete(transaction, machine.read_transaction(commands, now_ms))

        self._behind_barrier(ready)

    def _behind_barrier(self, ready: Callable[[Failure | None], None]) -> None:
        if self.refusal is not None:
            ready(self.refusal)
        elif self.session.readonly:
            ready(None)
        else:
            self.engine.read(ready)

    def _complete(self, transaction: Transaction, results: list[Reply]) -> None:
        """Put what was wrong with arguments between the results of what was run."""
        of_run = iter(results)
        queued: list[Call] = transaction.queued
        of_data = [call.failure or next(of_run) for call in queued if call.command.is_data]
        self._finish(transaction, of_data)

    def _finish(self, transaction: Transaction, results: list[Reply]) -> None:
        """Put the replies in the order of the queue, with those of the node's own commands."""
        queued: list[Call] = transaction.queued
        names = [[call.command.name] for call in queued if call.command.is_data]
        self.node.metrics.commands_stats.record(names, 0, results)
        of_data = iter(results)
        self.done([[self._reply(call, of_data) for call in queued]])

    def _reply(self, call: Call, of_data: Iterator[Reply]) -> Reply:
        if call.command.is_data:
            return call.answer(next(of_data))
        if call.failure is not None:
            return call.failure
        reply: Reply = self.answer(call.command, self.node, call.args)
        return reply

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
        if call.failure is not None:
            continue
        if call.in_log:
            commands.append([call.command.name, db if call.db is None else call.db, *call.args])
        elif call.command.name == "SELECT" and 0 <= call.args[0] < Limits().databases:
            db = call.args[0]
    return commands
