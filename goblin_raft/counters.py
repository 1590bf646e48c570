"""What a node counts of the commands it serves: calls, times, slow ones; not what they mean."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import NamedTuple

from goblin_raft.reply import Failure, Reply

# As in Redis: slower than this is worth a line, and so many lines are kept.
SLOWER_THAN_US = 10_000
SLOW_ENTRIES_MAX = 128


class SlowEntry(NamedTuple):
    """One line of the slow log."""

    id: int
    wall_s: int
    took_us: int
    argv: list[bytes]
    more: int  # commands that came in the same pipeline and waited as long
    address: str
    name: bytes


class SlowLog:
    """The newest slow commands, newest first."""

    def __init__(self) -> None:
        self.slower_than_us = SLOWER_THAN_US  # below zero: nothing is kept
        self.entries: deque[SlowEntry] = deque(maxlen=SLOW_ENTRIES_MAX)
        self.next_id = 0

    @property
    def length_max(self) -> int:
        """How many are kept."""
        return self.entries.maxlen or 0

    @length_max.setter
    def length_max(self, length: int) -> None:
        self.entries = deque(list(self.entries)[:length], maxlen=length)

    def add(
        self, wall_s: int, took_us: int, argv: list[bytes], more: int, address: str, name: bytes
    ) -> None:
        """Keep one."""
        entry = SlowEntry(self.next_id, wall_s, took_us, argv, more, address, name)
        self.next_id += 1
        self.entries.appendleft(entry)


@dataclass(slots=True)
class CommandStats:
    """By command name. Times run from a request's turn on its connection to its answer."""

    calls: Counter[str] = field(default_factory=Counter)
    took_us: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)  # before they were executed
    failed: Counter[str] = field(default_factory=Counter)  # answered with an error

    def record(self, names: list[str], took_us: int, replies: list[Reply]) -> None:
        """Commands that were served together."""
        for name in names if len(names) == 1 else set(names):
            count = names.count(name)
            self.calls[name] += count
            self.took_us[name] += count * took_us
        if Failure in map(type, replies):
            for name, reply in zip(names, replies, strict=True):
                if type(reply) is Failure:
                    self.failed[name] += 1

    def clear(self) -> None:
        """Begin anew."""
        for counter in (self.calls, self.took_us, self.rejected, self.failed):
            counter.clear()


class Rates:
    """How much of something happens per second, from samples of ever growing counts."""

    def __init__(self) -> None:
        self._last: tuple[float, tuple[int, ...]] | None = None
        self.per_second: tuple[float, ...] = ()

    def sample(self, now_s: float, *counts: int) -> None:
        """Take the counts as they are now."""
        if self._last is not None:
            before_s, before = self._last
            passed_s = max(now_s - before_s, 0.001)
            # A reset of the statistics in between makes a count smaller.
            grown = (max(0, new - old) for new, old in zip(counts, before, strict=True))
            self.per_second = tuple(n / passed_s for n in grown)
        self._last = (now_s, counts)
