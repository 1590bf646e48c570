"""Strings that are numbers: what adds to them; an absent key counts from zero."""

from __future__ import annotations

from goblin_raft import errors
from goblin_raft.arguments import Argument, integer, key
from goblin_raft.keyspace import Instant, Keyspace
from goblin_raft.long_double import add, format_long_double, parse_long_double
from goblin_raft.readers import (
    INT64_MAX,
    INT64_MIN,
    parse_integer,
    read_decrement,
    read_long_double,
)
from goblin_raft.reply import Failure, Reply
from goblin_raft.spec import Family

family = Family("string")

WRONG_TYPE = errors.WRONG_TYPE.failure()
NOT_AN_INTEGER = errors.NOT_AN_INTEGER.failure()
NOT_A_FLOAT = errors.NOT_A_FLOAT.failure()
NOT_FINITE = errors.NOT_FINITE.failure()
OVERFLOW = errors.OVERFLOW.failure()


def read_counter(keyspace: Keyspace, at: Instant, key: bytes) -> int | Failure:
    """The integer that a key holds; 0 when it does not exist."""
    value = keyspace.get(key, at.now_ms)
    if value is None:
        return 0
    if not isinstance(value, bytes):
        return WRONG_TYPE
    number = parse_integer(value)
    return NOT_AN_INTEGER if number is None else number


def write_number(keyspace: Keyspace, at: Instant, key: bytes, text: bytes) -> None:
    """Store a number, and keep the time to live of a key that is there."""
    if keyspace.get(key, at.now_ms) is None:
        keyspace.put(key, text)
    else:
        keyspace.replace(key, text)


@family.write("INCRBY", key(), integer("increment"))
def incrby(keyspace: Keyspace, at: Instant, key: bytes, increment: int) -> Reply:
    """Add to an integer, and read it; its key keeps its time to live."""
    number = read_counter(keyspace, at, key)
    if isinstance(number, Failure):
        return number
    number += increment
    if not INT64_MIN <= number <= INT64_MAX:
        return OVERFLOW
    write_number(keyspace, at, key, b"%d" % number)
    return number


@family.write("DECRBY", key(), Argument("decrement", "integer", read_decrement))
def decrby(keyspace: Keyspace, at: Instant, key: bytes, decrement: int) -> Reply:
    """Take from an integer, and read it; its key keeps its time to live."""
    return incrby(keyspace, at, key, -decrement)


@family.write("INCR", key())
def incr(keyspace: Keyspace, at: Instant, key: bytes) -> Reply:
    """Add one to an integer, and read it; its key keeps its time to live."""
    return incrby(keyspace, at, key, 1)


@family.write("DECR", key())
def decr(keyspace: Keyspace, at: Instant, key: bytes) -> Reply:
    """Take one from an integer, and read it; its key keeps its time to live."""
    return incrby(keyspace, at, key, -1)


@family.write("INCRBYFLOAT", key(), Argument("increment", "double", read_long_double))
def incrbyfloat(keyspace: Keyspace, at: Instant, key: bytes, increment: bytes) -> Reply:
    """Add to a number with a fraction, and read it; its key keeps its time to live."""
    value = keyspace.get(key, at.now_ms)
    if not (value is None or isinstance(value, bytes)):
        return WRONG_TYPE
    number, added = parse_long_double(value or b"0"), parse_long_double(increment)
    if number is None or added is None or value == b"":
        return NOT_A_FLOAT
    total = add(number, added)
    if total is None:
        return NOT_FINITE
    text = format_long_double(total)
    write_number(keyspace, at, key, text)
    return text
