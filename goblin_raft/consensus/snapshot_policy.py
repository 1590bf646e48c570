"""When a node takes a snapshot of its own, and how much of the log stays behind it.

Knows sizes and indexes only: neither how a snapshot is written nor what is in it.
"""

from __future__ import annotations

from pathlib import Path

from goblin_raft.consensus.log import Log
from goblin_raft.consensus.snapshots import Snapshot

# All nodes see the same log, and should not all write a snapshot at the same moment: the last of
# them waits for so much more log than the first.
SPREAD = 0.5
# So much of the log stays for a follower that was away for a short time, as a share of the limit.
KEEP_SHARE = 0.25
# After a failure (a full disk, most likely) so much more log has to come before the next try.
RETRY_SHARE = 0.1


class SnapshotPolicy:
    """See the module. `due` asks for a snapshot; `taken` or `failed` must follow."""

    def __init__(self, log: Log, *, log_bytes_max: int, place: float) -> None:
        """`place`: this node's among the members, from 0 to below 1."""
        self._log = log
        self._log_bytes_max = int(log_bytes_max * (1 + SPREAD * place))
        self._bytes = 0  # of the entries applied since the newest snapshot
        self._bytes_at_start = 0
        self._retry_at = 0
        self._requested = False
        self._again = False
        self.under_way: tuple[int, int] | None = None
        self.last_failed = False
        self._compacted_for = log.snapshot

    @property
    def limit(self) -> int:
        """So many bytes of entries make a snapshot due. A large state is worth a longer log: else
        most of what is written would be snapshots."""
        size = 0 if self._log.snapshot is None else self._log.snapshot.size
        return max(self._log_bytes_max, size)

    def applied(self, size_bytes: int) -> None:
        """One more entry."""
        self._bytes += size_bytes

    def installed(self) -> None:
        """The leader's snapshot took the place of everything."""
        self._bytes = self._bytes_at_start = self._retry_at = 0

    def request(self, *, again: bool = False) -> bool:
        """Somebody wants one now; False when one is being taken already. `again`: even if nothing
        happened since the last one."""
        if self.under_way is not None:
            return False
        self._requested = True
        self._again = again
        return True

    def due(self, last_applied: int) -> tuple[int, int] | None:
        """The last entry (index, term) of a snapshot to be taken now, of the state as it is."""
        wanted = self._requested or self._bytes >= max(self.limit, self._retry_at)
        if not wanted or self.under_way is not None:
            return None
        newest = self._log.newest_snapshot_index
        is_news = last_applied > newest or (self._again and last_applied == newest)
        self._requested = self._again = False
        if not is_news:
            return None
        self.under_way = (last_applied, self._log[last_applied - self._log[0][1]][2])
        self._bytes_at_start = self._bytes
        return self.under_way

    def taken(self, draft: Path, size: int, crc: int) -> None:
        """It is complete on disk."""
        assert self.under_way is not None
        self._log.publish(draft, Snapshot(*self.under_way, size, crc))
        self._bytes = max(0, self._bytes - self._bytes_at_start)
        self.under_way, self._retry_at, self.last_failed = None, 0, False

    def failed(self) -> None:
        """It is not; what there was before still counts."""
        self.under_way, self.last_failed = None, True
        self._retry_at = self._bytes + int(RETRY_SHARE * self.limit)

    def compact(self, oldest_needed_index: int | None) -> None:
        """When a new snapshot counts, let the log before it go, but for a rest: more of it if
        entries after `oldest_needed_index` are needed, but not more than `limit`."""
        snapshot = self._log.snapshot
        if snapshot is None or snapshot == self._compacted_for:
            return
        self._compacted_for = snapshot
        first = self._log[0][1]
        position, kept_bytes = snapshot.last_index - first, 0
        needed = snapshot.last_index if oldest_needed_index is None else oldest_needed_index
        keep_bytes = KEEP_SHARE * self._log_bytes_max
        while position > 0 and (
            kept_bytes < keep_bytes or (first + position > needed and kept_bytes < self.limit)
        ):
            kept_bytes += len(self._log[position][0])
            position -= 1
        self._log.compact(first + position)
