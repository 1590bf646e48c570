"""What well-known lock scripts do, as commands of the log; clients cannot name them.

Each does what one script does, at once and everywhere. Which script means which is scripting.py's.
"""

from __future__ import annotations

from goblin_raft import errors
from goblin_raft.arguments import integer, key, milliseconds, repeated, string
from goblin_raft.commands.counters import incrby
from goblin_raft.keyspace import Instant, Keyspace
from goblin_raft.readers import EXPIRE_MS_MAX
from goblin_raft.reply import Reply
from goblin_raft.spec import Family

family = Family("locks")

WRONG_TYPE = errors.WRONG_TYPE.failure()


@family.write("LOCK.ACQUIRE", string("token"), milliseconds(), repeated(key(), least=0))
def acquire(
    keyspace: Keyspace, at: Instant, token: bytes, lease_ms: int, keys: list[bytes]
) -> Reply:
    """Take all keys, or none if any of them exists; how many were taken."""
    if any(keyspace.get(each, at.now_ms) is not None for each in keys):
        return 0
    for each in keys:
        keyspace.put(each, token, at.now_ms + lease_ms)
    return len(keys)


@family.write("LOCK.EXTEND", string("token"), milliseconds(), repeated(key(), least=0))
def extend(
    keyspace: Keyspace, at: Instant, token: bytes, lease_ms: int, keys: list[bytes]
) -> Reply:
    """Renew all keys if all hold the token, else none; how many were renewed."""
    for each in keys:
        value = keyspace.get(each, at.now_ms)
        if value != token:
            return 0 if value is None or isinstance(value, bytes) else WRONG_TYPE
    for each in keys:
        keyspace.put(each, token, at.now_ms + lease_ms)
    return len(keys)


@family.write("LOCK.RELEASE", string("token"), repeated(key(), least=0))
def release(keyspace: Keyspace, at: Instant, token: bytes, keys: list[bytes]) -> Reply:
    """Delete those of the keys that hold the token; how many it were.

    A key that holds no string ends it with an error, as it ends the script: what was deleted before
    stays deleted.
    """
    count = 0
    for each in keys:
        value = keyspace.get(each, at.now_ms)
        if value == token:
            keyspace.delete(each)
            count += 1
        elif not (value is None or isinstance(value, bytes)):
            return WRONG_TYPE
    return count


@family.write("LOCK.RELEASE1", key(), string("token"))
def release_one(keyspace: Keyspace, at: Instant, key: bytes, token: bytes) -> Reply:
    """Delete a key that holds the token; 1, 0 for another token, -1 for no key."""
    if keyspace.get(key, at.now_ms) is None:
        return -1
    return release(keyspace, at, token, [key])


@family.write("LOCK.PROLONG", key(), string("token"), integer("milliseconds"), string("mode"))
def prolong(
    keyspace: Keyspace, at: Instant, key: bytes, token: bytes, lease_ms: int, mode: bytes
) -> Reply:
    """Renew a key that holds the token and has a time to live, or with mode 0 add to that time."""
    value, deadline_ms = keyspace.get(key, at.now_ms), keyspace.deadlines.get(key)
    if value == token and deadline_ms is None:
        return 0
    more_ms = (deadline_ms or 0) - at.now_ms if mode == b"0" else 0
    return renew(keyspace, at, key, token, lease_ms + more_ms)


@family.write("LOCK.RENEW", key(), string("token"), integer("milliseconds"))
def renew(keyspace: Keyspace, at: Instant, key: bytes, token: bytes, lease_ms: int) -> Reply:
    """Give a key that holds the token a time to live: 1; else 0. None above zero deletes it."""
    value = keyspace.get(key, at.now_ms)
    if value != token:
        return 0 if value is None or isinstance(value, bytes) else WRONG_TYPE
    if lease_ms > EXPIRE_MS_MAX:
        return errors.invalid_expire_time("pexpire")
    if lease_ms <= 0:
        keyspace.delete(key)
    else:
        keyspace.set_deadline(key, at.now_ms + lease_ms)
    return 1


@family.write("LOCK.RENEWS", key(), string("token"), integer("seconds"))
def renew_seconds(keyspace: Keyspace, at: Instant, key: bytes, token: bytes, lease: int) -> Reply:
    """The same in seconds."""
    return renew(keyspace, at, key, token, lease * 1000)


@family.write("LOCK.COUNT", key(), integer("increment"))
def count_existing(keyspace: Keyspace, at: Instant, key: bytes, increment: int) -> Reply:
    """INCRBY for a key that exists; nil, and no change, for one that does not."""
    if keyspace.get(key, at.now_ms) is None:
        return None
    return incrby(keyspace, at, key, increment)
