"""The replicated state as a row of blocks, and back; what the state means is not known here.

    head    ["head", version, now_ms, wall_ms, origins, history]
    keys    ["keys", database, [[key, deadline_ms | nil, kind, content], ...]]     many of them
    changes ["changes", database, generation, [[key, entry], ...]]                 many of them
    end     ["end", number of items and changes]

All msgpack, and canonical: equal states give equal blocks, on every node. A block holds a bounded
number of items, and a large hash or sorted set is several items, so that whoever writes or loads a
large state can do other things in between.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgpack

from goblin_raft.changes import History
from goblin_raft.entry import Unreadable
from goblin_raft.keyspace import Keyspace
from goblin_raft.origins import Origins

STATE_VERSION = 3
# A block ends when it holds so many keys, or bytes of values: some milliseconds of work.
BLOCK_KEYS = 500
BLOCK_BYTES = 256 * 1024
# What a key costs in a block beside its bytes, about.
KEY_OVERHEAD_BYTES = 16


def encode_state(
    now_ms: int, wall_ms: int, origins: Origins, keyspaces: list[Keyspace]
) -> Iterator[bytes]:
    """The blocks of a state."""
    history = _history_state(keyspaces)
    yield msgpack.packb(["head", STATE_VERSION, now_ms, wall_ms, origins.state(), history])
    count = 0
    for database, keyspace in enumerate(keyspaces):
        items: list[Any] = []
        size = 0
        for item in keyspace.items():
            items.append(item)
            size += KEY_OVERHEAD_BYTES + len(item[0]) + _size_of(item[3])
            if len(items) >= BLOCK_KEYS or size >= BLOCK_BYTES:
                yield msgpack.packb(["keys", database, items])
                count += len(items)
                items, size = [], 0
        if items:
            yield msgpack.packb(["keys", database, items])
            count += len(items)
    for database, keyspace in enumerate(keyspaces):
        for generation, changes in enumerate(keyspace.generations()):
            for start in range(0, len(changes), BLOCK_KEYS):
                some = changes[start : start + BLOCK_KEYS]
                yield msgpack.packb(["changes", database, generation, some])
                count += len(some)
    yield msgpack.packb(["end", count])


def _history_state(keyspaces: list[Keyspace]) -> list[Any]:
    history = keyspaces[0].history
    marks = [[keyspace.cleared, keyspace.known_since] for keyspace in keyspaces]
    return [history.entry, history.began, history.size_bytes, marks]


def _size_of(content: Any) -> int:
    if isinstance(content, bytes):
        return len(content)
    return sum(len(each) if isinstance(each, bytes) else 8 for each in content)


class StateLoader:
    """Takes the blocks of a state one by one, beside the state in use. `ended` when it has all."""

    def __init__(self, databases: int) -> None:
        self.now_ms = 0
        self.wall_ms = 0
        self.origins = Origins()
        self.history = History()
        self.keyspaces = [Keyspace(self.history) for _ in range(databases)]
        self.started = False
        self.ended = False
        self.count = 0

    def feed(self, block: bytes) -> None:
        """Take the next block. Raises Unreadable when it is not one, or not the next one."""
        try:
            self._take(msgpack.unpackb(block))
        except (MemoryError, Unreadable):
            raise
        except Exception as error:  # whatever damaged bytes may cause
            msg = f"the state is not one of ours: {type(error).__name__}"
            raise Unreadable(msg) from error

    def _take(self, block: Any) -> None:
        match block:
            case ["head", version, *_] if version != STATE_VERSION:
                msg = f"the state has format {version}; this version reads format {STATE_VERSION}"
                raise Unreadable(msg)
            case ["head", _, int(now_ms), int(wall_ms), origins, history] if not self.started:
                self.now_ms, self.wall_ms = now_ms, wall_ms
                self.origins.load(origins)
                self._load_history(history)
                self.started = True
            case ["keys", int(database), items] if self.started and not self.ended:
                self.keyspaces[database].load(items)
                self.count += len(items)
            case ["changes", int(database), int(generation), changes] if (
                self.started and not self.ended
            ):
                self.keyspaces[database].load_generation(generation, changes)
                self.count += len(changes)
            case ["end", int(count)] if self.started and not self.ended and count == self.count:
                self.ended = True
            case _:
                msg = "the state is not one of ours: its blocks are not in order, or not complete"
                raise Unreadable(msg)

    def _load_history(self, state: list[Any]) -> None:
        history = self.history
        history.entry, history.began, history.size_bytes, marks = state
        for keyspace, (cleared, known_since) in zip(self.keyspaces, marks, strict=True):
            keyspace.cleared, keyspace.known_since = cleared, known_since
