"""One database: keys, values and deadlines; it reads no clock and knows no command.

Time is machine time in milliseconds and always an argument. A key is over as soon as time has
reached its deadline, whether or not it was removed from memory yet: the comparison is written
once, in `get`. Removal only makes room, in bounded steps, and what it removes is a function of the
keys and their deadlines alone, so that every replica removes the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop
from typing import NamedTuple

from goblin_raft.changes import Changes, History, Watched
from goblin_raft.key_index import KeyIndex
from goblin_raft.pubsub import Hub
from goblin_raft.schedule import Schedule
from goblin_raft.values import Encoded, Hash, SortedSet, Value, decode_value, encode_value

# Making the schedule anew costs as much as there are deadlines; below this size it does not pay.
REBUILD_SLACK = 1_000


@dataclass(frozen=True, slots=True)
class Instant:
    """The time a command runs at, from the log. No command knows any other time."""

    # Machine time, the greatest stamp applied: the only thing that deadlines are compared with.
    now_ms: int
    # Cluster time, never below machine time: what TTL counts down by while nothing is written.
    cluster_ms: int
    # The leader's wall clock when it gave the stamp: what EXAT and PXAT are measured from.
    wall_ms: int


class Keyspace(Changes):
    """See the module. Whatever changes a key by command leaves a mark, see changes.py.

    The invariant of the schedule: every key with a deadline has an entry in it that is not later
    than that deadline. A deadline that moves later, as each renewal of a lease does, costs no
    entry: the old one is put off when it comes up.
    """

    __slots__ = ("_schedule", "deadlines", "index", "values")

    def __init__(self, history: History | None = None) -> None:
        super().__init__(history)
        self.values: dict[bytes, Value] = {}
        self.deadlines: dict[bytes, int] = {}
        # All keys of `values`, for SCAN.
        self.index = KeyIndex()
        self._schedule = Schedule()

    def __len__(self) -> int:
        """How many keys are in memory; some of them may be over."""
        return len(self.values)

    def get(self, key: bytes, now_ms: int) -> Value | None:
        """The value of a key that is not over."""
        deadline_ms = self.deadlines.get(key)
        if deadline_ms is not None and now_ms >= deadline_ms:
            return None
        return self.values.get(key)

    def put(self, key: bytes, value: Value, deadline_ms: int | None = None) -> None:
        """Replace whatever the key held, and its deadline."""
        if key not in self.values:
            self.index.add(key)
        self.values[key] = value
        if deadline_ms is not None:
            self.set_deadline(key, deadline_ms)
            return
        self.changed[key] = self.history.entry
        if self.deadlines:
            self.deadlines.pop(key, None)

    def replace(self, key: bytes, value: Value) -> None:
        """Change the value of a key that is there, and leave its deadline as it is."""
        assert key in self.values
        self.changed[key] = self.history.entry
        self.values[key] = value

    def store(self, key: bytes, value: Hash | SortedSet, *, new: bool) -> None:
        """Put a collection that was changed in its place; there is no empty one."""
        if not value:
            if not new:
                self.delete(key)
        elif new:
            self.put(key, value)
        else:
            self.replace(key, value)

    def set_deadline(self, key: bytes, deadline_ms: int) -> None:
        """Give a key that is there a deadline, sooner or later than the one it had."""
        self.changed[key] = self.history.entry
        old_ms = self.deadlines.get(key)
        self.deadlines[key] = deadline_ms
        if old_ms is None or deadline_ms < old_ms:
            schedule = self._schedule
            schedule.add(deadline_ms, key)
            if schedule.size > 2 * len(self.deadlines) + REBUILD_SLACK:
                entries = ((due_ms, name) for name, due_ms in self.deadlines.items())
                self._schedule = Schedule(entries)

    def clear_deadline(self, key: bytes) -> bool:
        """Let a key stay for ever; whether it had a deadline."""
        if self.deadlines.pop(key, None) is None:
            return False
        self.changed[key] = self.history.entry
        return True

    def delete(self, key: bytes) -> None:
        """Remove a key that is there."""
        self.changed[key] = self.history.entry
        del self.values[key]
        self.index.remove(key)
        self.deadlines.pop(key, None)

    def clear(self) -> None:
        """Remove everything."""
        self.cleared = self.history.entry
        self.values.clear()
        self.index.clear()
        self.deadlines.clear()
        self._schedule = Schedule()

    def next_deadline_ms(self) -> int | None:
        """The earliest deadline of all keys in memory, be it past or to come."""
        schedule = self._schedule
        while entry := schedule.next():
            due_ms, key = entry
            deadline_ms = self.deadlines.get(key)
            if deadline_ms == due_ms:
                return due_ms
            schedule.drop_next()
            if deadline_ms is not None and deadline_ms > due_ms:  # else an earlier entry stands
                schedule.add(deadline_ms, key)
        return None

    def remove_expired(self, now_ms: int, keys_max: int, gone: list[bytes] | None = None) -> int:
        """Remove at most so many keys that are over, the longest over first; how many it was.

        Their names go into `gone`.
        """
        schedule, deadlines, values = self._schedule, self.deadlines, self.values
        removed = 0
        while removed < keys_max and (due := schedule.due(now_ms)):
            due_ms, keys = due
            before = len(keys)
            while keys and removed < keys_max:
                key = heappop(keys)
                deadline_ms = deadlines.get(key)
                if deadline_ms == due_ms:
                    del deadlines[key], values[key]
                    self.index.remove(key)
                    removed += 1
                    if gone is not None:
                        gone.append(key)
                elif deadline_ms is not None and deadline_ms > due_ms:
                    schedule.add(deadline_ms, key)
            schedule.size -= before - len(keys)
        return removed

    def note(self, db: int, key: bytes, now_ms: int) -> Watched:
        """A key as it is now, for WATCH. One that is over is not there."""
        if self.get(key, now_ms) is None:
            return Watched(db, key, self.history.entry, there=False, deadline_ms=None)
        return Watched(db, key, self.history.entry, there=True, deadline_ms=self.deadlines.get(key))

    # ---- snapshots -----------------------------------------------------------------------------

    def items(self) -> Iterator[tuple[bytes, int | None, int, Encoded]]:
        """Key, deadline, kind, content: in order of keys, so equal for equal keyspaces.

        A large hash or sorted set comes as several items, one after the other.
        """
        for key in sorted(self.values):
            for kind, content in encode_value(self.values[key]):
                yield key, self.deadlines.get(key), kind, content

    def load(self, items: list[tuple[bytes, int | None, int, Encoded]]) -> None:
        """Take items of another keyspace; all of them, in portions, make this one its equal."""
        for key, deadline_ms, kind, content in items:
            self.put(key, decode_value(kind, content, self.values.get(key)), deadline_ms)
        self.changed.clear()  # nothing of it is a change; what was changed lately comes extra


class Databases(NamedTuple):
    """What a command on more than one database gets: all of them, and which one is the session's.

    The list may be changed in place.
    """

    all: list[Keyspace]
    selected: int
    hub: Hub  # of the node that applies the command
