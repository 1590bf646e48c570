"""The kinds of value that a key can hold, and their one canonical encoding; keys are unknown here.

A string is plain `bytes`. Hashes and sorted sets are dicts with a name of their own, so that a
type check is an identity test.
"""

from __future__ import annotations

from typing import TypeAlias


class Hash(dict[bytes, bytes]):
    """Fields and their values."""

    __slots__ = ()


class SortedSet(dict[bytes, float]):
    """Members and their scores. Nothing here needs them in order of score yet."""

    __slots__ = ()


Value: TypeAlias = "bytes | Hash | SortedSet"
Encoded: TypeAlias = "bytes | list[bytes | float]"

# What TYPE calls each kind, and its number in snapshots, which never changes its meaning.
TYPE_NAMES: dict[type, bytes] = {bytes: b"string", Hash: b"hash", SortedSet: b"zset"}
STRING, HASH, SORTED_SET = 0, 1, 2


def encode_value(value: Value) -> tuple[int, Encoded]:
    """Kind and content, equal for equal values: a dict's own order depends on its history."""
    if isinstance(value, bytes):
        return STRING, value
    flat: list[bytes | float] = []
    for name in sorted(value):
        flat += (name, value[name])
    return (HASH if isinstance(value, Hash) else SORTED_SET), flat


def decode_value(kind: int, content: Encoded) -> Value:
    """The inverse. Raises ValueError for a kind that this version does not know."""
    if kind == STRING and isinstance(content, bytes):
        return content
    if kind == HASH:
        return Hash(zip(content[::2], content[1::2], strict=True))  # type: ignore[arg-type]
    if kind == SORTED_SET:
        return SortedSet(zip(content[::2], content[1::2], strict=True))  # type: ignore[arg-type]
    msg = f"no value has kind {kind}"
    raise ValueError(msg)


def format_score(score: float) -> bytes:
    """A score as Redis 7.0 writes it: as few signs as possible, 17 digits when it needs them."""
    return b"%.17g" % score
