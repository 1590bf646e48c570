"""The read barrier: when may this node answer a read from its own state (Raft, section 6.4).

Many reads share one round. The invariant: a read runs only on a state that has applied every entry
which was committed anywhere before the read arrived. To that end the leader notes its commit index
*after* the reads arrived, no lower than the first entry of its own term, and has a majority confirm
*after that* that it is still in its term; the asking node waits until it has applied that index.

A question or a round that is long without an answer is followed by another, which takes nothing
from it: whichever is answered first counts, because an answer to a later one is as right for all
who asked before. So a slow link makes reads slow, and only a lost message makes them wait again.

Knows nothing of what is read. Messages go out by `send(peer_id, message)`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from goblin_raft import errors
from goblin_raft.consensus.answers import call_back
from goblin_raft.consensus.stock import Message
from goblin_raft.reply import Failure

Ready = Callable[[Failure | None], None]
Asker = tuple[str, int]  # (peer id, its request number); the node itself asks as ("", number)

# Another question, or round, follows one that is so long without an answer: its message, or its
# leader's place, may be lost.
ASK_AGAIN_AFTER_S = 0.25
# So many are under way at most; then the last one's readers go with the next.
UNDER_WAY_MAX = 16


@dataclass(slots=True)
class Round:
    """A question of the leader to all: am I still in my term?"""

    number: int
    index: int
    began_s: float
    askers: list[Asker]


class ReadBarrier:
    """Both sides: `read` and `on_read_index` on every node, the rest while leading."""

    def __init__(
        self, *, wait_s: float, first_request: int, send: Callable[[str, Message], None]
    ) -> None:
        """`first_request`: a random number. Were each process to begin with the same, it could take
        the answer to a question of its former life, and the index in it is too old."""
        self.wait_s = wait_s
        self.send = send
        # This node's own reads.
        self.waiting: deque[tuple[float, Ready]] = deque()
        self.asked: deque[tuple[int, list[tuple[float, Ready]]]] = deque()  # by request
        self.request = first_request
        self.asked_s = 0.0
        self.asked_leader: tuple[str, int] | None = None  # (leader, term)
        self.at_index: list[tuple[int, list[tuple[float, Ready]]]] = []
        # The leader's rounds.
        self.askers: list[Asker] = []
        self.round = 0
        self.rounds: list[Round] = []  # under way, the oldest first
        self.confirmed: dict[str, int] = {}  # the newest round that each peer confirmed
        self.self_id = ""

    # ---- the asking node -------------------------------------------------------------------

    def read(self, ready: Ready, now_s: float) -> None:
        """Call `ready(None)` once local state may be read, or `ready(failure)`."""
        self.waiting.append((now_s, ready))

    def ask(self, leader_id: str, term: int, *, is_self: bool, now_s: float) -> None:
        """Ask the leader on behalf of all who wait; the next question when one was answered, or
        is long without an answer."""
        same_leader = self.asked_leader == (leader_id, term)
        if self.asked and same_leader and now_s - self.asked_s < ASK_AGAIN_AFTER_S:
            return
        if not self.asked and not self.waiting:
            return
        readers = list(self.waiting)
        self.waiting.clear()
        if len(self.asked) == UNDER_WAY_MAX:
            readers = self.asked.pop()[1] + readers
        self.request += 1
        self.asked.append((self.request, readers))
        self.asked_s = now_s
        self.asked_leader = (leader_id, term)
        if is_self:
            self.askers.append(("", self.request))
        else:
            self.send(leader_id, {"type": "read_ask", "term": term, "request": self.request})

    def on_read_index(self, request: int, index: int) -> None:
        """The leader's answer: who asked by then may read once `index` is applied."""
        if not self.asked or not self.asked[0][0] <= request <= self.request:
            return  # answered already, or meant for another life of this node
        readers: list[tuple[float, Ready]] = []
        while self.asked and self.asked[0][0] <= request:
            readers += self.asked.popleft()[1]
        self.at_index.append((index, readers))

    def release(self, applied_index: int) -> None:
        """Let all reads go that this node's state is ready for."""
        while self.at_index and self.at_index[0][0] <= applied_index:
            for _, ready in self.at_index.pop(0)[1]:
                call_back(ready, None)

    def expire(self, now_s: float) -> None:
        """Give up on reads that waited too long; a read that was not run did nothing."""
        limit_s = now_s - self.wait_s
        late: list[Ready] = []
        while self.waiting and self.waiting[0][0] <= limit_s:
            late.append(self.waiting.popleft()[1])
        for _, readers in self.asked:
            late += [ready for at_s, ready in readers if at_s <= limit_s]
            readers[:] = [item for item in readers if item[0] > limit_s]
        if not any(readers for _, readers in self.asked):
            self.asked.clear()
        kept = []
        for index, readers in self.at_index:
            late += [ready for at_s, ready in readers if at_s <= limit_s]
            readers = [item for item in readers if item[0] > limit_s]
            if readers:
                kept.append((index, readers))
        self.at_index = kept
        for ready in late:
            call_back(ready, errors.CLUSTERDOWN.failure())

    # ---- the leader --------------------------------------------------------------------------

    def on_read_ask(self, peer_id: str, request: int) -> None:
        """Another node asks for an index."""
        self.askers.append((peer_id, request))

    def start_round(
        self, peer_ids: list[str], *, term: int, index: int, self_id: str, now_s: float
    ) -> None:
        """Begin a round for all who asked, unless one is under way and young."""
        if not self.askers and not self.rounds:
            return
        if self.rounds and now_s - self.rounds[-1].began_s < ASK_AGAIN_AFTER_S:
            return
        askers = self.askers
        self.askers = []
        if len(self.rounds) == UNDER_WAY_MAX:
            askers = self.rounds.pop().askers + askers
        self.round += 1
        self.rounds.append(Round(self.round, index, now_s, askers))
        self.self_id = self_id
        for peer_id in peer_ids:
            self.send(peer_id, {"type": "read_probe", "term": term, "round": self.round})

    def on_probe_answer(self, peer_id: str, round_number: int) -> None:
        """A follower confirmed that it was in our term after this round had begun."""
        self.confirmed[peer_id] = max(round_number, self.confirmed.get(peer_id, 0))

    @property
    def serves_others(self) -> bool:
        """Whether another node waits for a round that is under way."""
        return any(peer_id for each in self.rounds for peer_id, _ in each.askers)

    @property
    def round_index(self) -> int:
        """The highest index that a round under way will give."""
        return self.rounds[-1].index if self.rounds else 0

    def finish_round(self, is_majority: Callable[[set[str]], bool], *, term: int) -> None:
        """A majority confirmed: everybody who asked before that round may have the index."""
        for last in reversed(self.rounds):
            confirmed = {peer for peer, number in self.confirmed.items() if number >= last.number}
            if is_majority(confirmed | {self.self_id}):
                break
        else:
            return
        while self.rounds and self.rounds[0].number <= last.number:
            done = self.rounds.pop(0)
            for peer_id, request in done.askers:
                self._answer(peer_id, request, done.index, term)

    def _answer(self, peer_id: str, request: int, index: int, term: int) -> None:
        if not peer_id:
            self.on_read_index(request, index)
            return
        message = {"type": "read_index", "term": term, "request": request, "index": index}
        self.send(peer_id, message)

    def lost_leadership(self) -> None:
        """Others ask the next leader themselves; our own reads go back to waiting."""
        self.askers = []
        self.rounds = []
        self.confirmed = {}
        self.asked_leader = None
