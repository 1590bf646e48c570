"""What a change of a key is called, in the channels that Redis has for it; state is only looked at.

    __keyspace@DB__:KEY    the message is the event
    __keyevent@DB__:EVENT  the message is the key

The events are Redis's: the command's name for most, `del` when the key is gone, `expire` when it
got a time to live, `expired` when that ended. They are made where an entry is applied, only while
somebody listens, and are no part of the replicated state.
"""

from __future__ import annotations

from typing import Any

from goblin_raft.keyspace import Keyspace
from goblin_raft.pubsub import Hub

SET, HSET, INCRBY, EXPIRE, EXPIRED, DEL = "set", "hset", "incrby", "expire", "expired", "del"
# What a key that is there afterwards has gone through, where it is not the command's name.
EVENTS = {
    "COPY": "copy_to", "DECR": INCRBY, "DECRBY": INCRBY, "EXPIREAT": EXPIRE, "GETSET": SET,
    "GOBLIN.CAEXPIRE": EXPIRE, "GOBLIN.CAS": SET, "GOBLIN.CLAIM": SET, "GOBLIN.DECRPOS": INCRBY,
    "GOBLIN.HCAD": "hdel", "GOBLIN.HSETGT": HSET, "GOBLIN.INCRBOUND": INCRBY,
    "GOBLIN.INCREX": INCRBY, "GOBLIN.ZWINDOW": "zadd", "HMSET": HSET, "HSETNX": HSET,
    "INCR": INCRBY, "LOCK.ACQUIRE": SET, "LOCK.COUNT": INCRBY, "LOCK.EXTEND": SET,
    "LOCK.PROLONG": EXPIRE, "LOCK.RENEW": EXPIRE, "LOCK.RENEWS": EXPIRE, "MOVE": "move_to",
    "MSET": SET, "MSETNX": SET, "PEXPIRE": EXPIRE, "PEXPIREAT": EXPIRE, "PSETEX": SET,
    "RENAME": "rename_to", "RENAMENX": "rename_to",
    "SETEX": SET, "SETNX": SET, "ZINCRBY": "zincr",
}  # fmt: skip
# And a key that is gone, where it is not `del` alone.
EVENTS_OF_GONE = {
    "GOBLIN.HCAD": ["hdel", DEL], "HDEL": ["hdel", DEL],
    "GOBLIN.ZWINDOW": ["zremrangebyscore", DEL], "MOVE": ["move_from"],
    "RENAME": ["rename_from"], "RENAMENX": ["rename_from"],
    "ZPOPMAX": ["zpopmax", DEL], "ZPOPMIN": ["zpopmin", DEL], "ZREM": ["zrem", DEL],
    "ZREMRANGEBYLEX": ["zremrangebylex", DEL], "ZREMRANGEBYRANK": ["zremrangebyrank", DEL],
    "ZREMRANGEBYSCORE": ["zremrangebyscore", DEL],
}  # fmt: skip
# Those that may give a key a time to live, beside what else they do.
KEEPTTL = "KEEPTTL"
MAY_EXPIRE = {
    "GOBLIN.CLAIM", "GOBLIN.INCREX", "LOCK.ACQUIRE", "LOCK.EXTEND", "PSETEX", "SET", "SETEX",
}  # fmt: skip


class Noting(dict[bytes, int]):
    """Stands in for Keyspace.changed while a command runs; keeps the deadlines of before."""

    def __init__(self, db: int, space: Keyspace) -> None:
        super().__init__()
        self.db = db
        self.space = space
        self.original = space.changed
        self.deadlines: dict[bytes, int | None] = {}
        space.changed = self

    def __setitem__(self, key: bytes, entry: int) -> None:
        if key not in self:
            self.deadlines[key] = self.space.deadlines.get(key)
        super().__setitem__(key, entry)

    def end(self) -> None:
        """Put the original back, with what was changed."""
        self.original.update(self)
        self.space.changed = self.original


def tell_changes(hub: Hub, command: list[Any], noting: Noting, now_ms: int) -> None:
    """What a command has done to keys."""
    name, db, space = command[0], noting.db, noting.space
    may_expire = name in MAY_EXPIRE and KEEPTTL not in command
    for key, old_ms in noting.deadlines.items():
        if old_ms is not None and now_ms >= old_ms:
            tell(hub, db, key, EXPIRED)
        new_ms = space.deadlines.get(key)
        if key not in space.values:
            events = EVENTS_OF_GONE.get(name, [DEL])
        elif name == "GETEX":
            events = ["persist" if new_ms is None else EXPIRE]
        else:
            events = [EVENTS.get(name) or name.lower()]
            if may_expire and new_ms is not None:
                events.append(EXPIRE)
        for event in events:
            tell(hub, db, key, event)


def tell(hub: Hub, db: int, key: bytes, event: str) -> None:
    """One event, in both channels."""
    hub.publish(b"__keyspace@%d__:%b" % (db, key), event.encode())
    hub.publish(b"__keyevent@%d__:%b" % (db, event.encode()), key)
