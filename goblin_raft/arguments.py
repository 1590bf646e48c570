"""The kinds of argument that a declaration is made of: where each stands, and how it is described.

What is read here lies in the log as it is: integers, bytes, strings, booleans, None and lists of
these. No command is named here, and nothing is known of keys beyond their length.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from goblin_raft import errors
from goblin_raft.errors import StoreError
from goblin_raft.limits import Limits
from goblin_raft.readers import (
    Reader,
    read_integer,
    read_key,
    read_milliseconds,
    read_score,
    read_seconds,
    read_string,
)
from goblin_raft.reply import Failure, Map, Reply, Status

# As many words as a request may have: a tail that can be of any length.
WORDS_MAX = 1 << 20

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
    words_max = WORDS_MAX

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
        return [group_docs("data", "block", [m.docs()[0] for m in self.members], *flags)]


@dataclass(frozen=True, slots=True)
class Option:
    """A word by itself, or a word and its value, or values."""

    token: str
    arguments: tuple[Argument, ...] = ()

    def value(self, words: list[bytes], limits: Limits, name: str) -> Any:
        """What stands in the log for it: its token, or a list of that and its values."""
        if not self.arguments:
            return self.token
        pairs = zip(self.arguments, words, strict=True)
        return [self.token, *(argument.read(word, limits, name) for argument, word in pairs)]

    @property
    def usage(self) -> str:
        """As in a usage line."""
        return " ".join([self.token, *(argument.usage for argument in self.arguments)])

    def docs(self, *flags: bytes) -> list[Reply]:
        """As Argument's."""
        if len(self.arguments) > 1:
            members = [argument.docs()[0] for argument in self.arguments]
            return [group_docs(self.token.lower(), "block", members, *flags, token=self.token)]
        pure = Argument(self.token.lower(), "pure-token", read_string)
        return (*self.arguments, pure)[0].docs(*flags, token=self.token)


@dataclass(frozen=True, slots=True)
class Choice:
    """At most one of some options: None, its token, or [token, value, ...]."""

    name: str
    members: tuple[Option, ...]

    @property
    def usage(self) -> str:
        """As in a usage line."""
        return " | ".join(member.usage for member in self.members)

    def docs(self, *flags: bytes) -> list[Reply]:
        """As Argument's."""
        members = [member.docs()[0] for member in self.members]
        return [group_docs(self.name, "oneof", members, *flags)]


@dataclass(frozen=True, slots=True)
class Options:
    """Options in any order, to the end of the request: one argument for each member.

    A plain option is True or False; one with values is a list of these or None; for a choice see
    there. As in Redis, an option may be repeated, and the last one counts.
    """

    members: tuple[Option | Choice, ...]
    # What to say to a word that is no option; None for a syntax error.
    unknown: Callable[[bytes], Failure] | None = None
    # Looks at what was chosen, member by member, before anything else of the request is read.
    check: Callable[[list[Any]], None] | None = None

    words_min = 0
    words_max = WORDS_MAX

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
        if len(argv) <= start:
            return [_absent(member) for member in self.members]
        values: list[Any] = []
        for member, found in zip(self.members, self._chosen(argv, start), strict=True):
            if found is None:
                values.append(_absent(member))
            elif isinstance(member, Choice):
                option, words = found
                values.append(option.value(words, limits, name))
            elif member.arguments:
                values.append(member.value(found[1], limits, name)[1:])
            else:
                values.append(True)
        return values

    def _chosen(self, argv: list[bytes], start: int) -> list[tuple[Option, list[bytes]] | None]:
        chosen: list[tuple[Option, list[bytes]] | None] = [None] * len(self.members)
        at = start
        while at < len(argv):
            index, option = self._find(argv[at])
            end = at + 1 + len(option.arguments)
            if end > len(argv):
                raise errors.SYNTAX_ERROR.refusal()
            before = chosen[index]
            if before is not None and before[0] is not option:
                raise errors.SYNTAX_ERROR.refusal()
            chosen[index] = (option, argv[at + 1 : end])
            at = end
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


class Tail(Protocol):
    """What Repeated and Options are: all the words after the fixed ones."""

    @property
    def words_min(self) -> int:
        """Fewest words that are enough."""

    @property
    def words_max(self) -> int:
        """Most words that it takes."""

    @property
    def width(self) -> int:
        """How many arguments the handler gets from here."""

    @property
    def usage(self) -> str:
        """As in a usage line."""

    def look(self, argv: list[bytes], start: int, full_name: str) -> None:
        """Check the form before anything is read."""

    def read(self, argv: list[bytes], start: int, limits: Limits, name: str) -> list[Any]:
        """The words from `start` on, decoded."""

    def docs(self) -> list[Reply]:
        """As Argument's."""


Part: TypeAlias = "Argument | Optional | Tail"


def _absent(member: Option | Choice) -> Any:
    return None if isinstance(member, Choice) or member.arguments else False


def group_docs(name: str, kind: str, members: list[Reply], *flags: bytes, token: str = "") -> Map:
    """The element of several arguments that belong together, for COMMAND DOCS."""
    marks: list[Reply] = [Status(flag) for flag in flags]
    items: dict[bytes, Reply] = {b"name": name.encode(), b"type": kind.encode()}
    if token:
        items[b"token"] = token.encode()
    return Map({**items, b"flags": marks, b"arguments": members})


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


def valued(token: str, *arguments: Argument) -> Option:
    """An option with a value, or several."""
    return Option(token, arguments)


def one_of(name: str, *members: Option) -> Choice:
    """Options that exclude each other."""
    return Choice(name, members)
