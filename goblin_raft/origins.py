"""Which proposals were applied already; it must not know what is in them.

The invariant, which "exactly once" rests on:

    Of all the copies of a proposal that ever come up in the log, the first is admitted, unless its
    origin had settled it before, and no other is.

It holds as long as a boot is remembered. A boot is forgotten when its node has been heard of under
another boot since, and an hour of machine time has passed without a word from this one. By then
no copy can be on its way: a node sends a proposal again only for `commit_timeout`, a boot does not
come back, and a leader drops what it holds for others when it is leader no more.
"""

from __future__ import annotations

from typing import TypeAlias

from goblin_raft.entry import Proposal

# How long a boot that was replaced is remembered; thousands of times the longest commit_timeout.
FORGET_AFTER_MS = 3_600_000

OriginState: TypeAlias = "tuple[str, int, int, list[int], int]"


class _Boot:
    """The sequences of one run of one node."""

    __slots__ = ("above", "last_ms", "low")

    def __init__(self, low: int, above: set[int], last_ms: int) -> None:
        self.low = low  # every sequence up to this one was applied, or settled without
        self.above = above  # and these beyond it were applied too: a few, as many as overtook
        self.last_ms = last_ms  # machine time at its last proposal


class Origins:
    """See the module. Part of the replicated state."""

    __slots__ = ("_boots",)

    def __init__(self) -> None:
        self._boots: dict[tuple[str, int], _Boot] = {}

    def __len__(self) -> int:
        return len(self._boots)

    def admit(self, proposal: Proposal, now_ms: int) -> bool:
        """Whether to apply it. Asked once for each proposal in the log, in the log's order."""
        boot = self._boots.get((proposal.origin, proposal.boot))
        if boot is None:
            boot = _Boot(0, set(), now_ms)
            self._boots[proposal.origin, proposal.boot] = boot
        boot.last_ms = now_ms
        sequence = proposal.sequence
        fresh = sequence > boot.low and sequence not in boot.above
        if fresh:
            boot.above.add(sequence)
        # Nothing below `settled` is sent again, so a copy that still turns up is a late one.
        if proposal.settled - 1 > boot.low:
            boot.low = proposal.settled - 1
            boot.above = {applied for applied in boot.above if applied > boot.low}
        while boot.low + 1 in boot.above:
            boot.low += 1
            boot.above.remove(boot.low)
        return fresh

    def forget(self, now_ms: int) -> None:
        """Drop the boots that the module's first words allow to drop."""
        latest_ms: dict[str, int] = {}
        for (origin, _), boot in self._boots.items():
            latest_ms[origin] = max(boot.last_ms, latest_ms.get(origin, boot.last_ms))
        self._boots = {
            (origin, number): boot
            for (origin, number), boot in self._boots.items()
            if boot.last_ms == latest_ms[origin] or now_ms - boot.last_ms < FORGET_AFTER_MS
        }

    # ---- snapshots -----------------------------------------------------------------------------

    def state(self) -> list[OriginState]:
        """Everything, in an order that does not depend on history."""
        return [
            (origin, number, boot.low, sorted(boot.above), boot.last_ms)
            for (origin, number), boot in sorted(self._boots.items(), key=lambda item: item[0])
        ]

    def load(self, state: list[OriginState]) -> None:
        """Become the one that gave this state."""
        self._boots = {
            (origin, number): _Boot(low, set(above), last_ms)
            for origin, number, low, above, last_ms in state
        }
