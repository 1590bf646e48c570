"""OBJECT and MEMORY: how a key's value would be kept in Redis, and about how much room it takes."""

from __future__ import annotations

import sys
from itertools import islice

from goblin_raft import errors
from goblin_raft.arguments import Argument, key, options, repeated, string, valued
from goblin_raft.keyspace import Instant, Keyspace
from goblin_raft.node_view import NodeView
from goblin_raft.readers import parse_integer, read_offset
from goblin_raft.reply import Reply, Status
from goblin_raft.spec import Family
from goblin_raft.values import Hash, Value

family = Family("generic")

FREQUENCY_NOT_TRACKED = errors.FREQUENCY_NOT_TRACKED.failure()
IDLE_TIME_NOT_TRACKED = errors.IDLE_TIME_NOT_TRACKED.failure()

# Redis 7.0's defaults: what is larger has the second of its type's two forms.
EMBEDDED_BYTES_MAX = 44
COMPACT_NAMES_MAX = 128
COMPACT_BYTES_MAX = 64

# Beside what Python says that bytes and dicts take: a place in the dict of keys, one in the index.
KEY_BYTES = 150
DEADLINE_BYTES = 200
NAME_BYTES = 50
# How many names of a hash or sorted set are looked at for its size, unless SAMPLES says otherwise.
SAMPLES = 5


@family.node("OBJECT", repeated(string("argument")))
def object_(node: NodeView, words: list[bytes]) -> Reply:
    """Tell how a key's value is kept."""
    return errors.SYNTAX_ERROR.failure()  # dispatch looks for the second word first


@family.read("OBJECT ENCODING", key())
def object_encoding(keyspace: Keyspace, at: Instant, key: bytes) -> Reply:
    """Tell in which form Redis would keep what a key holds; nil when it does not exist."""
    value = keyspace.get(key, at.now_ms)
    return None if value is None else _encoding(value)


def _encoding(value: Value) -> bytes:
    if isinstance(value, bytes):
        if parse_integer(value) is not None:
            return b"int"
        return b"embstr" if len(value) <= EMBEDDED_BYTES_MAX else b"raw"
    compact = len(value) <= COMPACT_NAMES_MAX and all(
        len(name) <= COMPACT_BYTES_MAX
        and (not isinstance(held, bytes) or len(held) <= COMPACT_BYTES_MAX)
        for name, held in value.items()
    )
    if compact:
        return b"listpack"
    return b"hashtable" if isinstance(value, Hash) else b"skiplist"


@family.read("OBJECT REFCOUNT", key())
def object_refcount(keyspace: Keyspace, at: Instant, key: bytes) -> Reply:
    """Tell how many hold a value: 1; nil when the key does not exist."""
    return None if keyspace.get(key, at.now_ms) is None else 1


@family.read("OBJECT FREQ", key())
def object_freq(keyspace: Keyspace, at: Instant, key: bytes) -> Reply:
    """Refuse: nobody counts how often a key is used, because nothing is ever evicted."""
    return None if keyspace.get(key, at.now_ms) is None else FREQUENCY_NOT_TRACKED


@family.read("OBJECT IDLETIME", key())
def object_idletime(keyspace: Keyspace, at: Instant, key: bytes) -> Reply:
    """Refuse: nobody notes when a key was used, because nothing is ever evicted."""
    return None if keyspace.get(key, at.now_ms) is None else IDLE_TIME_NOT_TRACKED


@family.node("OBJECT HELP")
def object_help(node: NodeView) -> Reply:
    """List the subcommands."""
    lines = [b"OBJECT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"]
    for name, what in (
        (b"ENCODING", b"Return the form in which Redis would keep the value."),
        (b"FREQ", b"Refused: not tracked."),
        (b"IDLETIME", b"Refused: not tracked."),
        (b"REFCOUNT", b"Return 1."),
    ):
        lines += [name + b" <key>", b"    " + what]
    return [Status(line) for line in [*lines, b"HELP", b"    Print this help."]]


@family.node("MEMORY", repeated(string("argument")))
def memory(node: NodeView, words: list[bytes]) -> Reply:
    """Tell about memory."""
    return errors.SYNTAX_ERROR.failure()  # dispatch looks for the second word first


@family.read(
    "MEMORY USAGE",
    key(),
    options(valued("SAMPLES", Argument("count", "integer", read_offset))),
)
def memory_usage(keyspace: Keyspace, at: Instant, key: bytes, samples: list[int] | None) -> Reply:
    """Tell about how many bytes of memory a key and its value take; nil when it does not exist.

    SAMPLES says how many names of a hash or sorted set are looked at, 0 for all of them.
    """
    value = keyspace.get(key, at.now_ms)
    if value is None:
        return None
    total = sys.getsizeof(key) + KEY_BYTES + DEADLINE_BYTES * (key in keyspace.deadlines)
    total += sys.getsizeof(value)
    if isinstance(value, bytes):
        return total
    looked_at = (samples[0] if samples else SAMPLES) or len(value)
    sizes = [
        NAME_BYTES + sys.getsizeof(name) + sys.getsizeof(held)
        for name, held in islice(value.items(), looked_at)
    ]
    return total + sum(sizes) * len(value) // max(1, len(sizes))
