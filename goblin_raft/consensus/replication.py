"""How entries get from the leader's log into the followers' (Raft, section 5.3), made safe.

Replaces pysyncobj's handlers for append_entries and its answers. Knows nothing of elections,
of what the entries mean, or of how messages travel.

Invariants, each with the defect of stock pysyncobj 0.3.17 that broke it (docs/consensus.md):

* A follower deletes an entry only because the leader's entry at that index has another term (D2);
  never one that it knows to be committed.
* A follower acknowledges what this message proved to be the same as the leader's log, and nothing
  beyond it (D2, D7); the leader never takes an acknowledgement of another term (D6).
* What a learner (membership.py) stores counts for no majority: pysyncobj's matchIndex, which the
  commit rule reads, and the times of answers, which check-quorum reads, are those of voters.
* The commit index covers only entries that were proved so (D1, D9).
"""

from __future__ import annotations

import logging
from collections import deque

from pysyncobj.node import Node

from goblin_raft.consensus.errors import Fatal
from goblin_raft.consensus.snapshot_transfer import Sending, SnapshotTransfer
from goblin_raft.consensus.stock import FOLLOWER, LEADER, LogEntry, Message, monotonic_s

logger = logging.getLogger(__name__)

# How much may be under way to one follower. Enough to keep a link busy while the follower syncs,
# little enough that a stopped follower does not fill the leader's memory.
WINDOW_BYTES_MAX = 8 * 1024 * 1024
WINDOW_MESSAGES_MAX = 256


class Progress:
    """What the leader knows of one follower: `probing` until its log is known to match ours.

    While probing one message is sent a heartbeat, since each further one might be refused for the
    same reason; after a success messages follow each other without waiting.
    """

    __slots__ = (
        "answered_s",
        "in_flight",
        "in_flight_bytes",
        "is_voter",
        "losses",
        "match_index",
        "probing",
        "sending",
    )

    def __init__(self) -> None:
        self.is_voter = False  # until it says so
        self.match_index = 0  # its log is ours up to here
        self.answered_s = float("-inf")
        self.losses = 0  # how often it came back with less than it had acknowledged
        self.probing = True
        self.sending: Sending | None = None  # the snapshot under way to it
        self.in_flight: deque[tuple[int, int]] = deque()  # (last index, bytes) of each message
        self.in_flight_bytes = 0

    def begin(self, now_s: float) -> None:
        """This node became leader: nothing is known, but it was there a moment ago."""
        self.match_index = 0
        self.answered_s = now_s
        self.probe()

    def probe(self) -> None:
        """Start again, one message at a time."""
        self.probing = True
        self.stop_sending()
        self.in_flight.clear()
        self.in_flight_bytes = 0

    def stop_sending(self) -> None:
        """No snapshot is under way any more."""
        if self.sending is not None:
            self.sending.close()
            self.sending = None

    def sent(self, last_index: int, size_bytes: int) -> None:
        """A message with entries up to `last_index` left."""
        self.in_flight.append((last_index, size_bytes))
        self.in_flight_bytes += size_bytes

    def acknowledged(self, index: int) -> None:
        """The follower has everything up to `index`."""
        self.probing = False
        self.stop_sending()
        while self.in_flight and self.in_flight[0][0] <= index:
            self.in_flight_bytes -= self.in_flight.popleft()[1]

    @property
    def has_room(self) -> bool:
        """Whether another message may follow without waiting."""
        return self.in_flight_bytes < WINDOW_BYTES_MAX and len(self.in_flight) < WINDOW_MESSAGES_MAX


