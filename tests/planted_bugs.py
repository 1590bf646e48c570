"""Bugs to plant into the real classes, in this process, to see that what tests us finds them; the
product code has no switch for any of it.

`plant(name)` for a process of its own (tests/planted_node.py starts a real node so),
`planted(name)` for a `with` block. A bug is a function that gets `put(owner, attribute, value)`;
its documentation says what is wrong. `SIMULATED_ONLY` names those that real processes on one
machine can show only with luck, and why.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from goblin_raft import keyspace
from goblin_raft.clock import ClusterClock
from goblin_raft.consensus import log, proposals, replica
from goblin_raft.consensus.barrier import ReadBarrier
from goblin_raft.consensus.elections import Elections
from goblin_raft.consensus.node import RaftNode
from goblin_raft.consensus.replication import Replication
from goblin_raft.consensus.stock import FOLLOWER, LEADER, monotonic_s
from goblin_raft.entry import decode_proposal, encode_proposal
from goblin_raft.errors import CLUSTERDOWN
from goblin_raft.origins import Origins
from goblin_raft.state_machine import StateMachine

Put = Callable[[Any, str, Any], None]
Patch = Callable[[Put], None]

BUGS: dict[str, Patch] = {}
SIMULATED_ONLY = {
    "vote_not_persisted": "two elections of one term and a kill between them, within milliseconds",
    "old_term_committed_by_counting": "needs three leaders in a certain order",
    "answer_without_term": "needs an answer that is older than two elections",
    "older_snapshot_over_newer": "needs a snapshot to end while a newer one arrives",
}


def bug(patch: Patch) -> Patch:
    BUGS[patch.__name__] = patch
    return patch


def plant(name: str) -> None:
    """Into this process, for good."""
    BUGS[name](setattr)


@contextlib.contextmanager
def planted(name: str) -> Iterator[None]:
    """Into this process, until the block ends."""
    with patched(BUGS[name]):
        yield


@contextlib.contextmanager
def patched(patch: Patch) -> Iterator[None]:
    """Apply a patch, and take it back at the end."""
    undo: list[tuple[Any, str, Any, bool]] = []

    def put(owner: Any, name: str, value: Any) -> None:
        undo.append((owner, name, getattr(owner, name), name in vars(owner)))
        setattr(owner, name, value)

    try:
        patch(put)
        yield
    finally:
        for owner, name, old, own in reversed(undo):
            setattr(owner, name, old) if own else delattr(owner, name)


# ---- reads -------------------------------------------------------------------------------------


@bug
def stale_read_without_barrier(put: Put) -> None:
    """Every node answers reads from its own state at once."""
    put(ReadBarrier, "read", lambda self, ready, now_s: ready(None))


@bug
def read_without_majority(put: Put) -> None:
    """The leader answers reads without asking whether it still leads."""
    real = ReadBarrier.finish_round

    def finish_round(self, is_majority, *, term):
        real(self, lambda nodes: True, term=term)

    put(ReadBarrier, "finish_round", finish_round)


@bug
def read_before_applied(put: Put) -> None:
    """A node answers reads as soon as the leader gave it an index, applied here or not."""
    put(ReadBarrier, "release", _release_all)


def _release_all(self, applied_index):
    while self.at_index:
        for _, ready in self.at_index.pop(0)[1]:
            ready(None)


# ---- durability ----------------------------------------------------------------------------------


@bug
def answer_before_disk(put: Put) -> None:
    """Batches count as written at once, and are written 200 ms later, or never."""
    real_write, real_init = log.Log.write, log.Log.__init__

    def init(self, *arguments, **named):
        self.unwritten = None  # the first entry of a new log is written as it should
        real_init(self, *arguments, **named)
        self.unwritten = []

    def write(self, batch):
        if self.unwritten is None:
            real_write(self, batch)
            return
        self.unwritten.append((monotonic_s(), batch))
        while self.unwritten[0][0] < monotonic_s() - 0.2:
            real_write(self, self.unwritten.pop(0)[1])

    put(log.Log, "__init__", init)
    put(log.Log, "write", write)


@bug
def vote_not_persisted(put: Put) -> None:
    """Term and vote stay in memory."""
    real = log.Log.setCurrentTerm

    def set_current_term(self, term, voted_for):
        real(self, term, voted_for)
        self._vote_changed = False

    put(log.Log, "setCurrentTerm", set_current_term)


# ---- replication ---------------------------------------------------------------------------------


@bug
def old_term_committed_by_counting(put: Put) -> None:
    """The leader commits entries of earlier terms as soon as a majority has them."""
    real = RaftNode.doTick

    def do_tick(self, wait_s=0.0):
        if self._role == LEADER:
            matches = sorted([self._match_index[peer] for peer in self._peers] + [self._log[-1][1]])
            self._commit_index = max(self._commit_index, matches[(len(matches) - 1) // 2])
        real(self, wait_s)

    put(RaftNode, "doTick", do_tick)


@bug
def truncation_without_conflict(put: Put) -> None:
    """A follower drops all that it has after the leader's previous entry, equal or not."""

    def append(self, previous, entries):
        position = previous + 1 - self._log[0][1]
        if position < len(self._log):
            self._log.deleteEntriesFrom(position)
        for entry in entries:
            self._log.add(*entry)
        return previous + len(entries)

    put(Replication, "_append", append)


