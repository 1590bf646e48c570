"""How one word of a request is read: into what lies in the log. No command is named here.

What is read is an integer, bytes or a float; what cannot be read is refused with Redis's text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from goblin_raft import errors
from goblin_raft.errors import StoreError
from goblin_raft.limits import Limits

# Reads one word of the command of that name. Raises StoreError.
Reader = Callable[[bytes, Limits, str], Any]

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
INT64_CHARS_MAX = 20
ZERO = ord("0")
# Longest time from now. The rest of the 64 bits is room for the clock, up to the year 2248, so
# that a deadline always fits; Redis leaves exactly as much as its clock shows.
EXPIRE_MS_MAX = INT64_MAX - 2**43

DECIMAL = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
HEXADECIMAL = re.compile(rb"[+-]?0[xX]([\da-fA-F]+\.?[\da-fA-F]*|\.[\da-fA-F]+)([pP][+-]?\d+)?")
INFINITE = re.compile(rb"[+-]?inf(inity)?", re.IGNORECASE)


def read_key(word: bytes, limits: Limits, name: str) -> bytes:
    """A key: any bytes, not too many."""
    if len(word) > limits.key_bytes_max:
        raise errors.KEY_TOO_LONG.refusal(limit=limits.key_bytes_max)
    return word


def read_string(word: bytes, limits: Limits, name: str) -> bytes:
    """A value, token, field or member: any bytes, not too many."""
    if len(word) > limits.value_bytes_max:
        raise errors.VALUE_TOO_LONG.refusal(limit=limits.value_bytes_max)
    return word


def read_integer(word: bytes, limits: Limits, name: str) -> int:
    """A 64-bit integer in the one way to write it."""
    digits = word[1:] if word[:1] == b"-" else word
    # int() is generous (signs, blanks, zeros, underscores); Redis is not.
    if digits.isdigit() and len(digits) < INT64_CHARS_MAX and (digits[0] != ZERO or word == b"0"):
        number = int(word)
        if INT64_MIN <= number <= INT64_MAX:
            return number
    raise errors.NOT_AN_INTEGER.refusal()


def read_seconds(word: bytes, limits: Limits, name: str) -> int:
    """A length of time above zero; the log has it in milliseconds."""
    ms = read_integer(word, limits, name) * 1000
    if 0 < ms <= EXPIRE_MS_MAX:  # what _positive_ms does, for the sake of each claim's speed
        return ms
    raise StoreError(errors.invalid_expire_time(name))


def read_milliseconds(word: bytes, limits: Limits, name: str) -> int:
    """A length of time above zero."""
    return _positive_ms(read_integer(word, limits, name), EXPIRE_MS_MAX, name)


def read_unix_seconds(word: bytes, limits: Limits, name: str) -> int:
    """A time of day; the log has it in milliseconds, and still as a time of day."""
    return _positive_ms(read_integer(word, limits, name) * 1000, INT64_MAX, name)


def read_unix_milliseconds(word: bytes, limits: Limits, name: str) -> int:
    """A time of day."""
    return _positive_ms(read_integer(word, limits, name), INT64_MAX, name)


def read_signed_seconds(word: bytes, limits: Limits, name: str) -> int:
    """A length of time that may be over already; the log has it in milliseconds."""
    return _signed_ms(read_integer(word, limits, name) * 1000, name)


def read_signed_milliseconds(word: bytes, limits: Limits, name: str) -> int:
    """A length of time that may be over already."""
    return _signed_ms(read_integer(word, limits, name), name)


def read_score(word: bytes, limits: Limits, name: str) -> float:
    """A double, finite or infinite, written as C would read it."""
    if DECIMAL.fullmatch(word):
        score = float(word)
        # Too large or too small for a double is an error, not infinity or zero.
        significand = re.split(rb"[eE]", word)[0]
        lost = score == 0 and significand.strip(b"+-0.") != b""
        if not lost and not math.isinf(score):
            return score + 0.0  # there is one zero
    elif INFINITE.fullmatch(word):
        return float(word)
    elif HEXADECIMAL.fullmatch(word):
        try:
            return float.fromhex(word.decode()) + 0.0
        except OverflowError:
            pass
    raise errors.NOT_A_FLOAT.refusal()


def _positive_ms(ms: int, most: int, name: str) -> int:
    if not 0 < ms <= most:
        raise StoreError(errors.invalid_expire_time(name))
    return ms


def _signed_ms(ms: int, name: str) -> int:
    if not INT64_MIN <= ms <= EXPIRE_MS_MAX:
        raise StoreError(errors.invalid_expire_time(name))
    return ms
