"""How a command is declared, and all that follows from a declaration; no command is named here.

    family = Family("string")

    @family.read("GET", key())
    def get(keyspace, at, key): ...

From that come the arity and its error, the decoding of the words, and what COMMAND, COMMAND DOCS
and docs/commands.md say. The verb says where a command runs: `write` through the log, `read`
behind a barrier, `node` on the node that was asked; `session` is for what steers dispatch itself,
as EXEC does. Where the arguments come from is in
arguments.py.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeVar

from goblin_raft.arguments import Argument, Optional, Part, Repeated, Tail
from goblin_raft.errors import StoreError, wrong_number_of_arguments
from goblin_raft.limits import Limits
from goblin_raft.readers import Reader, read_string
from goblin_raft.reply import Map, Reply, Set, Status
from goblin_raft.tails import NumberedKeys

Handler = Callable[..., Reply]
Check = Callable[[list[Any]], None]
HandlerT = TypeVar("HandlerT", bound=Handler)

# The first release that has the command; a later one says so in its declaration.
FIRST_RELEASE = "0.1.0"

# Redis's words for our groups, where it has one.
CATEGORIES = {
    "connection": "@connection",
    "generic": "@keyspace",
    "hash": "@hash",
    "pubsub": "@pubsub",
    "scripting": "@scripting",
    "sorted-set": "@sortedset",
    "string": "@string",
    "transactions": "@transaction",
}


class Verb(Enum):
    """Where a command runs."""

    WRITE = "write"
    READ = "read"
    NODE = "node"
    SESSION = "session"


FLAGS = {
    Verb.WRITE: [b"write"],
    Verb.READ: [b"readonly"],
    Verb.NODE: [b"loading", b"stale"],
    Verb.SESSION: [b"noscript", b"loading", b"stale"],
}
# What a client may send before it has said who it is.
OPEN = frozenset({"AUTH", "HELLO", "QUIT", "RESET"})
# What a client of RESP2 may send while it listens to something: whatever else came back could not
# be told from a message.
WHILE_SUBSCRIBED = frozenset(
    {"SUBSCRIBE", "UNSUBSCRIBE", "PSUBSCRIBE", "PUNSUBSCRIBE", "PING", "QUIT", "RESET"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command. Made by `Family`; everything that is not declared is derived here."""

    name: str  # upper case; two words for a subcommand
    verb: Verb
    group: str
    parts: tuple[Part, ...]
    handler: Handler
    whole: bool  # takes Databases instead of the session's Keyspace
    check: Check | None  # looks at the decoded arguments together
    in_transactions: bool  # may be queued between MULTI and EXEC
    since: str
    summary: str
    description: str
    subcommands: dict[bytes, Command] = field(default_factory=dict)  # by upper-case second word

    # Derived, and kept because every request needs them.
    words_of_name: int = field(init=False)
    words_min: int = field(init=False)
    words_max: int = field(init=False)
    fixed: tuple[Argument, ...] = field(init=False)
    readers: tuple[Reader, ...] = field(init=False)
    tail: Tail | None = field(init=False)
    is_data: bool = field(init=False)  # reads or writes keys: its outcome is consensus's

    def __post_init__(self) -> None:
        fixed = tuple(part for part in self.parts if isinstance(part, Argument | Optional))
        tails = self.parts[len(fixed) :]
        assert self.parts[: len(fixed)] == fixed, f"{self.name}: a tail stands before an argument"
        assert len(tails) <= 1, f"{self.name}: two tails"
        tail = tails[0] if tails else None
        assert not isinstance(tail, Argument | Optional)
        needed = sum(isinstance(part, Argument) for part in fixed)
        own = len(self.name.split())
        set_field = object.__setattr__
        set_field(self, "words_of_name", own)
        set_field(self, "words_min", own + needed + (tail.words_min if tail else 0))
        set_field(self, "words_max", own + len(fixed) + (tail.words_max if tail else 0))
        set_field(self, "fixed", tuple(part.argument for part in fixed))
        set_field(self, "readers", tuple(part.argument.read for part in fixed))
        set_field(self, "tail", tail)
        set_field(self, "is_data", self.verb in (Verb.WRITE, Verb.READ))

    # ---- decoding ------------------------------------------------------------------------------

    def decode(self, argv: list[bytes], limits: Limits) -> list[Any]:
        """The arguments as the handler takes them, ready for the log. Raises StoreError."""
        count = len(argv)
        if not self.words_min <= count <= self.words_max:
            raise StoreError(wrong_number_of_arguments(self.full_name))
        name, tail, at = self.name, self.tail, self.words_of_name
        if tail is not None:  # as Redis does: options before numbers
            tail.look(argv, at + len(self.readers), self.full_name)
        decoded: list[Any] = []
        for read in self.readers:  # every claim comes through here: zip() would take twice as long
            decoded.append(read(argv[at], limits, name) if at < count else None)
            at += 1
        if tail is not None:
            decoded += tail.read(argv, at, limits, name)
        if self.check is not None:
            self.check(decoded)
        return decoded

    @property
    def width(self) -> int:
        """How many arguments `decode` gives, always."""
        return len(self.fixed) + (self.tail.width if self.tail else 0)

    # ---- what others say about it --------------------------------------------------------------

    @property
    def full_name(self) -> str:
        """The name in COMMAND and in error texts: `get`, `command|docs`."""
        return self.name.lower().replace(" ", "|")

    @property
    def arity(self) -> int:
        """Words of a whole request, in Redis's notation: negative means at least so many."""
        if self.subcommands or self.words_max != self.words_min:
            return -self.words_min
        return self.words_min

    @property
    def usage(self) -> str:
        """One line: what to type."""
        return " ".join([self.name, *(part.usage for part in self.parts)]).rstrip()

    @property
    def key_positions(self) -> tuple[int, int, int]:
        """First key, last key, step, as COMMAND gives them; zeros where there is none."""
        at = [self.words_of_name + i for i, part in enumerate(self.fixed) if part.is_key]
        if isinstance(self.tail, Repeated) and self.tail.members[0].is_key:
            assert not at, f"{self.name}: keys in two places"
            return self.words_of_name + len(self.fixed), -1, len(self.tail.members)
        if not at:
            return 0, 0, 0
        assert at == list(range(at[0], at[-1] + 1)), f"{self.name}: keys that do not lie together"
        return at[0], at[-1], 1

    @property
    def flags(self) -> list[bytes]:
        """Redis's words for how it behaves."""
        more = [b"no_auth"] if self.name in OPEN else []
        return [*FLAGS[self.verb], *more, *([b"movablekeys"] if self.keys_are_numbered else [])]

    @property
    def keys_are_numbered(self) -> bool:
        """Whether there are keys that only the request says the number of."""
        return isinstance(self.tail, NumberedKeys)

    @property
    def categories(self) -> list[str]:
        """The ACL categories that it belongs to."""
        categories = [f"@{self.verb.value}"] if self.is_data else []
        if self.group in CATEGORIES:
            categories.append(CATEGORIES[self.group])
        return categories

    def keys_of(self, argv: list[bytes]) -> list[bytes]:
        """The keys in a request of this command."""
        first, last, step = self.key_positions
        found = argv[first : last % len(argv) + 1 : step] if first else []
        if isinstance(self.tail, NumberedKeys):
            found += self.tail.key_words(argv, self.words_of_name + len(self.fixed))
        return found

    def row(self) -> list[Reply]:
        """The command's element in the reply to COMMAND."""
        first, last, step = self.key_positions
        subcommands: list[Reply] = [each.row() for each in self.subcommands.values()]
        return [
            self.full_name.encode(),
            self.arity,
            Set([Status(flag) for flag in self.flags]),
            first,
            last,
            step,
            Set([Status(category.encode()) for category in self.categories]),
            [],
            [self._key_spec()] if first else [],
            subcommands,
        ]

    def docs(self) -> Map:
        """The command's value in the reply to COMMAND DOCS.

        Without summary, since and group some versions of redis-cli crash.
        """
        items: dict[bytes, Reply] = {
            b"summary": self.summary.encode(),
            b"since": self.since.encode(),
            b"group": self.group.encode(),
        }
        if self.parts:
            items[b"arguments"] = [doc for part in self.parts for doc in part.docs()]
        if self.subcommands:
            items[b"subcommands"] = Map(
                {each.full_name.encode(): each.docs() for each in self.subcommands.values()}
            )
        return Map(items)

    def _key_spec(self) -> Map:
        first, last, step = self.key_positions
        access = b"RW" if self.verb is Verb.WRITE else b"RO"
        begin: dict[bytes, Reply] = {b"type": b"index", b"spec": Map({b"index": first})}
        span: dict[bytes, Reply] = {
            b"lastkey": last if last < 0 else last - first,
            b"keystep": step,
            b"limit": 0,
        }
        find: dict[bytes, Reply] = {b"type": b"range", b"spec": Map(span)}
        flags: list[Reply] = [Status(access), Status(b"access")]
        return Map({b"flags": Set(flags), b"begin_search": Map(begin), b"find_keys": Map(find)})


