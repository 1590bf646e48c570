"""What a node counts of the commands it serves: calls, times, slow ones; not what they mean."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass
from typing import Any, NamedTuple

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
class CommandCount:
    """One command's. Times run from a request's turn on its connection to its answer."""

    calls: int = 0
    took_us: int = 0
    rejected: int = 0  # before it was executed
    failed: int = 0  # answered with an error


class CommandStats(defaultdict[str, CommandCount]):
    """By command name."""

    def __init__(self) -> None:
        super().__init__(CommandCount)

    def record(self, commands: list[list[Any]], took_us: int, replies: list[Reply]) -> None:
        """Commands that were served together; each is its name and what belongs to it."""
        failed = Failure in map(type, replies)
        if len(commands) == 1:  # every request that is not in a pipeline: the quick way
            count = self[commands[0][0]]
            count.calls += 1
            count.took_us += took_us
            count.failed += failed
            return
        names = [command[0] for command in commands]
        for name in set(names):
            count = self[name]
            calls = names.count(name)
            count.calls += calls
            count.took_us += calls * took_us
        if failed:
            for name, reply in zip(names, replies, strict=True):
                self[name].failed += type(reply) is Failure


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
