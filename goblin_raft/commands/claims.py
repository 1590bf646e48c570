"""The idempotency commands: claim work, and release, renew or change what one owns.

They know a claim as a string key that holds its owner's token, and nothing else of the caller.
"""

from __future__ import annotations

from typing import Any

from goblin_raft import errors
from goblin_raft.arguments import key, milliseconds, seconds, string
from goblin_raft.keyspace import Instant, Keyspace
from goblin_raft.reply import OK, Reply
from goblin_raft.spec import Family

family = Family("idempotency")

CLAIMED = b"CLAIMED"
WRONG_TYPE = errors.WRONG_TYPE.failure()


def keys_differ(arguments: list[Any]) -> None:
    """With one key for both, the second caller would read the first one's token as its result."""
    if arguments[0] == arguments[1]:
        raise errors.KEYS_MUST_DIFFER.refusal()


@family.write(
    "GOBLIN.CLAIM",
    key("claim_key"),
    key("result_key"),
    string("token"),
    seconds(),
    check=keys_differ,
)
def claim(
    keyspace: Keyspace,
    at: Instant,
    claim_key: bytes,
    result_key: bytes,
    token: bytes,
    lease_ms: int,
) -> Reply:
    """Claim a piece of work, or read the result of the run that did it.

    Replies CLAIMED when the work is the caller's now: claim_key holds the token until the lease of
    that many seconds is over. Otherwise somebody has claimed it, the caller itself perhaps, and the
    reply is what result_key holds: the result, or nil while the work is still being done.

    A claim_key of any type counts as claimed. A result_key that holds no string is a WRONGTYPE
    error, but only for a caller who gets no claim. The two keys must differ.
    """
    now_ms = at.now_ms
    if keyspace.get(claim_key, now_ms) is None:
        keyspace.put(claim_key, token, now_ms + lease_ms)
        return CLAIMED
    result = keyspace.get(result_key, now_ms)
    return result if result is None or isinstance(result, bytes) else WRONG_TYPE


@family.write("GOBLIN.CAD", key(), string("token"))
def compare_and_delete(keyspace: Keyspace, at: Instant, key: bytes, token: bytes) -> Reply:
    """Release a claim: delete a key if it holds this token.

    Replies 1 when the key was deleted, 0 when it does not exist or holds another token.
    """
    value = keyspace.get(key, at.now_ms)
    if value == token:
        keyspace.delete(key)
        return 1
    return 0 if value is None or isinstance(value, bytes) else WRONG_TYPE


@family.write("GOBLIN.CAEXPIRE", key(), string("token"), milliseconds())
def compare_and_expire(
    keyspace: Keyspace, at: Instant, key: bytes, token: bytes, lease_ms: int
) -> Reply:
    """Renew a claim: give a key a new time to live if it holds this token.

    The lease is in milliseconds from now and may be shorter than what was left. Replies 1 when it
    was set, 0 when the key does not exist, any more perhaps, or holds another token.
    """
    now_ms = at.now_ms
    value = keyspace.get(key, now_ms)
    if value == token:
        keyspace.set_deadline(key, now_ms + lease_ms)
        return 1
    return 0 if value is None or isinstance(value, bytes) else WRONG_TYPE


@family.write("GOBLIN.CAS", key(), string("expected"), string("value"))
def compare_and_set(
    keyspace: Keyspace, at: Instant, key: bytes, expected: bytes, value: bytes
) -> Reply:
    """Change the value of a key if it holds the expected one, and keep its time to live.

    Replies OK when the value was changed, the integer 0 when the key does not exist or holds
    another value.
    """
    held = keyspace.get(key, at.now_ms)
    if held == expected:
        keyspace.replace(key, value)
        return OK
    return 0 if held is None or isinstance(held, bytes) else WRONG_TYPE
