"""What a node command (PING, INFO, ...) may see of its node: plain values, nothing to act on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from goblin_raft.config import Config
from goblin_raft.counters import CommandStats, Rates, SlowLog
from goblin_raft.session import Session
from goblin_raft.users import Users


@dataclass(frozen=True, slots=True)
class PeerStatus:
    """Another member as this node sees it; `match_index` is known to the leader alone."""

    node_id: str
    raft_address: str
    resp_address: str  # "" until it was heard
    connected: bool
    match_index: int | None
    is_voter: bool | None = None  # known to the leader alone
    losses: int = 0  # how often it came back with less than it had acknowledged


@dataclass(frozen=True, slots=True)
class SnapshotStatus:
    """This node's newest snapshot, and what is being done about snapshots."""

    last_index: int = 0  # 0: there is none
    bytes: int = 0
    saved_s: int = 0  # when this process last wrote one, by the wall clock; 0: never
    in_progress: bool = False
    last_failed: bool = False
    loading: bool = False  # the leader's, because this node was too far behind


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """This node's part in the cluster."""

    node_id: str
    cluster: str
    role: str  # leader, candidate or follower
    leader_id: str | None
    term: int
    commit_index: int
    applied_index: int
    last_log_index: int
    log_bytes: int
    clock_ms: int
    log_first_index: int = 1
    state: str = "up"  # or new, learner, disk-failed; see docs/operations.md
    problem: str = ""  # what the operator should know about that state
    disk_bytes: int = 0
    snapshot: SnapshotStatus = SnapshotStatus()
    peers: tuple[PeerStatus, ...] = ()

    def followers(self) -> list[tuple[str, str, int]]:
        """Host and port for clients, and position in the log, of those that follow this leader."""
        if self.role != "leader":
            return []
        return [
            (*peer.resp_address.rpartition(":")[::2], peer.match_index or 0)
            for peer in self.peers
            if peer.connected and peer.resp_address
        ]


@dataclass(slots=True)
class Metrics:
    """Counters since this process began."""

    started_s: float
    run_id: str = "0" * 40  # another one for every process
    connections: int = 0
    connections_total: int = 0
    connections_rejected: int = 0
    commands: int = 0
    errors: dict[str, int] = field(default_factory=dict)
    input_bytes: int = 0
    output_bytes: int = 0
    hits: int = 0  # reads that were answered with something
    misses: int = 0
    commands_stats: CommandStats = field(default_factory=CommandStats)
    slow_log: SlowLog = field(default_factory=SlowLog)
    rates: Rates = field(default_factory=Rates)  # commands, bytes in, bytes out

    def reset(self) -> None:
        """CONFIG RESETSTAT: begin to count anew; what is there now stays."""
        self.connections_total = self.connections_rejected = self.commands = 0
        self.input_bytes = self.output_bytes = self.hits = self.misses = 0
        self.errors.clear()
        self.commands_stats.clear()

    def count_error(self, code: str) -> None:
        """One more error reply with this code."""
        self.errors[code] = self.errors.get(code, 0) + 1


@dataclass(slots=True)
class Changeable:
    """Settings that CONFIG SET may change while the node runs, beside those of the slow log."""

    maxclients: int


@dataclass(frozen=True, slots=True)
class ClientStatus:
    """A connection as CLIENT LIST shows it."""

    session: Session
    idle_s: int
    input_bytes: int  # of requests that are not served yet
    output_bytes: int  # of replies that are not sent yet


@dataclass(frozen=True, slots=True)
class NodeView:
    """Handed to handlers of node commands."""

    session: Session
    config: Config
    changeable: Changeable
    users: Users
    metrics: Metrics
    status: Callable[[], NodeStatus]
    keys_by_database: Callable[[], list[tuple[int, int]]]  # (keys, keys with a deadline)
    expired_keys: Callable[[], int]
    state_digest: Callable[[], str]  # reads the whole state
    take_snapshot: Callable[[], bool]  # False: one is being taken already
    now_s: Callable[[], float]  # the wall clock, to be shown only
    clients: Callable[[], list[ClientStatus]]
    kill: Callable[[int], None]  # ends the connection of that session id, unless it is this one
