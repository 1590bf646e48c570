"""Going through all keys, or all names of a hash or sorted set, a page at a time; and at random.

Cursors are explained in key_index.py. What is picked at random is only ever a reply: nothing here
writes.
"""

from __future__ import annotations

import random

from goblin_raft import errors
from goblin_raft.arguments import Argument, flag, key, options, string, valued
from goblin_raft.glob import matcher
from goblin_raft.key_index import HASHES
from goblin_raft.keyspace import Instant, Keyspace
from goblin_raft.readers import read_cursor, read_page_size
from goblin_raft.reply import Reply
from goblin_raft.spec import Family
from goblin_raft.values import TYPE_NAMES, Hash, SortedSet, format_score

family = Family("generic")

WRONG_TYPE = errors.WRONG_TYPE.failure()
PAGE_SIZE = 10  # Redis's
# RANDOMKEY looks so often for a key that is not over; there are few that are and not yet removed.
TRIES = 100

CURSOR = Argument("cursor", "integer", read_cursor)
MATCH = valued("MATCH", Argument("pattern", "pattern", string("pattern").read))
COUNT = valued("COUNT", Argument("count", "integer", read_page_size))

# So many names are looked up one by one rather than out of a list of all.
FEW = 50

dice = random.Random()

Given = list[bytes] | None


def matching(names: list[bytes], pattern: Given) -> list[bytes]:
    """Those that match, if there is a pattern."""
    if pattern is None:
        return names
    return list(filter(matcher(pattern[0]), names))


@family.read("KEYS", Argument("pattern", "pattern", string("pattern").read))
def keys(keyspace: Keyspace, at: Instant, pattern: bytes) -> Reply:
    """List all keys that match a pattern.

    Nothing else runs on this node meanwhile: with many keys, use SCAN.
    """
    names = matching(list(keyspace.values), [pattern])
    return [name for name in names if keyspace.get(name, at.now_ms) is not None]


@family.read("RANDOMKEY")
def randomkey(keyspace: Keyspace, at: Instant) -> Reply:
    """Tell one key, any; nil when there is none."""
    if not keyspace.values:
        return None
    for _ in range(TRIES):
        name = keyspace.index.near(dice.randrange(HASHES))
        if keyspace.get(name, at.now_ms) is not None:
            return name
    alive = (name for name in keyspace.values if keyspace.get(name, at.now_ms) is not None)
    return next(alive, None)


@family.read("SCAN", CURSOR, options(MATCH, COUNT, valued("TYPE", string("type"))))
def scan(
    keyspace: Keyspace,
    at: Instant,
    cursor: int,
    pattern: Given,
    count: list[int] | None,
    kind: Given,
) -> Reply:
    """List the keys of this database, a page at a time.

    Begin with cursor 0 and go on with the one that the reply begins with, on any node, until it is
    0 again. A key that exists all the time is told exactly once, others at most once. COUNT is
    about how many are looked at for one page; MATCH and TYPE then choose among them.
    """
    cursor, names = keyspace.index.page(cursor, count[0] if count else PAGE_SIZE)
    found: list[Reply] = []
    for name in matching(names, pattern):
        value = keyspace.get(name, at.now_ms)
        if value is not None and (kind is None or TYPE_NAMES[type(value)] == kind[0].lower()):
            found.append(name)
    return [b"%d" % cursor, found]


@family.read("HSCAN", key(), CURSOR, options(MATCH, COUNT, flag("NOVALUES")))
def hscan(
    keyspace: Keyspace,
    at: Instant,
    key: bytes,
    cursor: int,
    pattern: Given,
    count: list[int] | None,
    novalues: bool,
) -> Reply:
    """List the fields of a hash and their values, a page at a time, as SCAN does with keys.

    A small hash is one page. With NOVALUES only the fields are listed.
    """
    fields = keyspace.get(key, at.now_ms)
    if fields is None:
        return [b"0", []]
    if not isinstance(fields, Hash):
        return WRONG_TYPE
    cursor, names = fields.page(cursor, count[0] if count else PAGE_SIZE)
    found: list[Reply] = []
    for name in matching(names, pattern):
        found.append(name)
        if not novalues:
            found.append(fields[name])
    return [b"%d" % cursor, found]


@family.read("ZSCAN", key(), CURSOR, options(MATCH, COUNT))
def zscan(
    keyspace: Keyspace,
    at: Instant,
    key: bytes,
    cursor: int,
    pattern: Given,
    count: list[int] | None,
) -> Reply:
    """List the members of a sorted set and their scores, a page at a time, as SCAN does with keys.

    A small set is one page.
    """
    members = keyspace.get(key, at.now_ms)
    if members is None:
        return [b"0", []]
    if not isinstance(members, SortedSet):
        return WRONG_TYPE
    cursor, names = members.page(cursor, count[0] if count else PAGE_SIZE)
    found: list[Reply] = []
    for name in matching(names, pattern):
        found += (name, format_score(members[name]))
    return [b"%d" % cursor, found]


def sample(values: Hash | SortedSet, count: int) -> list[bytes]:
    """So many names at random, each at most once; of a negative count any as often as it comes."""
    if -FEW <= count < 0:
        return [values.near(dice.randrange(HASHES)) for _ in range(-count)]
    names = list(values)
    if count < 0:
        return dice.choices(names, k=-count)
    return names if count >= len(names) else dice.sample(names, count)