@bug
def answer_without_term(put: Put) -> None:
    """The leader counts acknowledgements whatever term they are from."""
    real = Replication.on_append_answer

    def on_append_answer(self, node, message):
        if message["term"] < self._term:
            message = {**message, "term": self._term}
            message["next_index"] = min(message["next_index"], self._log[-1][1] + 1)
        real(self, node, message)

    put(Replication, "on_append_answer", on_append_answer)


@bug
def answers_more_than_proved(put: Put) -> None:
    """A follower acknowledges its whole log, not what the message proved."""
    real = Replication._append

    def append(self, previous, entries):
        real(self, previous, entries)
        return self._log[-1][1]

    put(Replication, "_append", append)


@bug
def commits_when_sent(put: Put) -> None:
    """The leader counts an entry for a follower when it is sent to it."""
    real = Replication._send_to

    def send_to(self, node, built, **named):
        real(self, node, built, **named)
        if not self.progress[node].probing:
            sent = min(self._next_index[node] - 1, self._log.durable_index)
            self.matches(node, max(self.progress[node].match_index, sent))

    put(Replication, "_send_to", send_to)


@bug
def commits_unproved(put: Put) -> None:
    """A follower takes over the leader's commit index although the message did not fit (D1)."""
    real = Replication.on_append_entries

    def on_append_entries(self, node, message):
        real(self, node, message)
        if message["term"] == self._term and self._role == FOLLOWER:
            self._commit_index = max(
                self._commit_index, min(message["commit_index"], self._log[-1][1])
            )

    put(Replication, "on_append_entries", on_append_entries)


@bug
def older_snapshot_over_newer(put: Put) -> None:
    """A node's own snapshot counts even if the leader has sent a newer one meanwhile (D10)."""

    def publish(self, draft, snapshot):
        self._publish = (draft, snapshot)
        self.newest_snapshot_index = snapshot.last_index

    put(log.Log, "publish", publish)


@bug
def wiped_node_votes_at_once(put: Put) -> None:
    """A node whose directory was wiped votes, and counts, as if it had forgotten nothing."""
    real = log.Log.__init__

    def init(self, *arguments, **named):
        real(self, *arguments, **named)
        if not self.is_voter:
            self.become_voter()

    put(log.Log, "__init__", init)


@bug
def leads_when_asked(put: Put) -> None:
    """A node that leadership is handed to leads at once, with nobody's vote."""

    def on_timeout_now(self, node, message):
        if message["term"] == self._term and self._role == FOLLOWER:
            self._set_term(self._term + 1, str(self._self.id))
            self._become_leader()

    put(Elections, "on_timeout_now", on_timeout_now)


@bug
def hands_over_to_anybody(put: Put) -> None:
    """Leadership goes to any node when handed over, and voters do not compare logs."""

    def hand_over(self):
        peers = sorted(self._connected, key=lambda peer: str(peer.id))
        if self.is_leader and peers:
            self.outbox.send(peers[0], {"type": "timeout_now", "term": self._term})
        return bool(self.is_leader and peers)

    put(RaftNode, "hand_over", hand_over)
    put(Elections, "_is_up_to_date", lambda self, message: True)


# ---- time ----------------------------------------------------------------------------------------


def _skew_ms(node_id: str) -> int:
    """Half a minute from node to node: the wall clocks of machines that nobody looks after."""
    return 30_000 * (sum(node_id.encode()) % 5)