class Replication(SnapshotTransfer):
    """Log replication, both sides."""

    # Set by RaftNode.__init__, before pysyncobj's own.
    progress: dict[Node, Progress]

    # ---- the follower ----------------------------------------------------------------------

    def on_append_entries(self, node: Node, message: Message) -> None:
        """Take what the leader sends, as far as it is proved to continue our log."""
        term, previous = message["term"], message["prev_index"]
        if term < self._term:
            # A leader that was deposed while we could not hear it must learn so, else it would
            # wait for its quorum for ever (stock gives no answer at all).
            self.answer(node, previous, success=False)
            return
        if term == self._term and self._role == LEADER:
            msg = f"two leaders in term {term}: {self._self.id} and {node.id}"
            raise Fatal(msg)
        self._follow(node, term)
        self.leader_heard(message["clock_ms"])
        self._leader_commit_index = message["commit_index"]

        first, last = self._log[0][1], self._log[-1][1]
        if previous > last:
            self.answer(node, previous, success=False, hint=last + 1)
        elif previous < first or self._log[previous - first][2] != message["prev_term"]:
            if first <= previous <= self._commit_index:
                msg = f"the leader {node.id} disagrees about the committed entry {previous}"
                raise Fatal(msg)
            # All that is committed is the same everywhere, so the leader finds a match there in
            # one round trip however long our own tail is.
            self.answer(node, previous, success=False, hint=self._commit_index + 1)
        else:
            verified = self._append(previous, message["entries"])
            if message["answer"]:
                self.answer(node, previous, success=True, hint=verified + 1)
            self._commit_index = max(self._commit_index, min(message["commit_index"], verified))

    def _follow(self, leader: Node, term: int) -> None:
        if term > self._term:
            self._transfer_in_progress = False
            self._set_term(term, None)
        if self._role != FOLLOWER:
            self._set_role(FOLLOWER)
        self._leader = leader
        if not self._transfer_in_progress:
            self._election_deadline_s = monotonic_s() + self._election_timeout_s()

    def _append(self, previous: int, entries: list[LogEntry]) -> int:
        """Append what we lack; gives the last index now proved the same as the leader's."""
        log = self._log
        first, last = log[0][1], log[-1][1]
        fresh = 0
        for _, index, term in entries:
            if index > last:
                break
            if log[index - first][2] != term:
                if index <= max(self._commit_index, self._last_applied):
                    msg = f"refusing to delete the committed entry {index}"
                    raise Fatal(msg)
                # What this turn was going to acknowledge in an earlier term may be among them.
                self._SyncObj__transport.withdraw("append_answer")
                log.deleteEntriesFrom(index - first)
                break
            fresh += 1
        for entry in entries[fresh:]:
            log.add(*entry)
        return previous + len(entries)

    def answer(self, node: Node, previous: int, *, success: bool, hint: int = 0) -> None:
        """Answer the append_entries that continued the entry `previous`; `hint` is the next index
        that we want (0: none)."""
        self._SyncObj__transport.send(
            node,
            {
                "type": "append_answer",
                "term": self._term,
                "success": success,
                "prev_index": previous,
                "next_index": hint,
                "last_index": self._log[-1][1],
                "voter": self.is_voter,
            },
        )

    # ---- the leader ------------------------------------------------------------------------

    def on_append_answer(self, node: Node, message: Message) -> None:
        """Note how far a follower is; the commit index follows in the next tick."""
        if message["term"] > self._term:
            self.step_down(message["term"])
            return
        if self._role != LEADER or message["term"] != self._term:
            return
        progress = self.progress[node]
        progress.is_voter = message["voter"]
        self.answered(node)
        if message["last_index"] < progress.match_index:
            self._lost_entries(node, message["last_index"])
        hint = message["next_index"]
        last = self._log[-1][1]
        if message["success"]:
            if hint - 1 > last:
                msg = f"{node.id} acknowledged entry {hint - 1}, our last is {last}"
                raise Fatal(msg)
            self.matches(node, max(progress.match_index, hint - 1))
            # Never back: what follows is already under way (D2).
            self._next_index[node] = max(self._next_index[node], hint)
            progress.acknowledged(hint - 1)
            self._send_to(node, {}, heartbeat=False, probe=False)
        elif hint and self._is_news(progress, message["prev_index"], self._next_index[node]):
            # A conflict is answered with what is surely the same, which may be less than was
            # acknowledged; counting less is always safe, the commit index never goes back.
            self.matches(node, min(progress.match_index, hint - 1))
            # While a snapshot is under way every heartbeat is refused, until it has arrived.
            if progress.sending is None:
                progress.probe()
                self._next_index[node] = min(hint, last + 1)
                self._send_to(node, {}, heartbeat=True, probe=True)

    @staticmethod
    def _is_news(progress: Progress, refused_index: int, next_index: int) -> bool:
        """Of all that was under way when a message was refused, the rest is refused as well, with
        other hints perhaps; only the answer to the present probe says anything new."""
        return not progress.probing or refused_index == next_index - 1

    def answered(self, node: Node) -> None:
        """It is there; a voter is so also for check-quorum."""
        self.progress[node].answered_s = monotonic_s()
        if self.progress[node].is_voter:
            self._last_response_s[node] = monotonic_s()

    def matches(self, node: Node, index: int) -> None:
        """Its log is known to be ours up to `index`; a voter's counts for the commit index."""
        self.progress[node].match_index = index
        self._match_index[node] = index if self.progress[node].is_voter else 0

    def _lost_entries(self, node: Node, last_index: int) -> None:
        """In our own term it had acknowledged more than it now has: its disk broke its promise, or
        somebody wiped it or put back an old copy."""
        progress = self.progress[node]
        progress.losses += 1
        logger.error(
            "follower.lost_entries node=%s acknowledged=%d has=%d: it lost what it had on disk; see"
            " docs/operations.md",
            node.id, progress.match_index, last_index,
        )  # fmt: skip
        self.matches(node, last_index)

    def step_down(self, term: int) -> None:
        """Somebody is in a later term: follow, with no leader known yet."""
        self._set_term(term, None)
        self._transfer_in_progress = False
        self._leader = None
        if self._role != FOLLOWER:
            self._set_role(FOLLOWER)

    def send_append_entries(self, *, heartbeat: bool) -> None:
        """Send each connected follower what it lacks, and the commit index in any case.

        `heartbeat`: the period is over, so also those whose log is not known yet are asked again.
        """
        if heartbeat:
            self._heartbeat_due_s = monotonic_s() + self.heartbeat_s
        built: dict[int, tuple[Message, int]] = {}
        for node in sorted(self._connected & self._peers, key=lambda peer: str(peer.id)):
            self._send_to(node, built, heartbeat=True, probe=heartbeat)

    def _SyncObj__sendAppendEntries(self) -> None:
        self.send_append_entries(heartbeat=True)

    def _send_to(
        self, node: Node, built: dict[int, tuple[Message, int]], *, heartbeat: bool, probe: bool
    ) -> None:
        progress = self.progress[node]
        if progress.sending is not None or self._next_index[node] <= self._log[0][1]:
            if probe:  # the empty heartbeat is refused; it carries the clock and asks for a sign
                message, _ = self._build(self._log[-1][1] + 1, built)
                self._SyncObj__transport.send(node, message)
                self.send_snapshot(node)
            return
        if progress.probing:
            if probe:
                message, _ = self._build(self._next_index[node], built)
                self._SyncObj__transport.send(node, message)
            return
        last = self._log[-1][1]
        while self._next_index[node] <= last and progress.has_room:
            message, size_bytes = self._build(self._next_index[node], built)
            self._next_index[node] = message["entries"][-1][1] + 1
            progress.sent(self._next_index[node] - 1, size_bytes)
            self._SyncObj__transport.send(node, message)
            heartbeat = False
        if heartbeat:
            # The commit index alone needs no answer; a heartbeat's is what check-quorum counts.
            message, _ = self._build(
                self._next_index[node], built, with_entries=False, answer=probe
            )
            self._SyncObj__transport.send(node, message)

    def _build(
        self,
        next_index: int,
        built: dict[int, tuple[Message, int]],
        *,
        with_entries: bool = True,
        answer: bool = True,
    ) -> tuple[Message, int]:
        """One append_entries from `next_index`; the same object for all who are equally far, so
        that the transport encodes it once. All calls with the same `built` want, or do not want,
        an answer to messages without entries."""
        key = next_index if with_entries else -next_index
        if key not in built:
            position = next_index - self._log[0][1]
            entries: list[LogEntry] = []
            size_bytes = 0
            while with_entries and position + len(entries) < len(self._log):
                entry = self._log[position + len(entries)]
                size_bytes += len(entry[0])
                if entries and size_bytes > self.message_bytes_max:
                    size_bytes -= len(entry[0])
                    break
                entries.append(entry)
            message = {
                "type": "append_entries",
                "term": self._term,
                "commit_index": self._commit_index,
                "prev_index": next_index - 1,
                "prev_term": self._log[position - 1][2],
                "entries": entries,
                "clock_ms": self.clock_ms(),
                "answer": answer,
            }
            built[key] = (message, size_bytes)
        return built[key]
