"""What a command answers, as values; nothing here knows how an answer looks on the wire.

The type alone decides the wire form, never the content: bytes are a bulk string, even when they
read `OK` or begin with a minus sign.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

# The one code that says "it may have happened". Every other error says "it certainly did not".
UNCERTAIN_CODE = "UNCERTAIN"


@dataclass(frozen=True, slots=True)
class Status:
    """A word of the server's own, such as OK; never a client's data."""

    text: bytes


@dataclass(frozen=True, slots=True)
class Failure:
    """An error: the whole line without its leading minus sign. The first word is its code."""

    text: str

    @property
    def code(self) -> str:
        """The prefix that clients tell errors apart by."""
        return self.text.partition(" ")[0]

    @property
    def definite(self) -> bool:
        """Whether the command certainly did not happen and never will."""
        return self.code != UNCERTAIN_CODE


@dataclass(frozen=True, slots=True)
class Map:
    """Names and values, in this order; a flat array where the protocol has no maps."""

    items: dict[bytes, Reply]


@dataclass(frozen=True, slots=True)
class Set:
    """Values without an order that means anything; an array where the protocol has no sets."""

    items: list[Reply]


@dataclass(frozen=True, slots=True)
class Verbatim:
    """Text for people; a bulk string where the protocol has no such thing."""

    text: bytes


@dataclass(frozen=True, slots=True)
class NullArray:
    """Nil where an array would have been; RESP2 has two kinds of nil."""


@dataclass(frozen=True, slots=True)
class Double:
    """A floating-point number; its decimal text where the protocol has no doubles."""

    number: float


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs; one flat array where the protocol has no maps."""

    items: list[tuple[Reply, Reply]]


@dataclass(frozen=True, slots=True)
class Push:
    """What a client gets without having asked for it now; an array where there is no such thing."""

    items: list[Reply]


@dataclass(frozen=True, slots=True)
class Several:
    """More than one answer to one request, as SUBSCRIBE has."""

    replies: list[Reply]


Reply: TypeAlias = (
    "None | NullArray | int | bytes | Status | Failure | Map | Set | Verbatim | Double | Pairs"
    " | Push | Several | list[Reply]"
)

OK = Status(b"OK")
PONG = Status(b"PONG")
QUEUED = Status(b"QUEUED")
NULL_ARRAY = NullArray()
