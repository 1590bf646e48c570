"""The less usual ways in which a request can go on after its fixed words; see arguments.py.

No command is named here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from goblin_raft import errors
from goblin_raft.arguments import WORDS_MAX, Argument, Option, Options, Repeated
from goblin_raft.limits import Limits
from goblin_raft.readers import parse_integer, read_integer, read_key, read_weight
from goblin_raft.reply import Reply

WEIGHTS = b"WEIGHTS"


@dataclass(frozen=True, slots=True)
class Limit:
    """No word at all: the limit of this name on the node that takes the command.

    It goes into the log, so that a command that makes a value longer is refused by every node, or
    by none, whatever its own limit is.
    """

    name: str

    words_min = 0
    words_max = 0
    width = 1
    usage = ""

    def look(self, argv: list[bytes], start: int, full_name: str) -> None:
        """Nothing to look at."""

    def read(self, argv: list[bytes], start: int, limits: Limits, name: str) -> list[Any]:
        """The limit."""
        return [getattr(limits, self.name)]

    def docs(self) -> list[Reply]:
        """Nothing that a client sends."""
        return []


@dataclass(frozen=True, slots=True)
class OptionsFirst:
    """Options without values, then groups of words to the end of the request."""

    options: Options
    groups: Repeated
    # Looks at which options were chosen, and at the number of groups.
    check: Callable[[list[bool], int], None]

    words_max = WORDS_MAX

    @property
    def words_min(self) -> int:
        """Fewest words that are enough."""
        return self.groups.words_min

    @property
    def width(self) -> int:
        """The list of words, and one for each option."""
        return self.options.width + 1

    def look(self, argv: list[bytes], start: int, full_name: str) -> None:
        """Check the form before anything is read."""
        end = self._end_of_options(argv, start)
        words, each = len(argv) - end, len(self.groups.members)
        if words == 0 or words % each:
            raise errors.SYNTAX_ERROR.refusal()
        chosen = {word.upper() for word in argv[start:end]}
        self.check([token in chosen for token in self._tokens()], words // each)

    def read(self, argv: list[bytes], start: int, limits: Limits, name: str) -> list[Any]:
        """The words from `start` on, decoded."""
        end = self._end_of_options(argv, start)
        chosen = self.options.read(argv[:end], start, limits, name)
        return self.groups.read(argv, end, limits, name) + chosen

    def _tokens(self) -> list[bytes]:
        members = self.options.members
        return [member.token.encode() for member in members if isinstance(member, Option)]

    def _end_of_options(self, argv: list[bytes], start: int) -> int:
        tokens = self._tokens()
        while start < len(argv) and argv[start].upper() in tokens:
            start += 1
        return start

    @property
    def usage(self) -> str:
        """As in a usage line."""
        return f"{self.options.usage} {self.groups.usage}"

    def docs(self) -> list[Reply]:
        """As Argument's."""
        return self.options.docs() + self.groups.docs()


@dataclass(frozen=True, slots=True)
class NumberedKeys:
    """A number, so many keys, then options; with `weights` a number for each key among them."""

    options: Options
    weights: bool = False

    words_min = 2
    words_max = WORDS_MAX

    @property
    def width(self) -> int:
        """The keys, their weights if there are any, and one for each option."""
        return 1 + self.weights + self.options.width

    def look(self, argv: list[bytes], start: int, full_name: str) -> None:
        """Check the form before anything is read."""
        keys = self._keys(argv, start, full_name)
        rest, _ = self._take_weights(argv[start + 1 + len(keys) :], len(keys))
        self.options.look(rest, 0, full_name)

    def read(self, argv: list[bytes], start: int, limits: Limits, name: str) -> list[Any]:
        """The words from `start` on, decoded."""
        keys = self._keys(argv, start, name)
        rest, weights = self._take_weights(argv[start + 1 + len(keys) :], len(keys))
        values: list[Any] = [[read_key(key, limits, name) for key in keys]]
        if self.weights:
            values.append([read_weight(word, limits, name) for word in weights] or None)
        return values + self.options.read(rest, 0, limits, name)

    def _keys(self, argv: list[bytes], start: int, name: str) -> list[bytes]:
        count = read_integer(argv[start], Limits(), name)
        if count < 1:
            raise errors.NO_INPUT_KEY.refusal(name=name.lower())
        if count > len(argv) - start - 1:
            raise errors.SYNTAX_ERROR.refusal()
        return argv[start + 1 : start + 1 + count]

    def _take_weights(self, words: list[bytes], keys: int) -> tuple[list[bytes], list[bytes]]:
        """The words without WEIGHTS and what belongs to it, and what belongs to it."""
        rest, weights, at = [], [], 0
        while at < len(words):
            if self.weights and words[at].upper() == WEIGHTS:
                weights = words[at + 1 : at + 1 + keys]
                if len(weights) < keys:
                    raise errors.SYNTAX_ERROR.refusal()
                at += 1 + keys
            else:
                rest.append(words[at])
                at += 1
        return rest, weights

    def key_words(self, argv: list[bytes], start: int) -> list[bytes]:
        """The keys of a request whose form is right."""
        count = parse_integer(argv[start]) or 0
        return argv[start + 1 : start + 1 + count]

    @property
    def usage(self) -> str:
        """As in a usage line."""
        weights = " [WEIGHTS weight [weight ...]]" if self.weights else ""
        return f"numkeys key [key ...]{weights} {self.options.usage}".rstrip()

    def docs(self) -> list[Reply]:
        """As Argument's."""
        numkeys = Argument("numkeys", "integer", read_integer)
        keys = Argument("key", "key", read_key)
        parts = [*numkeys.docs(), *keys.docs(b"multiple")]
        if self.weights:
            weight = Argument("weight", "integer", read_weight)
            parts += weight.docs(b"optional", b"multiple", token=WEIGHTS.decode())
        return parts + self.options.docs()
