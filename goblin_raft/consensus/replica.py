"""One replica as a pure machine: messages, commands and ticks in; messages and a batch for the disk
out. No sockets, no threads, no clock of its own, so that a test can hold every one of them still.

A turn (docs/architecture.md) delivers what came from the peers, ticks consensus, applies what is
committed, and makes one log entry, or one message to the leader, of all the commands that wait.
Its rules, which the engine around it keeps:

* While a batch is being written no turn runs. So an acknowledgement is never looked at before the
  leader's own copy is durable, and commands that arrive meanwhile share the next entry.
* `Turn.now` may leave at once. `Turn.held` leaves only when `Turn.batch` is durable: it holds
  every acknowledgement and every vote.
* `Turn.snapshot` asks for a snapshot of the state as it is now, before another turn changes it.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from goblin_raft.clock import ClusterClock
from goblin_raft.config import Config
from goblin_raft.consensus.barrier import ReadBarrier, Ready
from goblin_raft.consensus.log import Log
from goblin_raft.consensus.node import RaftNode
from goblin_raft.consensus.proposals import Proposals, Settle, ToAppend
from goblin_raft.consensus.snapshot_policy import SnapshotPolicy
from goblin_raft.consensus.stock import REGULAR, Message, monotonic_s
from goblin_raft.consensus.storage import Batch
from goblin_raft.entry import encode_entry, entry_stamp_ms
from goblin_raft.machine_state import StateLoader
from goblin_raft.state_machine import StateMachine

# A leader that was not answered by a majority for so many heartbeats takes nothing new into its
# log: what it has not proposed it can still refuse with certainty.
SILENT_HEARTBEATS = 5
# While leases are outstanding and nothing is written, a tick carries the time this often, so that
# the pair beside the log (clock.py) is never old.
IDLE_TICK_MS = 5_000
TICK_GAP_MS = 10  # leases that end one after another share ticks: each is a write on every disk
HAND_OVER_S = 1.0

_AT_ONCE = frozenset(
    {"append_entries", "snapshot_chunk", "pre_vote", "forward", "read_ask", "read_probe"}
)
Sent = tuple[str, Message]


@dataclass(frozen=True, slots=True)
class Turn:
    """What one turn wants done."""

    now: list[Sent]
    held: list[Sent]
    batch: Batch | None
    snapshot: tuple[int, int] | None  # the last entry (index, term) that it shall include


class Replica:
    """See the module."""

    def __init__(
        self,
        config: Config,
        *,
        boot: int,
        log: Log,
        machine: StateMachine,
        steady_ms: Callable[[], float],
        wall_ms: Callable[[], int],
        rng: random.Random,
    ) -> None:
        self.node_id = config.node_id
        self.peer_ids = sorted(config.peer_addresses)
        self.machine = machine
        self.log = log
        if log.snapshot is not None:
            machine.restore(log.snapshot_blocks())
        self.snapshots = SnapshotPolicy(
            log,
            log_bytes_max=config.snapshot_log_bytes,
            place=sum(peer < self.node_id for peer in self.peer_ids) / (len(self.peer_ids) + 1),
        )
        self.steady_ms = steady_ms
        self.wall_ms = wall_ms
        self.entry_bytes_max = config.entry_bytes_max
        self.silence_max_s = SILENT_HEARTBEATS * config.heartbeat_ms / 1000
        self.clock = ClusterClock(rate_error=config.clock_rate_error_ppm / 1e6)
        if log.stored_clock is not None:
            stored_ms, stored_wall_ms = log.stored_clock
            self.clock.start_cold(
                stored_ms=stored_ms,
                stored_wall_ms=stored_wall_ms,
                wall_ms=wall_ms(),
                steady_ms=steady_ms(),
            )
        self.proposals = Proposals(
            origin=config.node_id,
            boot=boot,
            leader_wait_s=config.leader_wait_ms / 1000,
            commit_timeout_s=config.commit_timeout_ms / 1000,
            entry_bytes_max=config.entry_bytes_max,
            waiting_bytes_max=config.waiting_bytes_max,
        )
        self.barrier = ReadBarrier(
            wait_s=config.leader_wait_ms / 1000,
            first_request=rng.getrandbits(62),
            send=self._send,
        )
        self.inbox: deque[tuple[str, Message | bool]] = deque()
        self.to_append = ToAppend(config.waiting_bytes_max)
        self.last_stamp_ms = 0
        self.others_wait_index = 0  # the greatest that another node waits for, so far as we know
        self.known_leader: tuple[str, int] | None = None
        self.hand_over_until_s = float("-inf")
        self.node = RaftNode(config, self.peer_ids, log, self, rng)

    # ---- inputs ------------------------------------------------------------------------------

    def receive(self, peer_id: str, message: Message) -> None:
        """A validated message of a peer, for the next turn."""
        self.inbox.append((peer_id, message))

    def link_changed(self, peer_id: str, *, up: bool) -> None:
        """Messages to this peer can, or cannot, be sent from now on."""
        self.inbox.append((peer_id, up))

    def propose(self, commands: list[list[Any]], size_bytes: int, settle: Settle) -> None:
        """Commands of one client; see Proposals."""
        self.proposals.submit(commands, size_bytes, settle, monotonic_s())

    def read(self, ready: Ready) -> None:
        """See ReadBarrier."""
        self.barrier.read(ready, monotonic_s())

    def hand_over(self) -> None:
        """Begin to give leadership away; new commands wait meanwhile."""
        if self.node.is_leader and self.peer_ids:
            self.hand_over_until_s = monotonic_s() + HAND_OVER_S

    # ---- the turn ----------------------------------------------------------------------------

    def turn(self) -> Turn:
        """See the module. Raises Fatal when going on could break a promise."""
        now_s = monotonic_s()
        self.node.load_snapshot()
        self.snapshots.compact(self.node.oldest_needed_index())
        while self.inbox:
            self._deliver(*self.inbox.popleft())
        self._meet_leader(now_s)
        # What waits in `to_append` is no reason to wait: its origins send it to the next leader.
        if now_s < self.hand_over_until_s and self.node.hand_over():
            self.hand_over_until_s = min(self.hand_over_until_s, now_s + HAND_OVER_S / 2)
        self.node.doTick(0.0)
        self._meet_leader(now_s)
        self._ask_to_vote(now_s)
        self._forward(now_s)
        self._serve_reads(now_s)
        self.expire()
        messages = self.node.outbox.take()
        batch = self.log.take(clock_ms=self.clock_ms(), wall_ms=self.wall_ms())
        snapshot = self.snapshots.due(self.node.last_applied)
        if batch is None:
            return Turn(messages, [], None, snapshot)
        return Turn(
            [sent for sent in messages if sent[1]["type"] in _AT_ONCE],
            [sent for sent in messages if sent[1]["type"] not in _AT_ONCE],
            batch,
            snapshot,
        )

    def expire(self) -> None:
        """Answer those whose time is up. Only answers, so also while no turn may run: a disk that
        hangs must not leave a client waiting for ever."""
        now_s = monotonic_s()
        self.proposals.expire(now_s)
        self.barrier.expire(now_s)

    @property
    def wants_turn(self) -> bool:
        """Whether there is work that no further event announces."""
        node = self.node
        if node.has_backlog or self.inbox or node.loading is not None or self.log.is_compacting:
            return True
        if node.is_leader:
            return bool(self.to_append or self.proposals.waiting) and self._may_append()
        return bool(self.proposals.waiting) and self._may_forward()

    def next_deadline_s(self) -> float:
        """Seconds until the leader should end a lease, or say what is committed; else infinity."""
        if not self.node.is_leader:
            return float("inf")
        wait_s = self.node.publish_commit_s - monotonic_s()
        deadline_ms = self.machine.next_deadline_ms()
        if deadline_ms is not None:
            wait_s = min(wait_s, (self._tick_due_ms(deadline_ms) - self.clock_ms()) / 1000)
        return max(0.0, wait_s)

    def _tick_due_ms(self, deadline_ms: int) -> int:
        """When to end the lease with this deadline, if no command's stamp does."""
        return max(deadline_ms, self.last_stamp_ms + TICK_GAP_MS)

    def others_wait_for(self, after_index: int) -> bool:
        """See node.Host."""
        return self.others_wait_index > after_index

    def _deliver(self, peer_id: str, message: Message | bool) -> None:
        if isinstance(message, bool):
            if message:
                self.node.link_up(peer_id)
                if self.known_leader is not None and peer_id == self.known_leader[0]:
                    self.known_leader = None  # what was under way to it may be lost
            else:
                self.node.link_down(peer_id)
            return
        if self.node.deliver(peer_id, message):
            return
        match message["type"]:
            case "forward":
                self._take_forwarded(message["proposals"])
            case "read_ask":
                if self.node.is_leader and message["term"] == self.node.term:
                    self.barrier.on_read_ask(peer_id, message["request"])
            case "read_probe":
                self._answer_probe(peer_id, message)
            case "read_probe_answer":
                if self.node.is_leader and message["term"] == self.node.term:
                    self.barrier.on_probe_answer(peer_id, message["round"])
            case "read_index":
                if message["term"] == self.node.term:
                    self.barrier.on_read_index(message["request"], message["index"])

    def _answer_probe(self, peer_id: str, message: Message) -> None:
        # A learner's word says nothing about what it promised before it was wiped.
        node = self.node
        if node.is_voter and message["term"] == node.term and peer_id == node.leader_id:
            answer = {"type": "read_probe_answer", "term": node.term, "round": message["round"]}
            self._send(peer_id, answer)

    def _take_forwarded(self, proposals: list[bytes]) -> None:
        if not self.node.is_leader:
            return  # its origin sends it again, to whoever leads then
        self.to_append.add(proposals)

    def _meet_leader(self, now_s: float) -> None:
        """When leadership or the way to it changed, send everything under way once more."""
        node = self.node
        leader = None if node.leader_id is None else (node.leader_id, node.term)
        if leader == self.known_leader:
            return
        self.known_leader = leader
        if leader is not None:
            # What this very turn has put into the new leader's log is not sent twice.
            self._send_on(self.proposals.sent_before(now_s, now_s))

    def _ask_to_vote(self, now_s: float) -> None:
        """A learner proposes something, to see it come back; see membership.py."""
        idle = not (self.proposals.waiting or self.proposals.pending)
        if idle and not self.node.is_voter and self.node.leader_id is not None:
            self.proposals.submit([], 0, lambda _: None, now_s)

    def _forward(self, now_s: float) -> None:
        if not self._may_forward():
            return
        fresh = []
        while (data := self.proposals.next_proposal(now_s)) is not None:
            fresh.append(data)
        self._send_on(fresh + self.proposals.overdue(now_s))

    def _send_on(self, proposals: list[bytes]) -> None:
        if not proposals:
            return
        if self.node.is_leader:
            self._take_forwarded(proposals)
            return
        leader_id = self.node.leader_id
        assert leader_id is not None
        for data in proposals:  # one a message: each is within the size of a frame
            self._send(leader_id, {"type": "forward", "proposals": [data]})

    def _serve_reads(self, now_s: float) -> None:
        node, barrier = self.node, self.barrier
        if node.leader_id is not None:
            barrier.ask(node.leader_id, node.term, is_self=node.is_leader, now_s=now_s)
        if node.is_leader:
            barrier.start_round(
                self.peer_ids,
                term=node.term,
                index=max(node.commit_index, node.no_op_index),
                self_id=self.node_id,
                now_s=now_s,
            )
            if barrier.serves_others:
                self.others_wait_index = max(self.others_wait_index, barrier.round_index)
            barrier.finish_round(node.is_majority, term=node.term)
        barrier.release(node.last_applied)

    def _send(self, peer_id: str, message: Message) -> None:
        self.node.outbox.messages.append((peer_id, message))

    # ---- what the RaftNode asks (node.Host) ----------------------------------------------------

    def apply(self, index: int, entry: bytes) -> None:
        """Apply one committed entry and answer those who wait here for its proposals."""
        self.snapshots.applied(len(entry))
        for outcome in self.machine.apply(entry):
            if (
                outcome.replies is not None
                and outcome.origin == self.node_id
                and outcome.boot == self.proposals.boot
            ):
                self.proposals.applied(outcome.sequence, outcome.replies)
                if not self.node.is_voter:
                    self.node.become_voter("filled_up")

    def state_loader(self) -> StateLoader:
        """Where the blocks of a received snapshot go."""
        return self.machine.loader()

    def install(self, loader: StateLoader) -> None:
        """Go on from the leader's state. What waits here for an outcome that it includes gets none,
        and is told UNCERTAIN in time."""
        self.machine.install(loader)
        self.snapshots.installed()

    def snapshot_is_damaged(self) -> None:
        """Replace what cannot be sent."""
        self.snapshots.request(again=True)

    def next_entry(self) -> bytes | None:
        """All that waits, and the time, as one entry; or a tick when a lease is over."""
        if not self._may_append():
            return None
        now_s = monotonic_s()
        self._send_on(self.proposals.overdue(now_s))
        if self.to_append:
            self.others_wait_index = self.log[-1][1] + 1
        chosen = self.to_append.next(self.entry_bytes_max)
        if sum(map(len, chosen)) < self.entry_bytes_max:
            own = self.proposals.next_proposal(now_s)
            if own is not None:
                chosen.append(own)
        now_ms = max(self.clock_ms(), self.last_stamp_ms)
        if not chosen and not self._tick_is_due(now_ms):
            return None
        self.last_stamp_ms = now_ms
        return encode_entry(now_ms, self.clock.time_of_day_ms(now_ms, self.wall_ms()), chosen)

    def _may_forward(self) -> bool:
        node = self.node
        return not (node.is_leader or node.leader_id is None or node.is_behind)

    def _may_append(self) -> bool:
        now_s = monotonic_s()
        if now_s < self.hand_over_until_s or self.node.is_behind:
            return False
        return self.node.quorum_answered_since(now_s - self.silence_max_s)

    def _tick_is_due(self, now_ms: int) -> bool:
        """Whether time itself must go into the log: nothing else carried it past a deadline."""
        deadline_ms = self.machine.next_deadline_ms()
        if deadline_ms is None:
            return False
        if now_ms - self.last_stamp_ms >= IDLE_TICK_MS:
            return True
        if now_ms < self._tick_due_ms(deadline_ms):
            return False
        # A later stamp may be in the log and not applied yet; or it was applied and removed only
        # part of what is over, and another tick removes more.
        return self.last_stamp_ms < deadline_ms or self.node.last_applied == self.log[-1][1]

    def role_changed(self, *, leading: bool) -> None:
        """Take up, or lay down, the clock that stamps."""
        if leading:
            self.clock.lead(wall_ms=self.wall_ms(), steady_ms=self.steady_ms())
            self.last_stamp_ms = self._last_stamp_in_log()
        else:
            self.clock.follow(self.steady_ms())
            self.barrier.lost_leadership()
            self.to_append = ToAppend(self.to_append.bytes_max)  # their origins send them again
            self.hand_over_until_s = float("-inf")

    def _last_stamp_in_log(self) -> int:
        for position in range(len(self.log) - 1, -1, -1):
            command = self.log[position][0]
            if command[:1] == REGULAR:
                return max(self.machine.now_ms, entry_stamp_ms(command[1:]))
        return self.machine.now_ms

    def leader_heard(self, leader_ms: int) -> None:
        """A leader's message showed its clock; 0 while it has none."""
        if leader_ms:
            self.clock.hear(leader_ms, self.steady_ms(), term=self.node.term)

    def clock_ms(self) -> int:
        """Cluster time as this node reads it now."""
        return self.clock.now_ms(self.steady_ms())
