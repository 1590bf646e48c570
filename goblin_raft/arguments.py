"""The kinds of argument that a declaration is made of: how each is read, and how it is described.

What is read here lies in the log as it is: integers, bytes, strings, booleans, None and lists of
these. No command is named here, and nothing is known of keys beyond their length.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from goblin_raft import errors
from goblin_raft.errors import StoreError
from goblin_raft.limits import Limits
from goblin_raft.reply import Failure, Map, Reply, Status

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


# ---- readers ------------------------------------------------------------------------------------


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


# ---- parts of a declaration ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Argument:
    """One word that must be there. `kind` is COMMAND DOCS's name for what it is."""

    name: str
    kind: str
    read: Reader

    @property
    def argument(self) -> Argument:
        """What Argument and Optional have in common."""
        return self

    @property
    def is_key(self) -> bool:
        """Whether it names a key."""
        return self.kind == "key"

    @property
    def usage(self) -> str:
        """As in a usage line."""
        return self.name

    def docs(self, *flags: bytes, token: str = "") -> list[Reply]:
        """Its element, alone in a list, for COMMAND DOCS."""
        items: dict[bytes, Reply] = {b"name": self.name.encode(), b"type": self.kind.encode()}
        if self.is_key:
            items[b"key_spec_index"] = 0
        if token:
            items[b"token"] = token.encode()
        if flags:
            items[b"flags"] = [Status(flag) for flag in flags]
        return [Map(items)]


@dataclass(frozen=True, slots=True)
class Optional:
    """One word that may be missing, after those that may not; then it is None."""

    argument: Argument

    @property
    def usage(self) -> str:
        """As in a usage line."""
        return f"[{self.argument.usage}]"

    def docs(self) -> list[Reply]:
        """As Argument's."""
        return self.argument.docs(b"optional")


@dataclass(frozen=True, slots=True)
class Repeated:
    """Words, or groups of words, to the end of the request: one flat list."""

    members: tuple[Argument, ...]
    least: int = 1
    # What to say when the last group is not whole; None for the arity error.
    uneven: Failure | None = None

    width = 1

    @property
    def words_min(self) -> int:
        """Fewest words that are enough."""
        return self.least * len(self.members)

    def look(self, argv: list[bytes], start: int, full_name: str) -> None:
        """Check the form before anything is read."""
        if (len(argv) - start) % len(self.members):
            raise StoreError(self.uneven or errors.wrong_number_of_arguments(full_name))

    def read(self, argv: list[bytes], start: int, limits: Limits, name: str) -> list[Any]:
        """The words from `start` on, decoded."""
        readers = [member.read for member in self.members]
        count = len(readers)
        words = argv[start:]
        return [[readers[i % count](word, limits, name) for i, word in enumerate(words)]]

    @property
    def usage(self) -> str:
        """As in a usage line."""
        once = " ".join(member.usage for member in self.members)
        return f"{once} [{once} ...]" if self.least else f"[{once} [{once} ...]]"

    def docs(self) -> list[Reply]:
        """As Argument's."""
        flags = [b"multiple"] if self.least else [b"optional", b"multiple"]
        if len(self.members) == 1:
            return self.members[0].docs(*flags)
        return [_group_docs("data", "block", [m.docs()[0] for m in self.members], *flags)]


@dataclass(frozen=True, slots=True)
class Option:
    """A word by itself, or, with an argument, a word and its value."""

    token: str
    argument: Argument | None = None

    @property
    def usage(self) -> str:
        """As in a usage line."""
        return f"{self.token} {self.argument.usage}" if self.argument else self.token

    def docs(self, *flags: bytes) -> list[Reply]:
        """As Argument's."""
        argument = self.argument or Argument(self.token.lower(), "pure-token", read_string)
        return argument.docs(*flags, token=self.token)


@dataclass(frozen=True, slots=True)
class Choice:
    """At most one of some options: None, its token, or [token, value]."""

    name: str
    members: tuple[Option, ...]

    @property
    def usage(self) -> str:
        """As in a usage line."""
        return " | ".join(member.usage for member in self.members)

    def docs(self, *flags: bytes) -> list[Reply]:
        """As Argument's."""
        members = [member.docs()[0] for member in self.members]
        return [_group_docs(self.name, "oneof", members, *flags)]


