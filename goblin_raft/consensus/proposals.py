"""What this node's clients wait for: batches, the proposals made of them, and their fates.

Exactly once, from the origin's side. The invariants:

* A batch is answered once: with the replies of its one application, or with an error.
* CLUSTERDOWN and TRYAGAIN are given only to a batch that was never part of a proposal;
  a batch that was, and has no outcome in time, is UNCERTAIN.
* A proposal is sent again only under its own sequence number, so the machine can skip copies; a
  sequence below `settled` is never sent again.

Knows nothing of Raft beyond "this is the leader now", and nothing of clients beyond a callback.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from goblin_raft import errors
from goblin_raft.consensus.answers import call_back
from goblin_raft.entry import encode_proposal
from goblin_raft.reply import Failure, Reply

Settle = Callable[[list[Reply]], None]

# A proposal without an outcome is sent again this often, should a leader have dropped it.
RESEND_AFTER_S = 0.5


class Batch:
    """The commands of one chunk of one client: they share one entry, in order."""

    __slots__ = ("arrived_s", "commands", "settle", "size_bytes")

    def __init__(
        self, commands: list[list[Any]], size_bytes: int, settle: Settle, arrived_s: float
    ) -> None:
        self.commands = commands
        self.size_bytes = size_bytes
        self.settle = settle
        self.arrived_s = arrived_s

    def answer(self, replies: list[Reply]) -> None:
        """Give the replies to whoever waits."""
        call_back(self.settle, replies)

    def fail(self, failure: Failure) -> None:
        """Give every command the same error."""
        self.answer([failure] * len(self.commands))


class Pending:
    """A proposal under way."""

    __slots__ = ("batches", "data", "first_sent_s", "sent_s", "size_bytes")

    def __init__(self, data: bytes, batches: list[Batch], size_bytes: int, now_s: float) -> None:
        self.data = data
        self.batches = batches
        self.size_bytes = size_bytes
        self.first_sent_s = now_s
        self.sent_s = now_s


class Proposals:
    """See the module."""

    def __init__(
        self,
        *,
        origin: str,
        boot: int,
        leader_wait_s: float,
        commit_timeout_s: float,
        entry_bytes_max: int,
        waiting_bytes_max: int,
    ) -> None:
        self.origin = origin
        self.boot = boot
        self.leader_wait_s = leader_wait_s
        self.commit_timeout_s = commit_timeout_s
        self.entry_bytes_max = entry_bytes_max
        self.waiting_bytes_max = waiting_bytes_max
        self.waiting: deque[Batch] = deque()
        self.pending: dict[int, Pending] = {}  # by sequence, ascending
        self.held_bytes = 0
        self.sequence = 0

    def submit(
        self, commands: list[list[Any]], size_bytes: int, settle: Settle, now_s: float
    ) -> None:
        """Take a batch; it is refused at once when too much waits here already."""
        batch = Batch(commands, size_bytes, settle, now_s)
        if self.held_bytes + size_bytes > self.waiting_bytes_max:
            batch.fail(errors.TRYAGAIN.failure())
            return
        self.held_bytes += size_bytes
        self.waiting.append(batch)

    def next_proposal(self, now_s: float) -> bytes | None:
        """One proposal from the batches that wait, up to the size of an entry."""
        if not self.waiting:
            return None
        batches: list[Batch] = []
        commands: list[list[Any]] = []
        size_bytes = 0
        while self.waiting:
            batch = self.waiting[0]
            if batches and size_bytes + batch.size_bytes > self.entry_bytes_max:
                break
            self.waiting.popleft()
            batches.append(batch)
            commands.extend(batch.commands)
            size_bytes += batch.size_bytes
        self.sequence += 1
        settled = next(iter(self.pending), self.sequence)
        data = encode_proposal(self.origin, self.boot, self.sequence, settled, commands)
        self.pending[self.sequence] = Pending(data, batches, size_bytes, now_s)
        return data

    def applied(self, sequence: int, replies: list[Reply]) -> None:
        """This node applied the proposal: answer those who wait."""
        pending = self.pending.pop(sequence, None)
        if pending is None:
            return  # given up already, and told UNCERTAIN
        self.held_bytes -= pending.size_bytes
        start = 0
        for batch in pending.batches:
            end = start + len(batch.commands)
            batch.answer(replies[start:end])
            start = end

    def sent_before(self, before_s: float, now_s: float) -> list[bytes]:
        """What was last sent before then and has no outcome yet, in order, to be sent again now."""
        again = [pending for pending in self.pending.values() if pending.sent_s < before_s]
        for pending in again:
            pending.sent_s = now_s
        return [pending.data for pending in again]

    def overdue(self, now_s: float) -> list[bytes]:
        """What had no outcome for a while."""
        return self.sent_before(now_s - RESEND_AFTER_S, now_s)

    def expire(self, now_s: float) -> None:
        """Answer those whose time is up."""
        while self.waiting and now_s - self.waiting[0].arrived_s >= self.leader_wait_s:
            batch = self.waiting.popleft()
            self.held_bytes -= batch.size_bytes
            batch.fail(errors.CLUSTERDOWN.failure())
        while self.pending:
            sequence, pending = next(iter(self.pending.items()))
            if now_s - pending.first_sent_s < self.commit_timeout_s:
                break
            del self.pending[sequence]
            self.held_bytes -= pending.size_bytes
            for batch in pending.batches:
                batch.fail(errors.UNCERTAIN.failure())


class ToAppend:
    """On the leader: proposals, own and forwarded, that wait for the next entry; bounded."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self._bytes = 0
        self._proposals: deque[bytes] = deque()

    def __bool__(self) -> bool:
        return bool(self._proposals)

    def add(self, proposals: list[bytes]) -> None:
        """As many as there is room for; the rest is sent again by its origin."""
        for data in proposals:
            if self._bytes + len(data) > self.bytes_max:
                return
            self._proposals.append(data)
            self._bytes += len(data)

    def next(self, bytes_max: int) -> list[bytes]:
        """The first ones, as many as fit; at least one, if there is one."""
        chosen: list[bytes] = []
        size_bytes = 0
        while self._proposals:
            size_bytes += len(self._proposals[0])
            if chosen and size_bytes > bytes_max:
                break
            chosen.append(self._proposals.popleft())
            self._bytes -= len(chosen[-1])
        return chosen