@bug
def stamp_by_wall_clock(put: Put) -> None:
    """A leader stamps with its own wall clock; the nodes' differ by half a minute each."""
    real_init = replica.Replica.__init__

    def init(self, config, *, wall_ms, **named):
        skew_ms = _skew_ms(config.node_id)
        real_init(self, config, wall_ms=lambda: wall_ms() + skew_ms, **named)

    put(replica.Replica, "__init__", init)
    put(replica.Replica, "clock_ms", lambda self: self.wall_ms())


@bug
def stamp_from_follower(put: Put) -> None:
    """The time of a claim is what the node that took it reads, half a minute from node to node."""
    real = replica.Replica.clock_ms
    put(replica.Replica, "clock_ms", lambda self: real(self) + _skew_ms(self.node_id))
    put(replica.Replica, "leader_heard", lambda self, leader_ms: None)


@bug
def expiry_by_local_clock(put: Put) -> None:
    """A node lets leases end by its own reading of the time when it applies, not by the stamp."""
    real = replica.Replica.apply

    def apply(self, index, entry):
        self.machine.now_ms = max(self.machine.now_ms, self.clock_ms() + _skew_ms(self.node_id))
        real(self, index, entry)

    put(replica.Replica, "apply", apply)


@bug
def new_leader_starts_leases_again(put: Put) -> None:
    """A new leader goes on from the last stamp that it has: time without one did not pass."""
    real = replica.Replica.role_changed

    def role_changed(self, *, leading):
        real(self, leading=leading)
        if leading and self.last_stamp_ms:
            self.clock._rebase(float(self.last_stamp_ms), self.steady_ms())

    put(replica.Replica, "role_changed", role_changed)


@bug
def clock_leaps_at_elections(put: Put) -> None:
    """A new leader's clock is three seconds ahead of the old one's: leases end early."""
    real = ClusterClock.lead

    def lead(self, *, wall_ms, steady_ms):
        real(self, wall_ms=wall_ms, steady_ms=steady_ms)
        self._rebase(self._base_ms + 3_000, steady_ms)

    put(ClusterClock, "lead", lead)


# ---- exactly once, and the truth about it --------------------------------------------------------


@bug
def double_apply_on_reproposal(put: Put) -> None:
    """A proposal that comes up in the log again is applied again."""
    put(Origins, "admit", lambda self, proposal, now_ms: True)


@bug
def reproposal_under_a_new_id(put: Put) -> None:
    """What is proposed once more gets a new number, so nobody knows it again."""
    real = proposals.Proposals.sent_before

    def sent_before(self, before_s, now_s):
        again = []
        for data in real(self, before_s, now_s):
            origin, boot, sequence, settled, commands = decode_proposal(data)
            self.sequence += 1
            pending = self.pending.pop(sequence)
            pending.data = encode_proposal(origin, boot, self.sequence, settled, commands)
            self.pending[self.sequence] = pending
            again.append(pending.data)
        return again

    put(proposals.Proposals, "sent_before", sent_before)


@bug
def unknown_called_not_executed(put: Put) -> None:
    """A proposal without an outcome in time is said not to have been executed."""
    put(proposals.errors, "UNCERTAIN", CLUSTERDOWN)


@bug
def origins_not_in_snapshot(put: Put) -> None:
    """A snapshot forgets which proposals were applied already."""
    put(Origins, "state", lambda self: [])


@bug
def lease_lost_in_snapshot(put: Put) -> None:
    """A snapshot forgets deadlines: a lease in it never ends."""
    real = keyspace.Keyspace.load

    def load(self, items):
        real(self, [(key, None, kind, content) for key, _, kind, content in items])

    put(keyspace.Keyspace, "load", load)


@bug
def claim_granted_twice(put: Put) -> None:
    """Two claims of one key that come with the same stamp are both granted."""
    real_init = StateMachine.__init__

    def init(self, *arguments):
        real_init(self, *arguments)
        runner = self._runners["GOBLIN.CLAIM"]

        def claim(space, at, claim_key, result_key, token, lease_ms):
            if space.deadlines.get(claim_key) == at.now_ms + lease_ms:
                space.delete(claim_key)
            return runner.handler(space, at, claim_key, result_key, token, lease_ms)

        self._runners = {**self._runners, "GOBLIN.CLAIM": runner._replace(handler=claim)}

    put(StateMachine, "__init__", init)
