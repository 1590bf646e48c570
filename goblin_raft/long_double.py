"""Numbers as C's `long double` has them on x86, in integers: the same on every machine.

INCRBYFLOAT adds such numbers in Redis, so clients see sums like 0.1 + 0.2 = 0.3. A number is read,
rounded to 64 significant bits, and written with 17 decimals. Keys and values are unknown here.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from fractions import Fraction
from typing import TypeAlias

# Infinities are floats; everything else is exact.
Number: TypeAlias = "Fraction | float"

SIGNIFICANT_BITS = 64
EXPONENT_MAX = 16_384  # all numbers are below 2 ** this
EXPONENT_MIN = -16_445  # the last bit of the smallest one
DECIMALS = 17
# Redis takes up to 5119; here it is what Python converts without being told to.
CHARS_MAX = 4_300
# Powers of ten beyond these are infinite or zero, whatever stands before them.
POWER_MAX, POWER_MIN = 4_940 + CHARS_MAX, -4_960 - CHARS_MAX

_DECIMAL = re.compile(rb"([+-]?)(\d*)\.?(\d*)(?:[eE]([+-]?\d+))?")
_HEXADECIMAL = re.compile(rb"([+-]?)0[xX]([\da-fA-F]*)\.?([\da-fA-F]*)(?:[pP]([+-]?\d+))?")
_INFINITE = re.compile(rb"([+-]?)inf(?:inity)?", re.IGNORECASE)


def parse_long_double(word: bytes) -> Number | None:
    """What strtold reads; None if it is no number, or none that can be held."""
    if len(word) > CHARS_MAX:
        return None
    if found := _INFINITE.fullmatch(word):
        return -math.inf if found[1] == b"-" else math.inf
    base, per_digit, power_base = 10, 1, 10
    found = _DECIMAL.fullmatch(word)
    if found is None:
        base, per_digit, power_base = 16, 4, 2
        found = _HEXADECIMAL.fullmatch(word)
    if found is None or not found[2] + found[3]:
        return None
    significand = int(found[2] + found[3], base)
    if significand == 0:
        return Fraction(0)
    power = int((found[4] or b"0")[:12]) - per_digit * len(found[3])
    if base == 10 and not POWER_MIN <= power <= POWER_MAX:
        return None
    if base == 16 and abs(power) > 4 * POWER_MAX:
        return None
    number = _rounded(significand * Fraction(power_base) ** power)
    if number == 0 or isinstance(number, float):
        return None  # strtold says ERANGE
    return -number if found[1] == b"-" else number


def add(one: Number, other: Number) -> Number | None:
    """The sum as the processor rounds it; None when it is infinite or no number."""
    if isinstance(one, float) or isinstance(other, float):
        return None
    total = _rounded(one + other)
    return None if isinstance(total, float) else total


def format_long_double(number: Number) -> bytes:
    """With as many decimals as it needs, at most 17, and no exponent."""
    assert isinstance(number, Fraction)
    units = round(abs(number) * 10**DECIMALS)
    whole, part = divmod(units, 10**DECIMALS)
    # By way of Decimal, because int would refuse to write more than 4300 digits.
    text = f"{Decimal(whole)}.{part:0{DECIMALS}d}".rstrip("0").rstrip(".")
    return f"-{text}".encode() if number < 0 and text != "0" else text.encode()


def _rounded(number: Fraction) -> Number:
    """To 64 significant bits, half to even; infinite when it is too large."""
    if number == 0:
        return number
    size = abs(number)
    exponent = size.numerator.bit_length() - size.denominator.bit_length() - SIGNIFICANT_BITS
    while size >= Fraction(2) ** (exponent + SIGNIFICANT_BITS):
        exponent += 1
    exponent = max(exponent, EXPONENT_MIN)
    unit = Fraction(2) ** exponent
    result = round(number / unit) * unit
    if abs(result) >= 2**EXPONENT_MAX:
        return math.inf if number > 0 else -math.inf
    return result
