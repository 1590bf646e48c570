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
from goblin_raft.long_double import parse_long_double

# Reads one word of the command of that name. Raises StoreError.
Reader = Callable[[bytes, Limits, str], Any]

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
INT64_CHARS_MAX = 20
INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1
UINT64_MAX = 2**64 - 1
CURSOR_CHARS_MAX = 100
# A client may ask for the same few names again and again; this many make a large enough reply.
SAMPLES_MAX = 100_000
ZERO = ord("0")
# Longest time from now. The rest of the 64 bits is room for the clock, up to the year 2248, so
# that a deadline always fits; Redis leaves exactly as much as its clock shows.
EXPIRE_MS_MAX = INT64_MAX - 2**43

DECIMAL = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
HEXADECIMAL = re.compile(rb"[+-]?0[xX]([\da-fA-F]+\.?[\da-fA-F]*|\.[\da-fA-F]+)([pP][+-]?\d+)?")
CURSOR = re.compile(rb"[+-]?\d+|")
DIGEST = re.compile(rb"[\da-fA-F]{16}")
C_BLANKS = b" \t\n\v\f\r"
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
    number = parse_integer(word)
    if number is None:
        raise errors.NOT_AN_INTEGER.refusal()
    return number


def read_seconds(word: bytes, limits: Limits, name: str) -> int:
    """A length of time above zero; the log has it in milliseconds."""
    # What read_integer and _positive_ms do, for the sake of each claim's speed.
    number = parse_integer(word)
    if number is None:
        raise errors.NOT_AN_INTEGER.refusal()
    ms = number * 1000
    if 0 < ms <= EXPIRE_MS_MAX:
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


def read_signed_unix_seconds(word: bytes, limits: Limits, name: str) -> int:
    """A time of day that may be past; the log has it in milliseconds."""
    ms = read_integer(word, limits, name) * 1000
    if not INT64_MIN <= ms <= INT64_MAX:
        raise StoreError(errors.invalid_expire_time(name))
    return ms


def read_score(word: bytes, limits: Limits, name: str) -> float:
    """A double, finite or infinite, written as C would read it."""
    score = parse_double(word)
    if score is None:
        raise errors.NOT_A_FLOAT.refusal()
    return score


def read_weight(word: bytes, limits: Limits, name: str) -> float:
    """A factor of scores."""
    weight = parse_double(word)
    if weight is None:
        raise errors.WEIGHT_NOT_A_FLOAT.refusal()
    return weight


def read_aggregate(word: bytes, limits: Limits, name: str) -> str:
    """How several scores of one member become one."""
    aggregate = word.upper().decode("latin-1")
    if aggregate not in ("SUM", "MIN", "MAX"):
        raise errors.SYNTAX_ERROR.refusal()
    return aggregate


def read_limit(word: bytes, limits: Limits, name: str) -> int:
    """How many are enough; 0 for all."""
    limit = parse_integer(word)
    if limit is None or limit < 0:
        raise errors.LIMIT_NEGATIVE.refusal()
    return limit


def read_long_double(word: bytes, limits: Limits, name: str) -> bytes:
    """A number with a fraction, checked, and in the log as it came: see long_double.py."""
    if parse_long_double(word) is None:
        raise errors.NOT_A_FLOAT.refusal()
    return word


def read_finite_long_double(word: bytes, limits: Limits, name: str) -> bytes:
    """The same, and not infinite."""
    if isinstance(parse_long_double(read_long_double(word, limits, name)), float):
        raise errors.VALUE_NOT_FINITE.refusal()
    return word


def read_digest(word: bytes, limits: Limits, name: str) -> bytes:
    """What DIGEST has told: 16 hexadecimal digits."""
    if not DIGEST.fullmatch(word):
        raise errors.NOT_A_DIGEST.refusal()
    return word.lower()


def read_score_bound(word: bytes, limits: Limits, name: str) -> list[Any]:
    """An end of a range of scores: the number, and whether it is left out itself."""
    text = word.removeprefix(b"(").lstrip(C_BLANKS)
    bound = 0.0 if text == b"" and word[-1:] in (b"", b"(") else parse_double(text, clamp=True)
    if bound is None:
        raise errors.NOT_A_RANGE.refusal()
    return [bound, word[:1] == b"("]


