"""MULTI, EXEC, DISCARD, WATCH, UNWATCH: what they are called; what they do is transactions.py's."""

from __future__ import annotations

from typing import Protocol

from goblin_raft.arguments import key, repeated
from goblin_raft.node_view import NodeView
from goblin_raft.reply import OK, Reply
from goblin_raft.spec import Family

family = Family("transactions")


class Talk(Protocol):
    """What the handlers need of transactions.py."""

    def begin(self) -> None:
        """MULTI."""

    def execute(self) -> None:
        """EXEC."""

    def discard(self) -> None:
        """DISCARD."""

    def watch(self, keys: list[bytes]) -> None:
        """WATCH."""


@family.session("MULTI")
def multi(talk: Talk) -> None:
    """Begin a transaction: what follows is queued until EXEC.

    The answer to each command is QUEUED, or an error, and then EXEC refuses the whole.
    """
    talk.begin()


@family.session("EXEC")
def exec_(talk: Talk) -> None:
    """Execute all that was queued, at one place of the log, or nothing of it.

    Replies all replies in order, or nil when a watched key was changed. An error that a command
    meets at its execution, such as WRONGTYPE, does not undo the others.
    """
    talk.execute()


@family.session("DISCARD")
def discard(talk: Talk) -> None:
    """Drop what was queued, and watch nothing any more."""
    talk.discard()


@family.session("WATCH", repeated(key()))
def watch(talk: Talk, keys: list[bytes]) -> None:
    """Let the next EXEC happen only if none of these keys is changed until then, by any node.

    A key that expires counts as changed. EXEC, DISCARD and UNWATCH end it.
    """
    talk.watch(keys)


@family.node("UNWATCH")
def unwatch(node: NodeView) -> Reply:
    """Watch nothing any more."""
    node.session.watch = None
    return OK
