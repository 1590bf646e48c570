"""Which keys were changed lately: what WATCH compares; it knows neither values nor commands.

The invariant that WATCH rests on:

    Let P be the number of entries that a node has applied when it notes a key for WATCH. At any
    later place of the log `has_changed` is false only if no command in the entries after P changed
    the key, and the key has not passed the deadline that it had at P.

So a transaction can be applied, on every replica alike, exactly if what it watches is untouched. To
that end each change of a key leaves the number of its entry. Changes are kept for two generations,
each until HISTORY_BYTES of proposals were applied; who asks about an older time is told "changed",
which costs him another attempt and never a wrong answer. All of it is part of the replicated state.
An expiry leaves no mark, because it is decided by the deadline: removal from memory may come later.
"""

from __future__ import annotations

from typing import Any, NamedTuple

# At full load a second or so of changes. A watch does not age: its node renews it at each change of
# generation, so this only has to outlast the way of an EXEC through the log.
HISTORY_BYTES = 4 * 1024 * 1024


class History:
    """What all databases of a machine share: the count of entries, and when a generation ends."""

    __slots__ = ("began", "entry", "size_bytes")

    def __init__(self) -> None:
        self.entry = 0  # entries applied, with the one that is being applied
        self.began = 0  # the last entry before the present generation
        self.size_bytes = 0  # of the entries of the present generation


class Watched(NamedTuple):
    """A key as it was when it was noted. Lies in the log as a list of these five."""

    db: int
    key: bytes
    since: int  # entries applied by then
    there: bool
    deadline_ms: int | None


class Changes:
    """The changes of one database."""

    __slots__ = ("changed", "changed_before", "cleared", "history", "known_since")

    def __init__(self, history: History | None = None) -> None:
        self.history = history or History()
        self.changed: dict[bytes, int] = {}  # key: the last entry that changed it
        self.changed_before: dict[bytes, int] = {}  # the generation before
        self.cleared = 0  # the last entry that removed all keys
        self.known_since = 0  # changes in entries up to this one may be forgotten

    def touch(self, key: bytes) -> None:
        """Note that a key is changed by the entry that is being applied."""
        self.changed[key] = self.history.entry

    def touch_all(self) -> None:
        """Note that any key may have become another one, as when two databases change places."""
        self.known_since = self.history.entry

    def has_changed(self, watched: Watched, now_ms: int) -> bool:
        """Whether a key is, or may be, another one than it was; see the invariant."""
        _, key, since, there, deadline_ms = watched
        return (
            since < self.known_since
            or self.changed.get(key, 0) > since
            or self.changed_before.get(key, 0) > since
            or (there and self.cleared > since)
            or (deadline_ms is not None and now_ms >= deadline_ms)
        )

    def next_generation(self) -> None:
        """Forget the generation before the present one."""
        self.changed_before, self.changed = self.changed, {}
        self.known_since = max(self.known_since, self.history.began)

    # ---- snapshots -----------------------------------------------------------------------------

    def generations(self) -> list[list[tuple[bytes, int]]]:
        """Both generations, in order of keys."""
        return [sorted(self.changed_before.items()), sorted(self.changed.items())]

    def load_generation(self, number: int, changes: list[Any]) -> None:
        """Take a portion of what `generations` gave."""
        (self.changed if number else self.changed_before).update((key, at) for key, at in changes)


class Watch:
    """The keys that one connection watches. Kept by its node alone."""

    __slots__ = ("__weakref__", "_watched", "changed", "size_bytes")

    def __init__(self) -> None:
        self._watched: dict[tuple[int, bytes], Watched] = {}
        self.size_bytes = 0  # of all keys that were named
        self.changed = False  # one of them was: for good

    def add(self, watched: Watched) -> None:
        """One more; a key that is watched already stays as it was first seen."""
        if (watched.db, watched.key) not in self._watched:
            self._watched[watched.db, watched.key] = watched

    def keys(self) -> list[Watched]:
        """All of them."""
        return list(self._watched.values())

    def renew(self, databases: list[Any], now_ms: int) -> None:
        """Look at this node's state: a key was changed, or all are as they were until now."""
        if self.changed or not self._watched:
            return
        if any(databases[each.db].has_changed(each, now_ms) for each in self._watched.values()):
            self.changed = True
            self._watched.clear()
            return
        entry = databases[0].history.entry
        self._watched = {name: each._replace(since=entry) for name, each in self._watched.items()}
