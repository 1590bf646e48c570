"""One-step forms of what people write scripts for: counters with bounds, hash fields, windows.

The commands and their replies are those of goblin-core.
"""

from __future__ import annotations

import math

from goblin_raft import errors
from goblin_raft.arguments import Argument, integer, key, score, string
from goblin_raft.commands.counters import OVERFLOW, incrby, read_counter, write_number
from goblin_raft.commands.hashes import NOT_A_FLOAT, fields_of, hset
from goblin_raft.commands.sorted_sets import NO_MEMBERS, members_of
from goblin_raft.keyspace import Instant, Keyspace
from goblin_raft.limits import Limits
from goblin_raft.ordered import AFTER
from goblin_raft.readers import (
    EXPIRE_MS_MAX,
    INT64_MIN,
    parse_double,
    read_score,
    read_signed_seconds,
    read_string,
)
from goblin_raft.reply import Failure, Reply
from goblin_raft.spec import Family
from goblin_raft.values import SortedSet

family = Family("idempotency")

REFUSED = -1
WINDOW_TOO_LONG = errors.invalid_expire_time("GOBLIN.ZWINDOW")


@family.write("GOBLIN.INCREX", key(), Argument("seconds", "integer", read_signed_seconds))
def increx(keyspace: Keyspace, at: Instant, key: bytes, remaining_ms: int) -> Reply:
    """Count in a fixed window: add one to an integer, and give its key a time to live if it is new.

    Replies the new value. The time to live begins when the value becomes 1 and is left alone after
    that, so the window is over that many seconds after its first call. Zero seconds or less end it
    at once.
    """
    number = incrby(keyspace, at, key, 1)
    if number == 1:
        if remaining_ms <= 0:
            keyspace.delete(key)
        else:
            keyspace.set_deadline(key, at.now_ms + remaining_ms)
    return number


@family.write("GOBLIN.INCRBOUND", key(), integer("delta"), integer("max"))
def incrbound(keyspace: Keyspace, at: Instant, key: bytes, delta: int, most: int) -> Reply:
    """Add to an integer if the sum is no more than a maximum; its key keeps its time to live.

    Replies the new value, or -1 when nothing was changed because the sum would be too large.
    """
    number = read_counter(keyspace, at, key)
    if isinstance(number, Failure):
        return number
    number += delta
    if number > most:
        return REFUSED
    if number < INT64_MIN:
        return OVERFLOW
    write_number(keyspace, at, key, b"%d" % number)
    return number


@family.write("GOBLIN.DECRPOS", key())
def decrpos(keyspace: Keyspace, at: Instant, key: bytes) -> Reply:
    """Take one from an integer if it is above zero; its key keeps its time to live.

    Replies the new value, or -1 when nothing was changed because there was none left.
    """
    number = read_counter(keyspace, at, key)
    if isinstance(number, Failure):
        return number
    return incrby(keyspace, at, key, -1) if number > 0 else REFUSED


@family.write("GOBLIN.HCAD", key(), string("field"), string("expected"))
def hcad(keyspace: Keyspace, at: Instant, key: bytes, field: bytes, expected: bytes) -> Reply:
    """Delete a field of a hash if it holds this value, and the key with the last one.

    Replies 1 when it was deleted, 0 when it does not exist or holds another value.
    """
    fields = fields_of(keyspace, at, key)
    if isinstance(fields, Failure):
        return fields
    if fields.get(field) != expected:
        return 0
    fields.remove(field)
    keyspace.store(key, fields, new=False)
    return 1


def read_finite(word: bytes, limits: Limits, name: str) -> bytes:
    """A number that is not infinite; in the log as it came, because it is stored like that."""
    if math.isinf(read_score(word, limits, name)):
        raise errors.NOT_A_FLOAT.refusal()
    return read_string(word, limits, name)


@family.write("GOBLIN.HSETGT", key(), string("field"), Argument("value", "double", read_finite))
def hsetgt(keyspace: Keyspace, at: Instant, key: bytes, field: bytes, value: bytes) -> Reply:
    """Set a field of a hash if the number is greater than the one that it holds.

    Replies 1 when it was set, 0 when not. A field that does not exist is less than any number. What
    is stored is the number as it was written.
    """
    fields = fields_of(keyspace, at, key)
    if isinstance(fields, Failure):
        return fields
    held, number = fields.get(field), parse_double(value)
    if held is not None:
        old = parse_double(held)
        if old is None or math.isinf(old):
            return NOT_A_FLOAT
        if number is None or number <= old:
            return 0
    hset(keyspace, at, key, [field, value])
    return 1


@family.write(
    "GOBLIN.ZWINDOW",
    key(),
    score("now"),
    score("window"),
    integer("limit"),
    string("member"),
)
def zwindow(
    keyspace: Keyspace,
    at: Instant,
    key: bytes,
    now: float,
    window: float,
    limit: int,
    member: bytes,
) -> Reply:
    """Admit to a sliding window: at most so many members in any time of that length.

    The key holds a sorted set of members by the time they came at. Those that came `window` before
    `now` or earlier are removed; then, if fewer than `limit` are left, the member is added at `now`
    and the key gets a time to live of `window` seconds. Replies 1 when it was admitted, else 0.

    `now` is the caller's own clock. A member that is in the window counts as one of those that are
    left: it is moved to `now` only while there is room.
    """
    if not abs(window * 1000) <= EXPIRE_MS_MAX:
        return WINDOW_TOO_LONG
    held = members_of(keyspace, at, key)
    if isinstance(held, Failure):
        return held
    new = held is NO_MEMBERS
    members = SortedSet() if new else held
    cutoff = now - window
    past = 0 if math.isnan(cutoff) else members.order.position((cutoff, AFTER))
    removed = members.remove_slice(0, past)
    admitted = len(members) < limit
    if admitted:
        members.set(member, now)
    if admitted or removed:
        keyspace.store(key, members, new=new)
    if admitted:
        remaining_ms = int(window) * 1000
        if remaining_ms <= 0:
            keyspace.delete(key)
        else:
            keyspace.set_deadline(key, at.now_ms + remaining_ms)
    return int(admitted)
