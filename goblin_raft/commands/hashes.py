"""Hashes, as far as a result is one: HSET and HGET."""

from __future__ import annotations

from goblin_raft import errors
from goblin_raft.arguments import key, repeated, string
from goblin_raft.keyspace import Instant, Keyspace
from goblin_raft.reply import Reply
from goblin_raft.spec import Family
from goblin_raft.values import Hash

family = Family("hash")

WRONG_TYPE = errors.WRONG_TYPE.failure()


@family.write("HSET", key(), repeated(string("field"), string("value")))
def hset(keyspace: Keyspace, at: Instant, key: bytes, pairs: list[bytes]) -> Reply:
    """Set fields of a hash; replies how many of them are new."""
    fields = keyspace.get(key, at.now_ms)
    if fields is None:
        fields = Hash()
        keyspace.put(key, fields)
    elif not isinstance(fields, Hash):
        return WRONG_TYPE
    before = len(fields)
    keyspace.touch(key)
    fields.update(zip(pairs[::2], pairs[1::2], strict=True))
    return len(fields) - before


@family.read("HGET", key(), string("field"))
def hget(keyspace: Keyspace, at: Instant, key: bytes, field: bytes) -> Reply:
    """Read one field of a hash."""
    fields = keyspace.get(key, at.now_ms)
    if fields is None:
        return None
    return fields.get(field) if isinstance(fields, Hash) else WRONG_TYPE
