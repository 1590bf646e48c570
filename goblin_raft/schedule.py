"""Which keys are due when, the soonest first; whether a key is still due then, others know.

Leases that were given in one log entry for the same length end in the same millisecond. So only the
distinct times are kept in a heap, each with a list of names, which becomes a heap when it is due:
to enter a name costs no comparison with any other.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush


class Schedule:
    """Times in milliseconds. A name may stand at several times, and more than once at one."""

    __slots__ = ("_heaped_ms", "_names", "_times", "size")

    def __init__(self, entries: Iterable[tuple[int, bytes]] = ()) -> None:
        self.size = 0  # entries, with those that came to nothing
        self._times: list[int] = []  # a heap of the keys of `_names`
        self._names: dict[int, list[bytes]] = {}
        self._heaped_ms = -1  # the names of this time are a heap
        for due_ms, name in entries:
            self.add(due_ms, name)

    def add(self, due_ms: int, name: bytes) -> None:
        """One more entry."""
        self.size += 1
        names = self._names.get(due_ms)
        if names is None:
            self._names[due_ms] = [name]
            heappush(self._times, due_ms)
        else:
            names.append(name)
            if due_ms == self._heaped_ms:
                self._heaped_ms = -1

    def next(self) -> tuple[int, bytes] | None:
        """The time that comes next, and some name of it."""
        while self._times:
            due_ms = self._times[0]
            names = self._names[due_ms]
            if names:
                return due_ms, names[-1]
            self._drop_first()
        return None

    def drop_next(self) -> None:
        """Drop what `next` has shown."""
        self._names[self._times[0]].pop()  # a leaf, should they be a heap
        self.size -= 1

    def due(self, now_ms: int) -> tuple[int, list[bytes]] | None:
        """The first time that has come, and its names as a heap: what is popped from it is gone,
        and must be taken from `size`."""
        while self._times and self._times[0] <= now_ms:
            due_ms = self._times[0]
            names = self._names[due_ms]
            if names:
                if due_ms != self._heaped_ms:
                    heapify(names)
                    self._heaped_ms = due_ms
                return due_ms, names
            self._drop_first()
        return None

    def _drop_first(self) -> None:
        del self._names[heappop(self._times)]
