"""One Raft node: pysyncobj's SyncObj with the parts replaced that break Raft's rules.

Pure of sockets, disks and threads: messages come in by `deliver`, a tick moves things on, and
what is to be sent or written is taken from the outbox and the log afterwards. Knows nothing of
what the entries mean.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Protocol

from pysyncobj import SyncObjConf
from pysyncobj.node import Node

from goblin_raft.config import Config
from goblin_raft.consensus.elections import Elections
from goblin_raft.consensus.errors import Fatal
from goblin_raft.consensus.log import Log
from goblin_raft.consensus.replication import Progress, Replication
from goblin_raft.consensus.stock import (
    CANDIDATE,
    FOLLOWER,
    LEADER,
    NO_OP,
    REGULAR,
    LogEntry,
    Message,
    NoPoller,
    Outbox,
    monotonic_s,
)
from goblin_raft.machine_state import StateLoader

# Committed entries are applied in portions, so that a node with a long backlog (it was away, or
# has just started) still hears its peers, and answers PING, in between.
APPLY_BYTES_PER_TICK = 256 * 1024
APPLY_ENTRIES_PER_TICK = 500
# The next entry carries the commit index, and often follows at once. When none does, and no node
# waits for it, it goes out by itself after this time: two messages and two turns less an entry.
PUBLISH_COMMIT_AFTER_S = 0.002


class Host(Protocol):
    """What a RaftNode asks of the part that knows what entries mean."""

    def apply(self, index: int, entry: bytes) -> None:
        """A committed entry, in order, exactly once while this process lives. Must not raise:
        whatever it raises ends the process (D5)."""

    def next_entry(self) -> bytes | None:
        """On the leader: the entry to append now, if any."""

    def others_wait_for(self, after_index: int) -> bool:
        """On the leader: whether another node may be waiting for the outcome of an entry after
        this one, or to read at such an index."""

    def role_changed(self, *, leading: bool) -> None:
        """This node became leader, or is no longer."""

    def leader_heard(self, leader_ms: int) -> None:
        """A leader's clock showed this when its message left."""

    def clock_ms(self) -> int:
        """Cluster time as this node reads it."""

    def state_loader(self) -> StateLoader:
        """Where the blocks of a received snapshot go."""

    def install(self, loader: StateLoader) -> None:
        """The state in it takes the place of all that was applied here."""

    def snapshot_is_damaged(self) -> None:
        """A follower found this node's snapshot damaged: take a new one."""


