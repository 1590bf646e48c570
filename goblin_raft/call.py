"""A request after it was read and before it is run; where it came from is not known here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from goblin_raft.reply import Failure, Reply
from goblin_raft.spec import Command


class Call(NamedTuple):
    """See the module."""

    command: Command
    args: list[Any]
    db: int | None = None  # None: the session's
    # What becomes of the reply, where it is not the command's own.
    convert: Callable[[Reply], Reply] | None = None
    # What is wrong with an argument: the reply, without anything being run.
    failure: Failure | None = None

    @property
    def in_log(self) -> bool:
        """Whether consensus has a part in it."""
        return self.command.is_data and self.failure is None

    def answer(self, reply: Reply) -> Reply:
        """The reply as the client shall get it."""
        return self.convert(reply) if self.convert else reply
