"""Who leads: PreVote, votes, stickiness and leadership transfer (Raft, sections 5.2, 6 and 9.6).

Replaces pysyncobj's handling of votes and adds what it lacks. Knows nothing of entries beyond the
index and term of the last one.

Invariants:

* A node votes once a term, and says so only after its vote is on disk: `replica.py` holds answers
  back until then.
* One vote of a peer counts once.
* A member that may have forgotten what it promised does not vote (membership.py). It asks for
  pre-votes all the same, to hear who is blank.
* A node that could not win raises nobody's term: it asks first (PreVote), and is refused by all
  who hear a leader. So neither a restart nor a cut link costs the others an election.
"""

from __future__ import annotations

from pysyncobj.node import Node

from goblin_raft.consensus.membership import Membership
from goblin_raft.consensus.stock import CANDIDATE, FOLLOWER, LEADER, Message, monotonic_s

# After the connection to the leader was closed, most often because its process died, the wait
# before asking for pre-votes is drawn from this range: some milliseconds for the others to notice
# as well, and a spread so that two followers seldom ask at once.
LOST_LEADER_WAIT_MIN_S = 0.02
LOST_LEADER_WAIT_SPREAD_S = 0.13


class Elections(Membership):
    """Votes and who may ask for them."""

    # Set by RaftNode.__init__, before pysyncobj's own.
    leader_heard_s: float
    election_min_s: float
    pre_votes: set[str]
    pre_vote_won_term: int  # the term in which a majority would vote for us
    transfer_term: int
    voters: tuple[int, set[str]]

    def draw(self) -> float:
        """A random number in [0, 1)."""
        raise NotImplementedError

    def step_down(self, term: int) -> None:
        """Somebody is in a later term."""
        raise NotImplementedError

    # ---- asking ----------------------------------------------------------------------------

    def _SyncObj__connectedToAnyone(self) -> bool:
        """Whether to campaign now. The stock tick asks exactly when the election deadline has
        passed, which makes this the gate where PreVote belongs."""
        if not self._peers:
            return True
        if not self.is_voter:
            self._ask_for_pre_votes()
            return False
        if self._transfer_in_progress:
            self.transfer_term = self._term + 1
            return True
        if self.pre_vote_won_term == self._term + 1:
            return True
        self._ask_for_pre_votes()
        return False

    def _ask_for_pre_votes(self) -> None:
        # The leader was silent for a whole timeout: whoever asks us is told that there is none.
        self._leader = None
        if self._role != FOLLOWER:
            self._set_role(FOLLOWER)
        self._election_deadline_s = monotonic_s() + self._election_timeout_s()
        self.pre_votes = {str(self._self.id)}
        for peer in sorted(self._peers, key=lambda node: str(node.id)):
            self._SyncObj__transport.send(
                peer,
                {
                    "type": "pre_vote",
                    "term": self._term + 1,
                    "last_log_index": self._log[-1][1],
                    "last_log_term": self._log[-1][2],
                },
            )

    def on_pre_vote_answer(self, node: Node, message: Message) -> None:
        """A majority of pre-votes: campaign in the next tick."""
        if message["current_term"] > self._term:
            self.step_down(message["current_term"])
            return
        if message["blank"]:
            self.peer_is_blank(str(node.id))
        if (
            not self.is_voter
            or self._role != FOLLOWER
            or self._leader is not None
            or not message["granted"]
            or message["term"] != self._term + 1
            or not self.pre_votes
        ):
            return
        self.pre_votes.add(str(node.id))
        if self.is_majority(self.pre_votes):
            self.pre_votes = set()
            self.pre_vote_won_term = self._term + 1
            self._election_deadline_s = 0.0

    def on_vote_answer(self, node: Node, message: Message) -> None:
        """Count a vote; stock counts messages, we count voters."""
        if message["term"] > self._term:
            self.step_down(message["term"])
            return
        if self._role != CANDIDATE or message["term"] != self._term or not message["granted"]:
            return
        if self.voters[0] != self._term:
            self.voters = (self._term, {str(self._self.id)})
        self.voters[1].add(str(node.id))
        if self.is_majority(self.voters[1]):
            self._become_leader()

    def is_majority(self, nodes: set[str]) -> bool:
        """Whether these are more than half of the cluster."""
        return len(nodes) * 2 > len(self._peers) + 1

    # ---- being asked -----------------------------------------------------------------------

    def on_pre_vote(self, node: Node, message: Message) -> None:
        """Would we vote for this node? Changes nothing here."""
        granted = (
            self.is_voter
            and message["term"] > self._term
            and not self._hears_leader()
            and self._is_up_to_date(message)
        )
        self._SyncObj__transport.send(
            node,
            {
                "type": "pre_vote_answer",
                "term": message["term"],
                "granted": granted,
                "current_term": self._term,
                "blank": self.is_blank,
            },
        )

    def on_request_vote(self, node: Node, message: Message) -> None:
        """Vote at most once a term, for a log that is as complete as ours."""
        if self._hears_leader() and not message["transfer"]:
            return
        if message["term"] > self._term:
            self.step_down(message["term"])
        granted = (
            self.is_voter
            and message["term"] == self._term
            and self._role != LEADER
            and self._voted_for in (None, node.id)
            and self._is_up_to_date(message)
        )
        if granted:
            self._set_term(self._term, str(node.id))
            self._election_deadline_s = monotonic_s() + self._election_timeout_s()
        self._SyncObj__transport.send(
            node, {"type": "vote_answer", "term": self._term, "granted": granted}
        )

    def on_timeout_now(self, node: Node, message: Message) -> None:
        """The leader hands over: campaign at once, without PreVote."""
        is_asked = message["term"] == self._term and node == self._leader
        if is_asked and self._role == FOLLOWER and self.is_voter:
            self._transfer_in_progress = True
            self._election_deadline_s = 0.0

    def forget_leader(self, node: Node) -> None:
        """The connection to this node was lost; if it led, do not wait a whole timeout."""
        if node == self._leader and self._role == FOLLOWER:
            self._leader = None
            self.leader_heard_s = float("-inf")
            wait_s = LOST_LEADER_WAIT_MIN_S + LOST_LEADER_WAIT_SPREAD_S * self.draw()
            self._election_deadline_s = min(self._election_deadline_s, monotonic_s() + wait_s)

    def _hears_leader(self) -> bool:
        if self._role == LEADER:
            return True
        return monotonic_s() - self.leader_heard_s < self.election_min_s

    def _is_up_to_date(self, message: Message) -> bool:
        theirs = (message["last_log_term"], message["last_log_index"])
        return theirs >= (self._log[-1][2], self._log[-1][1])
