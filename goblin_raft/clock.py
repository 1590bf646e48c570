"""Cluster time at one node, from its steady clock and the leader's stamps; never asks a clock.

Readings come in as arguments, in milliseconds: `steady_ms` from a clock that nobody sets and that
goes on while the machine sleeps, `wall_ms` from the wall clock. Wall clocks are used in two places
only: the very first leader of a new cluster starts from its own, and a node that starts with data
adds the difference of *its own* wall clock since it last wrote. No two machines' wall clocks are
ever compared.

The invariant, and what rests on it:

    A follower's reading never exceeds what the clock of the last leader that it heard would show at
    that moment, had it gone on leading, if their steady clocks differ in rate by at most
    `rate_error`.

A new leader starts from its follower's reading, so it continues where the old one stopped,
including the real time that passed meanwhile, and can err only late. That is why a change of
leader neither shortens a lease nor starts it again. It must be the *last* leader: that one may be
late itself, and so are the stamps that it gives; a node that knew an earlier leader's time better
and kept to it would end the later one's leases early, once it leads. `tests/test_clock.py` checks
this over random delays, rates and changes of leader.
"""

from __future__ import annotations

# A wall clock that differs by less from what the stamps say of it is read inexactly, not set anew.
WALL_STEP_MS = 10


class ClusterClock:
    """A lower bound of the leader's clock; on the leader, the clock itself."""

    __slots__ = (
        "_base_ms",
        "_base_steady_ms",
        "_cold",
        "_follower_rate",
        "_heard_term",
        "_leading",
        "_set",
        "_wall_distance_ms",
    )

    def __init__(self, *, rate_error: float) -> None:
        """`rate_error`: how much two steady clocks may differ in rate, as a fraction (500e-6)."""
        if not 0 <= rate_error < 1:
            msg = f"rate_error is a fraction below 1, not {rate_error!r}"
            raise ValueError(msg)
        self._follower_rate = 1.0 - rate_error
        self._leading = False
        self._set = False  # no stamp, no stored pair, never led: there is no time yet
        self._cold = False  # the reading rests on our own wall clock alone
        self._heard_term = -1  # of the leader that the reading is a bound of
        self._base_ms = 0.0
        self._base_steady_ms = 0.0
        self._wall_distance_ms = 0

    @property
    def is_set(self) -> bool:
        """Whether this node knows any cluster time at all."""
        return self._set

    def start_cold(
        self, *, stored_ms: float, stored_wall_ms: float, wall_ms: float, steady_ms: float
    ) -> None:
        """Begin from the pair that lay beside the log: reading and own wall clock at that moment.

        How long this node was away its steady clock cannot say, so its own wall clock must; one
        that went backwards counts as no time. Forgotten as soon as a leader is heard.
        """
        self._rebase(stored_ms + max(0.0, wall_ms - stored_wall_ms), steady_ms)
        self._cold = True

    def hear(self, leader_ms: float, steady_ms: float, *, term: int) -> None:
        """A message arrived that left the leader of this term when its clock showed `leader_ms`.

        Every message of one leader gives a lower bound of its clock; the greatest of them holds,
        which one base carries along because all of them advance at the same rate.
        """
        if self._set and not self._cold and term == self._heard_term:
            leader_ms = max(leader_ms, self._read(steady_ms))
        self._heard_term = term
        self._rebase(leader_ms, steady_ms)

    def lead(self, *, wall_ms: float, steady_ms: float) -> None:
        """This node became leader: go on from its reading, at full rate."""
        self._rebase(self._read(steady_ms) if self._set else wall_ms, steady_ms)
        self._leading = True

    def follow(self, steady_ms: float) -> None:
        """This node is leader no longer."""
        if self._leading:
            self._rebase(self._read(steady_ms), steady_ms)
            self._leading = False

    def now_ms(self, steady_ms: float) -> int:
        """Cluster time in whole milliseconds; 0 while there is none."""
        return int(self._read(steady_ms)) if self._set else 0

    def time_of_day_ms(self, now_ms: int, wall_ms: int) -> int:
        """What a stamp of `now_ms` says of the wall clock, which showed `wall_ms` just after.

        The two are read one after the other, in whole milliseconds, so their distance trembles. It
        is kept until the wall clock was set, so that times of day keep their order as deadlines,
        and PEXPIRETIME answers what PEXPIREAT was told.
        """
        distance_ms = wall_ms - now_ms
        if abs(distance_ms - self._wall_distance_ms) > WALL_STEP_MS:
            self._wall_distance_ms = distance_ms
        return now_ms + self._wall_distance_ms

    def _read(self, steady_ms: float) -> float:
        # A steady clock that a broken machine lets step back must not take time back.
        passed_ms = max(0.0, steady_ms - self._base_steady_ms)
        return self._base_ms + passed_ms * (1.0 if self._leading else self._follower_rate)

    def _rebase(self, base_ms: float, steady_ms: float) -> None:
        self._base_ms = base_ms
        self._base_steady_ms = steady_ms
        self._set = True
        self._cold = False
