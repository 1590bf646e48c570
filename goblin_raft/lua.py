"""Brings the text of a Lua script into one form, so that the same script in other words is equal.

Equal are scripts that differ in comments, blanks, quotes, semicolons, the case of command names,
the names of variables, names for KEYS[n] and ARGV[n], brackets around a condition, and in whether
a last `else` is there before what is returned anyway. Nothing is executed, and what a script does
is not known here.
"""

from __future__ import annotations

import hashlib
import re

TEXT_BYTES_MAX = 4096  # all that are known are far shorter

_TOKEN = re.compile(
    rb"""(?P<comment>--\[\[.*?\]\]|--[^\n]*)
    |(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<number>\d+(?:\.\d+)?)
    |(?P<sign>\.\.|==|~=|<=|>=|[-+*/%^\#<>=(){}\[\];:,.])
    |(?P<blank>\s+)""",
    re.VERBOSE | re.DOTALL,
)
_KEPT = frozenset(
    b"and break do else elseif end false for function if in local nil not or repeat return then "
    b"true until while ARGV KEYS call ipairs pairs pcall redis tonumber tostring error_reply "
    b"status_reply".split()
)


def digest(text: bytes) -> str | None:
    """SHA1 of the normal form; None for what is no script of ours for sure."""
    if len(text) > TEXT_BYTES_MAX:
        return None
    tokens = _tokens(text)
    if tokens is None:
        return None
    for step in (_replace_names_of_words, _drop_brackets, _move_last_else):
        tokens = step(tokens)
    return hashlib.sha1(b" ".join(_rename(tokens)), usedforsecurity=False).hexdigest()


def _tokens(text: bytes) -> list[bytes] | None:
    tokens: list[bytes] = []
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            return None
        at = found.end()
        token = found[0]
        if found.lastgroup == "text":
            token = b'"' + token[1:-1] + b'"'
            if tokens[-2:] in ([b"call", b"("], [b"pcall", b"("]):
                token = token.lower()
        if found.lastgroup not in ("comment", "blank") and token != b";":
            tokens.append(token)
    return tokens


def _replace_names_of_words(tokens: list[bytes]) -> list[bytes]:
    """`local key = KEYS[1]` at the beginning: write KEYS[1] wherever key stands."""
    names: dict[bytes, list[bytes]] = {}
    while (
        len(tokens) > 7
        and tokens[0] == b"local"
        and tokens[2] == b"="
        and tokens[3] in (b"KEYS", b"ARGV")
        and (tokens[4], tokens[6]) == (b"[", b"]")
        and tokens[7] not in (b".", b"..", b"[", b"or", b"and", b"+", b"-", b"*", b"/", b"==")
    ):
        names[tokens[1]] = tokens[3:7]
        tokens = tokens[7:]
    for at, token in enumerate(tokens[:-1]):
        assigned = tokens[at + 1] == b"=" or tokens[at - 1] in (b"local", b"for")
        if token in names and assigned:
            return [b"?"]  # it gets another value later: not one of ours
    return [word for token in tokens for word in names.get(token, [token])]


def _drop_brackets(tokens: list[bytes]) -> list[bytes]:
    """`if (condition) then`."""
    kept: list[bytes] = []
    at = 0
    while at < len(tokens):
        if tokens[at] in (b"if", b"elseif") and tokens[at + 1 : at + 2] == [b"("]:
            close = _closing(tokens, at + 1)
            if tokens[close + 1 : close + 2] == [b"then"]:
                kept.append(tokens[at])
                tokens = tokens[: at + 1] + tokens[at + 2 : close] + tokens[close + 1 :]
                at += 1
                continue
        kept.append(tokens[at])
        at += 1
    return kept


def _closing(tokens: list[bytes], start: int) -> int:
    depth = 0
    for at in range(start, len(tokens)):
        depth += (tokens[at] == b"(") - (tokens[at] == b")")
        if not depth:
            return at
    return len(tokens)


def _move_last_else(tokens: list[bytes]) -> list[bytes]:
    """`else return x end` at the end of the whole: `end return x`, when nothing else is in it."""
    if tokens[-1:] == [b"end"] and b"else" in tokens:
        last = len(tokens) - 1 - tokens[::-1].index(b"else")
        inside = tokens[last + 1 : -1]
        if inside[:1] == [b"return"] and not {b"end", b"if", b"for"} & set(inside):
            return [*tokens[:last], b"end", *inside]
    return tokens


def _rename(tokens: list[bytes]) -> list[bytes]:
    """Variables by the order in which they come up."""
    names: dict[bytes, bytes] = {}
    renamed = []
    for token in tokens:
        if (token[:1].isalpha() or token[:1] == b"_") and token not in _KEPT:
            token = names.setdefault(token, b"v%d" % len(names))
        renamed.append(token)
    return renamed