class Family:
    """The commands of one file."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.commands: list[Command] = []

    def write(
        self,
        name: str,
        *parts: Part,
        whole: bool = False,
        check: Check | None = None,
        since: str = FIRST_RELEASE,
    ) -> Callable[[HandlerT], HandlerT]:
        """A command that goes through the log: `handler(keyspace, at, *arguments)`."""
        return self._declare(Verb.WRITE, name, parts, whole, check, since)

    def read(
        self,
        name: str,
        *parts: Part,
        whole: bool = False,
        check: Check | None = None,
        since: str = FIRST_RELEASE,
    ) -> Callable[[HandlerT], HandlerT]:
        """A command that changes nothing: `handler(keyspace, at, *arguments)`."""
        return self._declare(Verb.READ, name, parts, whole, check, since)

    def node(
        self,
        name: str,
        *parts: Part,
        check: Check | None = None,
        since: str = FIRST_RELEASE,
        in_transactions: bool = True,
    ) -> Callable[[HandlerT], HandlerT]:
        """A command that the node answers by itself: `handler(node, *arguments)`."""
        return self._declare(Verb.NODE, name, parts, False, check, since, in_transactions)

    def session(
        self, name: str, *parts: Part, in_transactions: bool = False
    ) -> Callable[[HandlerT], HandlerT]:
        """A command about the order of commands, or that stands for another one.

        `handler(talk, *arguments)`; what may be queued must call `talk.run` or refuse.
        """
        since = FIRST_RELEASE
        return self._declare(Verb.SESSION, name, parts, False, None, since, in_transactions)

    def container(self, name: str, summary: str) -> None:
        """A name that is nothing without its second word; with a HELP that lists these words."""

        def handler(node: object, subcommand: bytes) -> Reply:
            raise AssertionError("lookup takes the second word first")

        handler.__doc__ = summary
        self.node(name, Argument("subcommand", "string", read_string))(handler)
        self.help(name)

    def help(self, name: str) -> None:
        """NAME HELP: what words may follow, from the declarations."""

        def handler(node: object) -> Reply:
            lines = [f"{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"]
            of_it = [each for each in self.commands if each.name.startswith(name + " ")]
            for each in sorted(of_it, key=lambda each: each.name.endswith(" HELP")):
                lines += [each.usage.removeprefix(name + " "), f"    {each.summary}."]
            return [Status(line.encode()) for line in lines]

        handler.__doc__ = f"List the subcommands of {name}."
        self.node(name + " HELP")(handler)

    def _declare(
        self,
        verb: Verb,
        name: str,
        parts: tuple[Part, ...],
        whole: bool,
        check: Check | None,
        since: str,
        in_transactions: bool = True,
    ) -> Callable[[HandlerT], HandlerT]:
        def declare(handler: HandlerT) -> HandlerT:
            text = inspect.getdoc(handler)
            assert text, f"{name} has no docstring"
            assert name == name.upper(), f"{name} is not upper case"
            summary, _, description = text.partition("\n")
            command = Command(
                name=name,
                verb=verb,
                group=self.group,
                parts=parts,
                handler=handler,
                whole=whole,
                check=check,
                in_transactions=in_transactions,
                since=since,
                summary=summary.removesuffix("."),
                description=description.strip(),
            )
            self.commands.append(command)
            return handler

        return declare


def build_table(families: list[Family]) -> dict[bytes, Command]:
    """All commands by upper-case name, each subcommand also under its first word."""
    table: dict[bytes, Command] = {}
    for family in families:
        for command in family.commands:
            name = command.name.encode()
            assert name not in table, f"{command.name} is declared twice"
            table[name] = command
    for name, command in table.items():
        first, _, second = name.partition(b" ")
        if second:
            assert first in table, f"{command.name} is declared without {first.decode()}"
            table[first].subcommands[second] = command
    return table
