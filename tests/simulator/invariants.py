"""Raft's promises, looked at after every step of every node; each look costs what has changed.

The committed log is what the first node to know an entry as committed had there. Nothing here is
shared with the code that it watches but the names of what it reads.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any

from goblin_raft.consensus.stock import NO_OP
from goblin_raft.reply import OK as REPLY_OK
from tests.simulator.model import Model
from tests.simulator.plan import RATE_ERROR

if TYPE_CHECKING:
    from tests.simulator.cluster import Cluster, Node


class Violation(Exception):
    """A promise was broken: which, and how."""

    def __init__(self, rule: str, text: str) -> None:
        super().__init__(f"{rule}: {text}")
        self.rule = rule
        self.text = text


class _Seen:
    """What a node was at last, in its present life."""

    __slots__ = ("applied", "cold", "commit", "role", "stamp_ms", "term")

    def __init__(self, node: Any) -> None:
        raft = node.replica.node
        self.term = raft.term
        self.role = raft.role
        self.commit = raft.commit_index
        self.applied = raft.last_applied
        self.stamp_ms = node.replica.machine.now_ms
        self.cold = True


class Invariants:
    """See the module."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.model = Model()
        self.committed: list[tuple[bytes, int]] = [(b"", 0), (NO_OP, 0)]  # (command, term) by index
        # The term in which each was: the leader that counts it is the first to know.
        self.committed_in: list[int] = [0, 0]
        self.leaders: dict[int, str] = {}
        self.entries: dict[tuple[int, int], tuple[bytes, int | None, float]] = {}
        self.votes: dict[tuple[int, str], str] = {}
        self.promised_term: dict[str, int] = {}
        self.snapshots: dict[int, list[bytes]] = {}
        self.seen: dict[str, _Seen] = {}
        self.replies: list[tuple[str, int, int, Any]] = []
        self.clock_may_leap_ms = 0.0  # by a start without a leader, whose wall clock jumped
        self.clock_may_lag_ms = 0.0
        self.ahead_ms: float | None = None  # the least stamp less true time, rate counted in
        # (stamp, true time, term) of the latest entry with a stamp.
        self.stamped: tuple[float, float, int] | None = None

    def started(self, node: Node) -> None:
        """A new life: what was not on disk may be gone, the rest may not."""
        self.seen[node.name] = _Seen(node)
        self._watch_answers(node)
        self._look_at_committed(node, 0, node.replica.node.commit_index)

    def forget(self, name: str) -> None:
        """Its disk was replaced: it may not know what it promised, but must not act against it."""
        self.promised_term.pop(name, None)
        self.votes = {key: vote for key, vote in self.votes.items() if key[1] != name}

    def _watch_answers(self, node: Node) -> None:
        proposals = node.replica.proposals
        real = proposals.applied

        def applied(sequence: int, replies: Any) -> None:
            self.replies.append((node.name, proposals.boot, sequence, replies))
            real(sequence, replies)

        proposals.applied = applied

    # ---- after a step ----------------------------------------------------------------------------

    def after_turn(self, node: Node, batch: Any) -> None:
        replica, seen = node.replica, self.seen[node.name]
        raft = replica.node
        term, commit, applied = raft._term, raft._commit_index, raft._last_applied
        if term < seen.term or commit < seen.commit or applied < seen.applied:
            raise Violation(
                "monotonic",
                f"{node.name} went back from (term, commit, applied) = "
                f"{seen.term, seen.commit, seen.applied} to {term, commit, applied}",
            )
        if applied > commit:
            raise Violation("commit before apply", f"{node.name} applied {applied} > {commit}")
        if batch is not None and batch.rows:
            self._look_at_rows(node, batch)
        if raft._role != seen.role:
            self._look_at_role(node, seen)
            seen.role = raft._role
        if raft.is_leader:
            self._look_at_leader(node, term, commit > seen.commit and term == seen.term)
        seen.cold = replica.clock._cold
        if not node.remembers and node.log.is_voter:
            node.remembers = True
        if commit > seen.commit:
            self._look_at_committed(node, seen.commit, commit)
        if applied > seen.applied or replica.machine.now_ms != seen.stamp_ms:
            if replica.machine.now_ms < seen.stamp_ms:
                raise Violation("monotonic", f"{node.name}: machine time went back")
            seen.stamp_ms = replica.machine.now_ms
        seen.term, seen.commit, seen.applied = term, commit, applied
        if self.replies:
            self._look_at_replies()

    def _look_at_leader(self, node: Node, term: int, counted: bool) -> None:
        raft, log = node.replica.node, node.log
        if counted and log[raft._commit_index - log[0][1]][2] != term:
            raise Violation(
                "commit rule", f"{node.name} counted an entry of an earlier term as committed"
            )
        for peer, match_index in raft._match_index.items():
            other = self.cluster.nodes[peer.id]
            if not other.up or other.replica.node._term != term or not match_index:
                continue
            if not other.remembers:
                continue  # it was wiped, and the leader does not know yet
            position = match_index - other.log[0][1]
            own = match_index - log[0][1]
            if position > 0 and (
                match_index > other.log.durable_index
                or (own >= 0 and other.log[position][2] != log[own][2])
            ):
                raise Violation(
                    "match index",
                    f"{node.name} takes {other.name} to have the entries up to {match_index}",
                )
        if self.leaders.setdefault(term, node.name) != node.name:
            raise Violation(
                "election safety", f"{node.name} and {self.leaders[term]} lead in term {term}"
            )

    def _look_at_role(self, node: Node, seen: _Seen) -> None:
        raft = node.replica.node
        self.cluster.say(
            f"{node.name} is {raft.role} of term {raft._term}, log ends with {node.log[-1][1:]}"
        )
        if not raft.is_leader:
            return
        if seen.cold:
            self.clock_may_leap_ms += node.wall_forward_ms + 1
            self.clock_may_lag_ms += node.wall_back_ms + 1
        # What later terms committed says nothing of one that wakes up, and leads an earlier one.
        index, first = bisect_left(self.committed_in, raft._term) - 1, node.log[0][1]
        term = self.committed[index][1]
        if index >= first and (index > node.log[-1][1] or node.log[index - first][2] != term):
            raise Violation(
                "leader completeness",
                f"{node.name} leads term {raft._term} without the committed entry {index}",
            )

    def _look_at_rows(self, node: Node, batch: Any) -> None:
        """Log matching: same index and term, same entry and same one before."""
        log, now_ms, entries = node.log, self.cluster.now_ms, self.entries
        index = batch.rows[0][0]
        position = index - 1 - log[0][1]
        before = log[position][2] if position >= 0 else None
        for row in batch.rows:
            index, term, command = row[0], row[1], row[3]
            known = entries.get((index, term))
            if command == NO_OP and batch.snapshot and index == batch.snapshot[1].last_index:
                before = term
                continue  # it stands for what a snapshot includes, whatever it was
            if known is None:
                entries[index, term] = (command, before, now_ms)
            elif known[0] != command or (None not in (known[1], before) and known[1] != before):
                raise Violation("log matching", f"{node.name}, entry {index} of term {term}")
            before = term

    def _look_at_committed(self, node: Node, old: int, new: int) -> None:
        """State machine safety: what is committed is the same everywhere, for ever."""
        log, committed = node.log, self.committed
        first, last = log[0][1], log[-1][1]
        if new > last:
            raise Violation("commit index", f"{node.name}: {new} is beyond its log's end {last}")
        for index in range(max(old + 1, first), new + 1):
            command, _, term = log[index - first]
            if index < len(committed):
                same = committed[index][1] == term
                stands_for_snapshot = index == first and command == NO_OP
                if not same or (committed[index][0] != command and not stands_for_snapshot):
                    raise Violation(
                        "state machine safety",
                        f"{node.name} has at {index} an entry of term {term}, "
                        f"committed was one of term {committed[index][1]}",
                    )
            elif index == len(committed):
                committed.append((command, term))
                self.committed_in.append(max(self.committed_in[-1], node.replica.node._term))
                self._majority_has(index, term)
                if command != NO_OP:
                    self._apply(index, term, command[1:])
            else:
                raise Violation("state machine safety", f"nobody knew {len(committed)} .. {index}")

    def _majority_has(self, index: int, term: int) -> None:
        """Leader completeness, looked at from its cause."""
        count = 0
        for node in self.cluster.nodes.values():
            if not (node.up and node.remembers):
                count += 1  # it may have it, or had it once
                continue
            log = node.log
            position = index - log[0][1]  # what is before the first entry is in a snapshot
            count += position <= 0 or (index <= log.durable_index and log[position][2] == term)
        if count * 2 <= len(self.cluster.nodes):
            raise Violation("durable majority", f"entry {index} is committed, on {count} disks")

    def _apply(self, index: int, term: int, entry: bytes) -> None:
        """Once for the cluster: work out what it means, and hold its stamp against true time."""
        stamp_ms = self.model.apply(entry)
        if self.model.twice is not None:
            raise Violation("exactly once", f"two proposals hold {self.model.twice!r}")
        known = self.entries.get((index, term))
        true_ms = self.cluster.now_ms if known is None else known[2]
        if self.stamped is not None:
            if stamp_ms < self.stamped[0]:
                raise Violation("stamps", f"entry {index} has an earlier one than that before it")
            passed_ms = true_ms - self.stamped[1]
            late_ms = passed_ms - (stamp_ms - self.stamped[0])
            # A new leader is late by as long as what it heard last was under way.
            changes = term - self.stamped[2]
            allowed_ms = changes * (1 + self.cluster.longest_way_ms) + self.clock_may_lag_ms
            if late_ms > 2 + allowed_ms + passed_ms * 1e-3:
                raise Violation("clock late", f"by {late_ms:.0f} ms at entry {index}")
        self.stamped = (stamp_ms, true_ms, term)
        # Of all stamps so far: no lease that one of them began may end early by this one.
        ahead_ms = stamp_ms - true_ms * (1 + RATE_ERROR)
        if self.ahead_ms is None:
            self.ahead_ms = ahead_ms
        early_ms = ahead_ms - self.ahead_ms - self.clock_may_leap_ms
        if early_ms > 1.5:
            raise Violation("lease early", f"the clock leapt ahead {early_ms:.1f} ms at {index}")
        self.ahead_ms = min(self.ahead_ms, ahead_ms)

    def _look_at_replies(self) -> None:
        for name, boot, sequence, replies in self.replies:
            expected = self.model.replies.get((name, boot, sequence))
            told = ["OK" if reply == REPLY_OK else reply for reply in replies]
            if expected is None or told != expected:
                raise Violation("replies", f"{name} gave {told}, the log says {expected}")
        self.replies.clear()

    # ---- what is said ----------------------------------------------------------------------------

    def said(self, node: Node, target: str, message: dict[str, Any]) -> None:
        """A message leaves. What a vote or an acknowledgement says is promised for ever."""
        kind = message["type"]
        if kind == "vote_answer":
            if message["granted"]:
                self._promise_vote(message["term"], node.name, target)
        elif kind == "request_vote":
            self._promise_vote(message["term"], node.name, node.name)
        elif kind == "append_answer" and message["success"]:
            index = message["next_index"] - 1
            if index > node.log.durable_index:
                raise Violation("durable", f"{node.name} acknowledges {index} before it is on disk")
        else:
            return
        if message["term"] < self.promised_term.get(node.name, 0):
            raise Violation("durable", f"{node.name} is back in term {message['term']}")
        self.promised_term[node.name] = message["term"]

    def _promise_vote(self, term: int, voter: str, candidate: str) -> None:
        if self.votes.setdefault((term, voter), candidate) != candidate:
            raise Violation(
                "one vote a term",
                f"{voter} votes for {candidate} in term {term}, after {self.votes[term, voter]}",
            )

    def snapshot(self, node: Node, index: int, blocks: list[bytes]) -> None:
        """Equal prefixes of the log, equal states, byte for byte."""
        if self.snapshots.setdefault(index, blocks) != blocks:
            raise Violation("replicas equal", f"{node.name}'s state at {index} is another")