class RaftNode(Replication, Elections):
    """Consensus only. Call `deliver`, `link_up`, `link_down` and `doTick` from one thread."""

    def __init__(
        self, config: Config, peer_ids: list[str], log: Log, host: Host, rng: random.Random
    ) -> None:
        peers = [Node(peer_id) for peer_id in peer_ids]
        self.host = host
        self.rng = rng
        self.progress = {peer: Progress() for peer in peers}
        self.heartbeat_s = config.heartbeat_ms / 1000
        self.election_min_s = config.election_min_ms / 1000
        self.message_bytes_max = config.entry_bytes_max
        self.leader_heard_s = float("-inf")
        self.pre_votes = set()
        self.pre_vote_won_term = 0
        self.blank_peers = set()
        self.transfer_term = 0
        self.voters = (0, set())
        self.published_commit_index = 0
        self.publish_commit_s = float("inf")  # when to, at the latest
        self.no_op_index = 0
        self.receiving = None
        self.loading = None
        super().__init__(
            Node(config.node_id), peers, conf=_stock_conf(config, self), transportClass=Outbox
        )
        self._poller = NoPoller()
        self._log = log
        self._term = max(log.getCurrentTerm(), log[-1][2])
        self._voted_for = log.getVotedForNodeId()
        # Raft does not need a stored commit index, and one beyond the log would let a new leader
        # acknowledge alone (D9). What was committed is learnt from the first leader of a term.
        self._commit_index = self._last_applied = max(log[0][1], log.newest_snapshot_index)
        self.stored_index = log[-1][1]  # what lay in the log when this process began
        if not peers and not self.is_voter:
            self.become_voter("alone")
        self._peer_by_id = {str(peer.id): peer for peer in peers}
        self._handlers: dict[str, Callable[[Node, Message], None]] = {
            "append_entries": self.on_append_entries,
            "append_answer": self.on_append_answer,
            "snapshot_chunk": self.on_snapshot_chunk,
            "snapshot_answer": self.on_snapshot_answer,
            "pre_vote": self.on_pre_vote,
            "pre_vote_answer": self.on_pre_vote_answer,
            "request_vote": self.on_request_vote,
            "vote_answer": self.on_vote_answer,
            "timeout_now": self.on_timeout_now,
        }

    # ---- what the replica calls --------------------------------------------------------------

    @property
    def outbox(self) -> Outbox:
        """Where all that this node says is collected."""
        outbox: Outbox = self._SyncObj__transport
        return outbox

    def deliver(self, peer_id: str, message: Message) -> bool:
        """A consensus message of a peer; False if it is of a type that is not consensus's."""
        handler = self._handlers.get(message["type"])
        if handler is None:
            return False
        handler(self._peer_by_id[peer_id], message)
        return True

    def link_up(self, peer_id: str) -> None:
        """Messages to this peer can be sent from now on; what was under way before is lost."""
        peer = self._peer_by_id[peer_id]
        self._connected.add(peer)
        progress = self.progress[peer]
        progress.probe()
        progress.is_voter = False  # its directory may be another one now
        if not self.is_voter and self._leader is None:
            self._election_deadline_s = 0.0  # ask at once who there is
        if self._role == LEADER:
            self._next_index[peer] = (progress.match_index or self._log[-1][1]) + 1
            self.send_append_entries(heartbeat=True)

    def link_down(self, peer_id: str) -> None:
        """The session with this peer ended."""
        peer = self._peer_by_id[peer_id]
        self._connected.discard(peer)
        self.forget_leader(peer)

    @property
    def is_leader(self) -> bool:
        """Whether this node thinks that it leads; another may, in a later term."""
        return bool(self._role == LEADER)

    @property
    def role(self) -> str:
        """leader, candidate or follower."""
        return {LEADER: "leader", CANDIDATE: "candidate"}.get(self._role, "follower")

    @property
    def leader_id(self) -> str | None:
        """The leader that this node knows of."""
        return None if self._leader is None else str(self._leader.id)

    @property
    def term(self) -> int:
        """The current term."""
        return self._term

    @property
    def commit_index(self) -> int:
        """The greatest index known to be committed."""
        return self._commit_index

    @property
    def last_applied(self) -> int:
        """The greatest index applied here."""
        return self._last_applied

    def match_index(self, peer_id: str) -> int | None:
        """On the leader: how far this follower's log is known to be ours; else None."""
        return self._progress_of(peer_id).match_index if self.is_leader else None

    def peer_is_voter(self, peer_id: str) -> bool | None:
        """On the leader: whether it counts; else None."""
        return self._progress_of(peer_id).is_voter if self.is_leader else None

    def losses(self, peer_id: str) -> int:
        """How often this node, leading, saw it lose what it had acknowledged."""
        return self._progress_of(peer_id).losses

    def _progress_of(self, peer_id: str) -> Progress:
        return self.progress[self._peer_by_id[peer_id]]

    def is_connected(self, peer_id: str) -> bool:
        """Whether messages to this peer can be sent."""
        return self._peer_by_id[peer_id] in self._connected

    def quorum_answered_since(self, since_s: float) -> bool:
        """On the leader: whether a majority, itself counted, has answered since then."""
        answered = {str(p.id) for p, at_s in self._last_response_s.items() if at_s >= since_s}
        return self.is_majority(answered | {str(self._self.id)})

    def hand_over(self) -> bool:
        """Ask a follower to take over that has all entries; False while none has."""
        last = self._log[-1][1]
        ready = [peer for peer in self._connected if self._match_index.get(peer, 0) == last]
        if self.is_leader and ready:
            # Not one that hangs: the one that was heard last.
            target = max(ready, key=lambda peer: (self._last_response_s[peer], str(peer.id)))
            self.outbox.send(target, {"type": "timeout_now", "term": self._term})
            return True
        return False

    def stand_down(self) -> None:
        """Neither lead nor ask to: this node cannot write for now."""
        self._leader = None
        self.pre_votes = set()
        self.pre_vote_won_term = 0
        self._transfer_in_progress = False
        if self._role != FOLLOWER:
            self._set_role(FOLLOWER)
        self._election_deadline_s = monotonic_s() + self._election_timeout_s()

    # ---- pysyncobj's hooks -------------------------------------------------------------------

    def leader_heard(self, leader_ms: int) -> None:
        """See Replication."""
        self.leader_heard_s = monotonic_s()
        self.pre_votes = set()
        self.pre_vote_won_term = 0
        self.host.leader_heard(leader_ms)

    def clock_ms(self) -> int:
        """See Replication."""
        return self.host.clock_ms()

    def draw(self) -> float:
        """See Elections."""
        return self.rng.random()

    def _SyncObj__generateRaftTimeout(self) -> float:
        conf = self.conf
        spread_s = conf.raftMaxTimeout - conf.raftMinTimeout
        return float(conf.raftMinTimeout + spread_s * self.rng.random())

    def _SyncObj__onBecomeLeader(self) -> None:
        for progress in self.progress.values():
            progress.begin(monotonic_s())
            # An election was won a moment ago by the very nodes that must answer next, most of
            # them with our log: start optimistically, a refusal costs one round trip.
            progress.probing = False
        self.no_op_index = self._log[-1][1] + 1
        super()._SyncObj__onBecomeLeader()

    def _checkCommandsToApply(self) -> None:
        """The leader's part of a tick: one entry from all that waits, and the commit index."""
        if self._role != LEADER:
            return
        entry = self.host.next_entry()
        if entry is not None:
            self._log.add(REGULAR + entry, self._log[-1][1] + 1, self._term)
        if entry is not None or self._must_publish_commit():
            self.published_commit_index = self._commit_index
            self.publish_commit_s = float("inf")
            self.send_append_entries(heartbeat=False)

    def _must_publish_commit(self) -> bool:
        """Whether the followers must be told the commit index though there is no new entry."""
        if self._commit_index <= self.published_commit_index:
            return False
        now_s = monotonic_s()
        self.publish_commit_s = min(self.publish_commit_s, now_s + PUBLISH_COMMIT_AFTER_S)
        return now_s >= self.publish_commit_s or self.host.others_wait_for(
            self.published_commit_index
        )

    @property
    def has_backlog(self) -> bool:
        """Whether committed entries still wait to be applied: take another turn soon."""
        return bool(self._commit_index > self._last_applied)

    @property
    def is_behind(self) -> bool:
        """Whether entries that are committed, or were in the log when this process began, are still
        to be applied here. Who is far behind would not see an outcome in time: meanwhile commands
        wait, are part of no proposal, and can be refused with certainty."""
        known = max(self._commit_index, self._leader_commit_index or 0)
        stored = min(self.stored_index, self._log[-1][1])
        return bool(self._last_applied < max(known, stored))

    def _SyncObj__applyLogEntries(self) -> bool:
        """Apply what is committed, a portion a tick; gives False: `_checkCommandsToApply` sends."""
        first = self._log[0][1]
        done_bytes = 0
        for _ in range(APPLY_ENTRIES_PER_TICK):
            if self._last_applied >= self._commit_index or done_bytes >= APPLY_BYTES_PER_TICK:
                break
            index = self._last_applied + 1
            entry: LogEntry = self._log[index - first]
            if self._role == LEADER and index > self._log.durable_index and self._peers:
                msg = f"entry {index} counted as committed before it was on the leader's disk"
                raise Fatal(msg)
            # Before the entry is applied, so that nothing can make it be applied twice (D5).
            self._last_applied = index
            done_bytes += len(entry[0])
            kind = entry[0][:1]
            if kind == REGULAR:
                self.host.apply(index, entry[0][1:])
            elif kind != NO_OP:
                msg = f"entry {index} is of type {kind!r}, which this version does not know"
                raise Fatal(msg)
        return False

    def _SyncObj__tryLogCompaction(self) -> None:
        """The replica decides when; see snapshot_policy.py."""

    def _role_changed(self, old: int, new: int) -> None:
        if LEADER in (old, new):
            for progress in self.progress.values():
                progress.stop_sending()
            self.host.role_changed(leading=new == LEADER)


def _stock_conf(config: Config, node: RaftNode) -> SyncObjConf:
    return SyncObjConf(
        autoTick=False,
        appendEntriesPeriod=config.heartbeat_ms / 1000,
        raftMinTimeout=config.election_min_ms / 1000,
        raftMaxTimeout=config.election_max_ms / 1000,
        leaderFallbackTimeout=config.quorum_timeout_ms / 1000,
        connectionTimeout=config.election_max_ms / 1000,
        appendEntriesUseBatch=True,
        commandsWaitLeader=False,
        dynamicMembershipChange=False,
        journalFile=None,
        fullDumpFile=None,
        password=None,
        onStateChanged=node._role_changed,
    )
