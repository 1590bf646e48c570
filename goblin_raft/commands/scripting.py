"""EVAL and its kin: a script that is known runs as the command that does the same, others do not.

Nothing is interpreted. What the known scripts are is scripts.py's.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Protocol

from goblin_raft import errors_talk
from goblin_raft.arguments import flag, integer, one_of, options, repeated, string
from goblin_raft.call import Call
from goblin_raft.commands import claims, counters, locks, strings
from goblin_raft.limits import Limits
from goblin_raft.lua import TEXT_BYTES_MAX, digest
from goblin_raft.node_view import NodeView
from goblin_raft.reply import OK, Reply
from goblin_raft.scripts import FORMS, TEXTS, Script
from goblin_raft.spec import Command, Family

family = Family("scripting")

COMMANDS: dict[str, Command] = {
    command.name: command
    for each in (claims.family, counters.family, locks.family, strings.family)
    for command in each.commands
}
# Texts in other words than those of `TEXTS`, which this node has seen; as many as it may keep.
LEARNED_MAX = 1000
_learned: dict[str, Script] = {}

TEXT = string("script")
SHA1 = string("sha1")
WORDS = repeated(string("word"), least=0)


class Talk(Protocol):
    """What the handlers need of transactions.py."""

    limits: Limits

    def run(self, call: Call) -> None:
        """Run a command in the place of the request, or queue it."""


@lru_cache(maxsize=256)
def recognise(text: bytes) -> Script | None:
    """What a text means, if it is known."""
    return FORMS.get(digest(text) or "")


def learn(text: bytes) -> Script | None:
    """The same, and from then on the text is also known by its SHA1."""
    script = recognise(text) if len(text) <= TEXT_BYTES_MAX else None
    sha1 = hashlib.sha1(text, usedforsecurity=False).hexdigest()
    if script is not None and sha1 not in TEXTS:
        _learned.pop(sha1, None)
        _learned[sha1] = script
        if len(_learned) > LEARNED_MAX:
            del _learned[next(iter(_learned))]
    return script


def by_sha1(sha1: bytes) -> Script | None:
    """What is known under a SHA1, in any case."""
    name = sha1.decode("latin-1").lower()
    return TEXTS.get(name) or _learned.get(name)


def call_of(script: Script, key_count: int, words: list[bytes], limits: Limits) -> Call:
    """The command that does what the script does. Raises StoreError."""
    if key_count > len(words):
        raise errors_talk.TOO_MANY_SCRIPT_KEYS.refusal()
    if key_count < 0:
        raise errors_talk.NEGATIVE_SCRIPT_KEYS.refusal()
    keys, argv = words[:key_count], words[key_count:]
    if (script.keys is not None and len(keys) < script.keys) or len(argv) < script.arguments:
        raise errors_talk.WRONG_SCRIPT_WORDS.refusal(
            keys="any" if script.keys is None else script.keys, words=script.arguments
        )
    if script.keys is not None:
        keys = keys[: script.keys]
    command = COMMANDS[script.command]
    request = [script.command.encode(), *script.words(keys, argv[: script.arguments])]
    db = None
    if script.database is not None:
        number = argv[script.database]
        if number.isdigit() and int(number[:9]) < limits.databases:
            db = int(number[:9])
    return Call(command, command.decode(request, limits), db, script.convert)


@family.session("EVAL", TEXT, integer("numkeys"), WORDS, in_transactions=True)
def eval_(talk: Talk, text: bytes, key_count: int, words: list[bytes]) -> None:
    """Run a well-known script of locks or claims, as the command that does the same.

    docs/scripts.md lists them. Anything else is refused: there is no interpreter here.
    """
    script = learn(text)
    if script is None:
        raise errors_talk.UNKNOWN_SCRIPT.refusal()
    talk.run(call_of(script, key_count, words, talk.limits))


@family.session("EVALSHA", SHA1, integer("numkeys"), WORDS, in_transactions=True)
def evalsha(talk: Talk, sha1: bytes, key_count: int, words: list[bytes]) -> None:
    """Run a well-known script by the SHA1 of its text.

    The texts that popular libraries send are known on every node, without SCRIPT LOAD.
    """
    script = by_sha1(sha1)
    if script is None:
        raise errors_talk.NO_SUCH_SCRIPT.refusal()
    talk.run(call_of(script, key_count, words, talk.limits))


@family.node("EVAL_RO", TEXT, integer("numkeys"), WORDS)
def eval_ro(node: NodeView, text: bytes, key_count: int, words: list[bytes]) -> Reply:
    """Refuse: all scripts that are recognised write."""
    row = (
        errors_talk.UNKNOWN_SCRIPT if learn(text) is None else errors_talk.WRITE_IN_READ_ONLY_SCRIPT
    )
    return row.failure()


@family.node("EVALSHA_RO", SHA1, integer("numkeys"), WORDS)
def evalsha_ro(node: NodeView, sha1: bytes, key_count: int, words: list[bytes]) -> Reply:
    """Refuse: all scripts that are recognised write."""
    row = (
        errors_talk.NO_SUCH_SCRIPT
        if by_sha1(sha1) is None
        else errors_talk.WRITE_IN_READ_ONLY_SCRIPT
    )
    return row.failure()


family.container("SCRIPT", "Tell which scripts are known.")


@family.node("SCRIPT LOAD", TEXT)
def script_load(node: NodeView, text: bytes) -> Reply:
    """Answer the SHA1 of a well-known script; anything else is refused, as by EVAL."""
    if learn(text) is None:
        return errors_talk.UNKNOWN_SCRIPT.failure()
    return hashlib.sha1(text, usedforsecurity=False).hexdigest().encode()


@family.node("SCRIPT EXISTS", repeated(SHA1))
def script_exists(node: NodeView, sha1s: list[bytes]) -> Reply:
    """Tell for each SHA1 whether EVALSHA would find it on this node: 1 or 0."""
    return [int(by_sha1(each) is not None) for each in sha1s]


@family.node("SCRIPT FLUSH", options(one_of("mode", flag("ASYNC"), flag("SYNC"))))
def script_flush(node: NodeView, mode: str | None) -> Reply:
    """Forget what this node has learned; what every node knows stays."""
    _learned.clear()
    return OK
