"""Which members may vote and count: all, but for one that does not know what it once promised.

A member whose directory was wiped has forgotten its votes and the entries that it acknowledged,
and both may have decided something. So a new directory begins as a *learner*: it follows, applies
and answers clients, but does not vote, confirms no reads and counts in no majority. It becomes a
voter, for good, in one of two ways:

* A new cluster: *all* other members answered, to this very process, that they are blank: no term,
  no entry, hence no vote given and nothing acknowledged. Then nothing was ever decided.
* Filled up: an entry that this very process proposed came back to it through the log (replica.py).

Why the second is enough. The entry was appended after this process began, by a leader whose
majority, without this node, then stored it. So this log now holds all that was committed with the
help of what was wiped: that majority and each older one share a member that forgot nothing. And
whoever still collects votes with an old vote of this node lacks the entry, and so cannot win: its
majority needs a member that has the entry, and refuses a log without it.

A majority of blank members is not enough for a new cluster: with A, B and C, an entry may be on A
and B alone; with A down and B wiped, B and C are both blank.
"""

from __future__ import annotations

import logging

from goblin_raft.consensus.stock import StockNode, monotonic_s

logger = logging.getLogger(__name__)


class Membership(StockNode):
    """Whether this node may vote."""

    # Set by RaftNode.__init__, before pysyncobj's own.
    blank_peers: set[str]

    @property
    def is_voter(self) -> bool:
        """Whether this node votes and counts."""
        return bool(self._log.is_voter)

    @property
    def is_blank(self) -> bool:
        """Whether nothing was ever decided with this node's help, as far as it knows."""
        return bool(self._term == 0 and self._log[-1][1:] == (1, 0))

    def peer_is_blank(self, peer_id: str) -> None:
        """A peer answered a question of this process with that."""
        self.blank_peers.add(peer_id)
        if not self.is_voter and self.is_blank and len(self.blank_peers) == len(self._peers):
            self.become_voter("new_cluster")
            self._election_deadline_s = min(self._election_deadline_s, monotonic_s())

    def become_voter(self, why: str) -> None:
        """For good; it is on disk before anybody hears of it, like every vote."""
        self._log.become_voter()
        logger.info("member.voter node=%s because=%s", self._self.id, why)
