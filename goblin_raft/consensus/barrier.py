"""The read barrier: when may this node answer a read from its own state (Raft, section 6.4).

Many reads share one round. The invariant: a read runs only on a state that has applied every entry
which was committed anywhere before the read arrived. To that end the leader notes its commit index
*after* the reads arrived, no lower than the first entry of its own term, and has a majority confirm
*after that* that it is still in its term; the asking node waits until it has applied that index.

Knows nothing of what is read. Messages go out by `send(peer_id, message)`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from goblin_raft import errors
from goblin_raft.consensus.answers import call_back
from goblin_raft.consensus.stock import Message
from goblin_raft.reply import Failure

Ready = Callable[[Failure | None], None]
Asker = tuple[str, int]  # (peer id, its request number); the node itself asks as ("", number)

# A question without an answer is asked again this often: its leader may have lost its place.
ASK_AGAIN_AFTER_S = 0.25


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
        self.asked: list[tuple[float, Ready]] = []
        self.request = first_request
        self.asked_s = 0.0
        self.asked_leader: tuple[str, int] | None = None  # (leader, term)
        self.at_index: list[tuple[int, list[tuple[float, Ready]]]] = []
        # The leader's rounds.
        self.askers: list[Asker] = []
        self.round = 0
        self.round_askers: list[Asker] = []
        self.round_index = 0
        self.round_votes: set[str] = set()
        self.round_s = 0.0

    # ---- the asking node -------------------------------------------------------------------

    def read(self, ready: Ready, now_s: float) -> None:
        """Call `ready(None)` once local state may be read, or `ready(failure)`."""
        self.waiting.append((now_s, ready))

    def ask(self, leader_id: str, term: int, *, is_self: bool, now_s: float) -> None:
        """Ask the leader on behalf of all who wait; one question at a time."""
        same_leader = self.asked_leader == (leader_id, term)
        if self.asked and same_leader and now_s - self.asked_s < ASK_AGAIN_AFTER_S:
            return
        if not self.asked and not self.waiting:
            return
        self.asked.extend(self.waiting)
        self.waiting.clear()
        self.request += 1
        self.asked_s = now_s
        self.asked_leader = (leader_id, term)
        if is_self:
            self.askers.append(("", self.request))
        else:
            self.send(leader_id, {"type": "read_ask", "term": term, "request": self.request})

    def on_read_index(self, request: int, index: int) -> None:
        """The leader's answer: who waited for it may read once `index` is applied."""
        if request == self.request and self.asked:
            self.at_index.append((index, self.asked))
            self.asked = []

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
        late += [ready for at_s, ready in self.asked if at_s <= limit_s]
        self.asked = [item for item in self.asked if item[0] > limit_s]
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
        if not self.askers and not self.round_askers:
            return
        if self.round_askers and now_s - self.round_s < ASK_AGAIN_AFTER_S:
            return
        # One that was lost is asked anew, together with who came since: a later index is as right.
        self.round += 1
        self.round_askers += self.askers
        self.askers = []
        self.round_index = index
        self.round_votes = {self_id}
        self.round_s = now_s
        for peer_id in peer_ids:
            self.send(peer_id, {"type": "read_probe", "term": term, "round": self.round})

    def on_probe_answer(self, peer_id: str, round_number: int) -> None:
        """A follower confirmed that it is in our term."""
        if round_number == self.round:
            self.round_votes.add(peer_id)

    @property
    def serves_others(self) -> bool:
        """Whether another node waits for the round that is under way."""
        return any(peer_id for peer_id, _ in self.round_askers)

    def finish_round(self, is_majority: Callable[[set[str]], bool], *, term: int) -> None:
        """A majority confirmed: everybody who asked may have the index."""
        if not self.round_askers or not is_majority(self.round_votes):
            return
        for peer_id, request in self.round_askers:
            if peer_id:
                self.send(
                    peer_id,
                    {
                        "type": "read_index",
                        "term": term,
                        "request": request,
                        "index": self.round_index,
                    },
                )
            else:
                self.on_read_index(request, self.round_index)
        self.round_askers = []

    def lost_leadership(self) -> None:
        """Others ask the next leader themselves; our own reads go back to waiting."""
        self.askers = []
        self.round_askers = []
        self.round += 1
        self.asked_leader = None
