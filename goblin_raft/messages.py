"""Messages of channels on their way to one subscriber, and when there are too many of them.

They leave between two replies, never inside one. Knows nothing of sockets.
"""

from __future__ import annotations

# What a subscriber has not read yet before it is disconnected: at once, and when it is that much
# for so long. Redis's limits for subscribers.
UNREAD_BYTES_MAX = 32 * 1024 * 1024
SLOW_BYTES = 8 * 1024 * 1024
SLOW_S = 60


class Messages:
    """See the module."""

    __slots__ = ("size_bytes", "slow_since_s", "waiting")

    def __init__(self) -> None:
        self.waiting: list[bytes] = []  # encoded
        self.size_bytes = 0
        self.slow_since_s: float | None = None

    def add(self, data: bytes, unsent_bytes: int, now_s: float) -> bool:
        """One more, beside what else was not sent yet; False when that is too much."""
        self.waiting.append(data)
        self.size_bytes += len(data)
        unread_bytes = self.size_bytes + unsent_bytes
        if unread_bytes <= SLOW_BYTES:
            self.slow_since_s = None
            return True
        if self.slow_since_s is None:
            self.slow_since_s = now_s
        return unread_bytes <= UNREAD_BYTES_MAX and now_s - self.slow_since_s <= SLOW_S

    def take(self) -> bytes:
        """All of them, to be sent now."""
        data = b"".join(self.waiting)
        self.waiting.clear()
        self.size_bytes = 0
        return data
