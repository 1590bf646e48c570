"""The engine's in-memory twin: one node, no network, no disk. For tests of what stands above it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from goblin_raft.entry import encode_entry, encode_proposal
from goblin_raft.node_view import NodeStatus
from goblin_raft.reply import Failure, Reply
from goblin_raft.state_machine import StateMachine


class MemoryEngine:
    """An entry is committed the moment it is proposed, stamped with the time that the test says."""

    def __init__(
        self,
        now_ms: Callable[[], int],
        *,
        wall_ms: Callable[[], int] | None = None,
        machine: StateMachine | None = None,
    ) -> None:
        self.machine = machine or StateMachine()
        self.log: list[bytes] = []
        self._now_ms = now_ms
        self._wall_ms = wall_ms or now_ms
        self._sequence = 0

    def propose(
        self, commands: list[list[Any]], size_bytes: int, settle: Callable[[list[Reply]], None]
    ) -> None:
        """Apply at once."""
        self._sequence += 1
        sequence = self._sequence
        outcomes = self._append([encode_proposal("n1", 1, sequence, sequence, commands)])
        replies = outcomes[0].replies
        assert replies is not None
        settle(replies)

    def tick(self) -> None:
        """Let the time pass a deadline, as a leader does."""
        self._append([])

    def _append(self, proposals: list[bytes]) -> Any:
        entry = encode_entry(self._now_ms(), self._wall_ms(), proposals)
        self.log.append(entry)
        return self.machine.apply(entry)

    def read(self, ready: Callable[[Failure | None], None]) -> None:
        """Time first: a real leader would have written a tick by now."""
        self.tick()
        ready(None)

    def cluster_now_ms(self) -> int:
        """The time that the test says."""
        return self._now_ms()

    def take_snapshot(self) -> bool:
        """There is nothing to keep it in."""
        return True

    def status(self) -> NodeStatus:
        """A leader of itself."""
        count = len(self.log)
        return NodeStatus(
            node_id="n1",
            cluster="memory",
            role="leader",
            leader_id="n1",
            term=1,
            commit_index=count,
            applied_index=count,
            last_log_index=count,
            log_bytes=sum(map(len, self.log)),
            clock_ms=self._now_ms(),
        )