@dataclass(frozen=True, slots=True)
class Options:
    """Options in any order, to the end of the request: one argument for each member.

    A plain option is True or False; for a choice see there. As in Redis, an option may be
    repeated, and the last one counts.
    """

    members: tuple[Option | Choice, ...]
    # What to say to a word that is no option; None for a syntax error.
    unknown: Callable[[bytes], Failure] | None = None
    # Looks at what was chosen, member by member, before anything else of the request is read.
    check: Callable[[list[Any]], None] | None = None

    words_min = 0

    @property
    def width(self) -> int:
        """How many arguments the handler gets from here."""
        return len(self.members)

    def look(self, argv: list[bytes], start: int, full_name: str) -> None:
        """Check the form before anything is read."""
        if len(argv) > start:
            chosen = self._chosen(argv, start)
            if self.check is not None:
                self.check([each is not None for each in chosen])

    def read(self, argv: list[bytes], start: int, limits: Limits, name: str) -> list[Any]:
        """The words from `start` on, decoded."""
        if len(argv) == start:
            return [None if isinstance(member, Choice) else False for member in self.members]
        values: list[Any] = []
        for member, found in zip(self.members, self._chosen(argv, start), strict=True):
            if isinstance(member, Option):
                values.append(found is not None)
            elif found is None:
                values.append(None)
            else:
                option, word = found
                values.append(
                    [option.token, option.argument.read(word, limits, name)]
                    if option.argument
                    else option.token
                )
        return values

    def _chosen(self, argv: list[bytes], start: int) -> list[tuple[Option, bytes] | None]:
        chosen: list[tuple[Option, bytes] | None] = [None] * len(self.members)
        at = start
        while at < len(argv):
            index, option = self._find(argv[at])
            at += 1
            word = b""
            if option.argument is not None:
                if at == len(argv):
                    raise errors.SYNTAX_ERROR.refusal()
                word = argv[at]
                at += 1
            before = chosen[index]
            if before is not None and before[0] is not option:
                raise errors.SYNTAX_ERROR.refusal()
            chosen[index] = (option, word)
        return chosen

    def _find(self, word: bytes) -> tuple[int, Option]:
        token = word.upper().decode("latin-1")
        for index, member in enumerate(self.members):
            for option in member.members if isinstance(member, Choice) else (member,):
                if option.token == token:
                    return index, option
        if self.unknown is not None:
            raise StoreError(self.unknown(word))
        raise errors.SYNTAX_ERROR.refusal()

    @property
    def usage(self) -> str:
        """As in a usage line."""
        return " ".join(f"[{member.usage}]" for member in self.members)

    def docs(self) -> list[Reply]:
        """As Argument's."""
        return [doc for member in self.members for doc in member.docs(b"optional")]


Part: TypeAlias = "Argument | Optional | Repeated | Options"


def _group_docs(name: str, kind: str, members: list[Reply], *flags: bytes) -> Map:
    marks: list[Reply] = [Status(flag) for flag in flags]
    return Map(
        {b"name": name.encode(), b"type": kind.encode(), b"flags": marks, b"arguments": members}
    )


# ---- the words of a declaration -----------------------------------------------------------------


def key(name: str = "key") -> Argument:
    """A key."""
    return Argument(name, "key", read_key)


def string(name: str) -> Argument:
    """Any bytes."""
    return Argument(name, "string", read_string)


def integer(name: str) -> Argument:
    """A 64-bit integer."""
    return Argument(name, "integer", read_integer)


def score(name: str = "score") -> Argument:
    """A double."""
    return Argument(name, "double", read_score)


def seconds(name: str = "seconds") -> Argument:
    """A length of time above zero, in seconds."""
    return Argument(name, "integer", read_seconds)


def milliseconds(name: str = "milliseconds") -> Argument:
    """A length of time above zero, in milliseconds."""
    return Argument(name, "integer", read_milliseconds)


def optional(argument: Argument) -> Optional:
    """A word that may be missing."""
    return Optional(argument)


def repeated(*members: Argument, least: int = 1, uneven: Failure | None = None) -> Repeated:
    """Words to the end of the request."""
    return Repeated(members, least, uneven)


def options(
    *members: Option | Choice,
    unknown: Callable[[bytes], Failure] | None = None,
    check: Callable[[list[Any]], None] | None = None,
) -> Options:
    """Options in any order, to the end of the request."""
    return Options(members, unknown, check)


def flag(token: str) -> Option:
    """An option without a value."""
    return Option(token)


def valued(token: str, argument: Argument) -> Option:
    """An option with a value."""
    return Option(token, argument)


def one_of(name: str, *members: Option) -> Choice:
    """Options that exclude each other."""
    return Choice(name, members)