def read_name_bound(word: bytes, limits: Limits, name: str) -> bytes:
    """An end of a range of names: `[` or `(` and a name, or `-` or `+` alone."""
    if word[:1] in (b"[", b"(") or word in (b"-", b"+"):
        return read_string(word, limits, name)
    raise errors.NOT_A_NAME_RANGE.refusal()


def read_offset(word: bytes, limits: Limits, name: str) -> int:
    """A place in a string."""
    offset = read_integer(word, limits, name)
    if offset < 0:
        raise errors.OFFSET_OUT_OF_RANGE.refusal()
    return offset


def read_decrement(word: bytes, limits: Limits, name: str) -> int:
    """What is taken off: its negative is a 64-bit integer too."""
    decrement = read_integer(word, limits, name)
    if decrement == INT64_MIN:
        raise errors.DECREMENT_OVERFLOW.refusal()
    return decrement


def read_pop_count(word: bytes, limits: Limits, name: str) -> int:
    """How many to take, from none on."""
    count = parse_integer(word)
    if count is None or count < 0:
        raise errors.NOT_POSITIVE.refusal()
    return count


def read_sample_count(word: bytes, limits: Limits, name: str) -> int:
    """How many to pick; of a negative number the same one may be picked again."""
    count = read_integer(word, limits, name)
    if count < -SAMPLES_MAX:
        raise errors.VALUE_OUT_OF_RANGE.refusal()
    return count


def read_cursor(word: bytes, limits: Limits, name: str) -> int:
    """Where a scan goes on, as C's strtoul reads it."""
    if CURSOR.fullmatch(word) and len(word) <= CURSOR_CHARS_MAX:
        cursor = int(word or b"0")
        if abs(cursor) <= UINT64_MAX:
            return cursor % (UINT64_MAX + 1)
    raise errors.INVALID_CURSOR.refusal()


def read_page_size(word: bytes, limits: Limits, name: str) -> int:
    """About how many to look at in one step of a scan."""
    count = read_integer(word, limits, name)
    if count < 1:
        raise errors.SYNTAX_ERROR.refusal()
    return count


def read_database(word: bytes, limits: Limits, name: str) -> int:
    """The number of a database."""
    number = read_integer(word, limits, name)
    if not INT32_MIN <= number <= INT32_MAX:
        raise errors.NOT_AN_INTEGER.refusal()
    if not 0 <= number < limits.databases:
        raise errors.DB_OUT_OF_RANGE.refusal()
    return number


# ---- what a word, or a stored value, says; None when it does not say it --------------------------


def parse_integer(word: bytes) -> int | None:
    """A 64-bit integer in the one way to write it."""
    digits = word[1:] if word[:1] == b"-" else word
    # int() is generous (signs, blanks, zeros, underscores); Redis is not.
    if digits.isdigit() and len(digits) < INT64_CHARS_MAX and (digits[0] != ZERO or word == b"0"):
        number = int(word)
        if INT64_MIN <= number <= INT64_MAX:
            return number
    return None


def parse_double(word: bytes, *, clamp: bool = False) -> float | None:
    """A double as C's strtod reads it. What is too large is infinite with `clamp`, else nothing."""
    if DECIMAL.fullmatch(word):
        score = float(word)
        # Too large or too small for a double is an error, not infinity or zero.
        significand = re.split(rb"[eE]", word)[0]
        lost = score == 0 and significand.strip(b"+-0.") != b""
        if clamp or not (lost or math.isinf(score)):
            return score + 0.0  # there is one zero
    elif INFINITE.fullmatch(word):
        return float(word)
    elif HEXADECIMAL.fullmatch(word):
        try:
            return float.fromhex(word.decode()) + 0.0
        except OverflowError:
            if clamp:
                return -math.inf if word[:1] == b"-" else math.inf
    return None


def _positive_ms(ms: int, most: int, name: str) -> int:
    if not 0 < ms <= most:
        raise StoreError(errors.invalid_expire_time(name))
    return ms


def _signed_ms(ms: int, name: str) -> int:
    if not INT64_MIN <= ms <= EXPIRE_MS_MAX:
        raise StoreError(errors.invalid_expire_time(name))
    return ms
