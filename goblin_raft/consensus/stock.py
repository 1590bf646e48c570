"""pysyncobj's private state under our names; nothing here decides anything.

pysyncobj keeps what Raft's figure 2 calls state in name-mangled attributes. Each one that we read
or write is named here once, with the paper's word for it, so that an upgrade has one place to
look at. Methods that we override keep their mangled names where they are overridden.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from pysyncobj import syncobj
from pysyncobj.node import Node
from pysyncobj.transport import Transport

FOLLOWER: int = syncobj._RAFT_STATE.FOLLOWER
CANDIDATE: int = syncobj._RAFT_STATE.CANDIDATE
LEADER: int = syncobj._RAFT_STATE.LEADER

# The first byte of each log entry's command. Membership changes and code versions, the other two
# types of pysyncobj, are never written and refused when met: both are unsafe
# (docs/consensus.md, D13 and D14).
REGULAR = b"\x00"
NO_OP = b"\x01"

LogEntry = tuple[bytes, int, int]
"""(command, index, term), pysyncobj's order."""

Message = dict[str, Any]


def monotonic_s() -> float:
    """The clock that pysyncobj's own deadlines use, in seconds. Looked up each time, so that a
    simulation can replace it in one place."""
    return float(syncobj.monotonicTime())


def _private(name: str) -> Any:
    mangled = f"_SyncObj__{name}"
    return property(
        attrgetter(mangled),  # in C: a turn reads some fifty of these
        lambda self, value: self.__dict__.__setitem__(mangled, value),
    )


class StockNode(syncobj.SyncObj):
    """SyncObj with its private state readable."""

    _role: int = _private("raftState")
    _term: int = _private("raftCurrentTerm")
    _voted_for: str | None = _private("votedForNodeId")
    _votes_count: int = _private("votesCount")
    _leader: Node | None = _private("raftLeader")
    _commit_index: int = _private("raftCommitIndex")
    _last_applied: int = _private("raftLastApplied")
    _next_index: dict[Node, int] = _private("raftNextIndex")
    _match_index: dict[Node, int] = _private("raftMatchIndex")
    _last_response_s: dict[Node, float] = _private("lastResponseTime")
    _election_deadline_s: float = _private("raftElectionDeadline")
    _transfer_in_progress: bool = _private("transferInProgress")
    _heartbeat_due_s: float = _private("newAppendEntriesTime")
    _connected: set[Node] = _private("connectedNodes")
    _peers: set[Node] = _private("otherNodes")
    _self: Node = _private("selfNode")
    _log: Any = _private("raftLog")
    _leader_commit_index: int | None = _private("leaderCommitIndex")

    def __dir__(self) -> list[str]:
        # SyncObj's constructor looks at every attribute for methods marked as replicated; ours has
        # none, and its properties cannot be read that early.
        return dir(syncobj.SyncObj)

    def _set_term(self, term: int, voted_for: str | None) -> None:
        self._SyncObj__setCurrentTerm(term, voted_for)

    def _set_role(self, role: int) -> None:
        self._SyncObj__setState(role)

    def _election_timeout_s(self) -> float:
        return float(self._SyncObj__generateRaftTimeout())

    def _become_leader(self) -> None:
        self._SyncObj__onBecomeLeader()


class NoPoller:
    """The socket poller that a tick asks at its end; we have no sockets there."""

    def poll(self, timeout: float) -> None:
        """Nothing to wait for."""


class Outbox(Transport):
    """pysyncobj's transport as a list: what a tick wants to say is collected, not sent."""

    def __init__(self, owner: Any, self_node: Node, other_nodes: list[Node]) -> None:
        super().__init__(owner, self_node, other_nodes)
        self.owner = owner
        self.messages: list[tuple[str, Message]] = []

    def send(self, node: Node, message: Message) -> bool:
        """Never raises, never blocks, as SyncObj expects."""
        if message["type"] == "request_vote":
            # The stock tick sends this one; a vote in a transfer of leadership is asked of nodes
            # that still hear the old leader, so it must say so.
            message["transfer"] = message["term"] == self.owner.transfer_term
        self.messages.append((node.id, message))
        return True

    def withdraw(self, kind: str) -> None:
        """Do not send messages of this type that have not been taken yet: they are true no more."""
        self.messages = [sent for sent in self.messages if sent[1]["type"] != kind]

    def take(self) -> list[tuple[str, Message]]:
        """All that was said since the last call, in order."""
        messages, self.messages = self.messages, []
        return messages
