r"""Redis's patterns for keys, fields and channels: `*`, `?`, `[a-z]`, `[^a]` and `\`.

A pattern becomes a regular expression that never goes back behind a `*` once what follows it was
found, so it takes time in proportion to the text. What is matched is not known here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

STAR, QUESTION, OPEN, CLOSE, ESCAPE, NOT, DASH = b"*?[]\\^-"

Matcher = Callable[[bytes], bool]


@lru_cache(maxsize=64)
def matcher(pattern: bytes) -> Matcher:
    """Says whether a text matches as a whole."""
    if pattern.strip(b"*") == b"" and pattern:
        return lambda text: True
    pieces: list[bytes] = [b""]
    at = 0
    while at < len(pattern):
        sign = pattern[at]
        at += 1
        if sign == STAR:
            if pieces[-1] or len(pieces) == 1:
                pieces.append(b"")
        elif sign == QUESTION:
            pieces[-1] += b"."
        elif sign == OPEN:
            allowed, at = _class(pattern, at)
            pieces[-1] += _any_of(allowed)
        else:
            if sign == ESCAPE and at < len(pattern):
                sign = pattern[at]
                at += 1
            pieces[-1] += re.escape(bytes([sign]))
    # The first place where a piece fits is the best one: whatever follows has more room then.
    middle = b"".join(b"(?>.*?" + piece + b")" for piece in pieces[1:-1])
    last = b".*" + pieces[-1] if len(pieces) > 1 else b""
    fits = re.compile(pieces[0] + middle + last, re.DOTALL).fullmatch
    return lambda text: fits(text) is not None


def _class(pattern: bytes, at: int) -> tuple[set[int], int]:
    """The bytes that a class allows, from behind its bracket, and the place behind it.

    A class without an end ends with the pattern.
    """
    negated = pattern[at : at + 1] == b"^"
    at += negated
    found: set[int] = set()
    while at < len(pattern):
        sign = pattern[at]
        left = len(pattern) - at
        if sign == ESCAPE and left >= 2:
            found.add(pattern[at + 1])
            at += 2
        elif sign == CLOSE:
            at += 1
            break
        elif left >= 3 and pattern[at + 1] == DASH:
            low, high = sorted((sign, pattern[at + 2]))
            found.update(range(low, high + 1))
            at += 3
        else:
            found.add(sign)
            at += 1
    return (set(range(256)) - found if negated else found), at


def _any_of(allowed: set[int]) -> bytes:
    if not allowed:
        return b"(?!)"
    return b"[" + b"".join(b"\\x%02x" % each for each in sorted(allowed)) + b"]"
