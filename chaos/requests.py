"""What operations ask for, in Redis's words, and what they write and show; not what is right.

The harness has names of its own for what workers do (claim, publish, renew); here they become the
commands that they are, so that the model and the checkers need to know each command only once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from chaos.history import Operation

Words = list[Any]

# The words of a transaction are operations' names, or Redis's own. `expect` is what was read from a
# key after WATCH: EXEC only runs if the key still holds that.
IN_TRANSACTIONS = {
    "expect": "WATCH",
    "cas": "GOBLIN.CAS",
    "incr": "INCRBY",
    "renew": "GOBLIN.CAEXPIRE",
    "release": "GOBLIN.CAD",
}


def commands_of(operation: Operation) -> list[list[Any]]:
    """The requests that an operation stands for, in Redis's words."""
    key, args = operation.key, list(operation.args)
    match operation.op:
        case "get":
            return [["GET", key]]
        case "set" | "publish":
            expiry = ["EX", args[1]] if len(args) > 1 and args[1] is not None else []
            return [["SET", key, args[0], *expiry]]
        case "cas":
            return [["GOBLIN.CAS", key, *args]]
        case "incr":
            return [["INCRBY", key, args[0] if args else 1]]
        case "del":
            return [["DEL", key]]
        case "claim":
            return [["GOBLIN.CLAIM", key, *args]]
        case "renew":
            return [["GOBLIN.CAEXPIRE", key, *args]]
        case "release":
            return [["GOBLIN.CAD", key, *args]]
        case "txn":
            return [[IN_TRANSACTIONS.get(word, word.upper()), *words] for word, *words in args]
    msg = f"no model of the operation {operation.op}"
    raise ValueError(msg)


def keys_of(operation: Operation) -> set[str]:
    """Every key that an operation looks at or changes."""
    keys: set[str] = set()
    for name, *words in commands_of(operation):
        if name == "MGET":
            keys.update(words)
        else:
            keys.update(words[: 2 if name == "GOBLIN.CLAIM" else 1])
    return keys


def keys_changed(operation: Operation) -> set[str]:
    """Every key that an operation may change."""
    reads = ("GET", "MGET", "WATCH")
    return {words[0] for name, *words in commands_of(operation) if name not in reads}


def keys_that_matter(operation: Operation) -> set[str]:
    """The keys whose values decide whether it can be executed with its answer."""
    if operation.op == "claim" and (operation.outcome == "unknown" or operation.value == "CLAIMED"):
        return {operation.key}
    return keys_of(operation)


def has_deadlines(operation: Operation) -> bool:
    """Whether time matters to this operation."""
    return any(
        words[0] in ("GOBLIN.CLAIM", "GOBLIN.CAEXPIRE") or (words[0] == "SET" and len(words) > 3)
        for words in commands_of(operation)
    )


def written(operation: Operation) -> set[str]:
    """The values and tokens that the operation leaves in the store, if it is executed."""
    found = set()
    for name, *words in commands_of(operation):
        if name == "SET":
            found.add(str(words[1]))
        elif name in ("GOBLIN.CAS", "GOBLIN.CLAIM"):
            found.add(str(words[2]))
    return found


def seen(operation: Operation) -> set[str]:
    """The values and tokens that the answer shows to have been in the store."""
    if operation.outcome != "ok" or (operation.op == "txn" and operation.value is None):
        return set()
    commands = commands_of(operation)
    replies = iter(operation.value if operation.op == "txn" else [operation.value])
    found: set[str] = set()
    for name, *words in commands:
        if name == "WATCH":
            found |= _texts(words[1])
        else:
            found |= _seen(name, words, next(replies, None))
    return found


def compared(operation: Operation) -> set[str]:
    """The values and tokens that the request asks about."""
    found: set[str] = set()
    for name, *words in commands_of(operation):
        if name in ("GOBLIN.CAS", "GOBLIN.CAD", "GOBLIN.CAEXPIRE", "WATCH"):
            found |= _texts(words[1])
    return found


def changes_nothing(operation: Operation) -> bool:
    """Whether an operation with this answer leaves every store as it was."""
    if operation.op == "txn":
        names = {name for name, *_ in commands_of(operation)}
        return operation.value is None or names <= {"GET", "MGET", "WATCH"}
    if operation.op == "claim":
        return bool(operation.value != "CLAIMED")
    return operation.op == "get" or (operation.op != "incr" and operation.value == 0)


def writes_blindly(operation: Operation) -> bool:
    """Whether it writes over a key whatever that held."""
    return any(name in ("SET", "DEL") for name, *_ in commands_of(operation))


def needs_value(operation: Operation) -> bool:
    """Whether the answer is possible if, and only if, its key holds the values that are `seen`."""
    if operation.op == "cas":
        return bool(operation.value == "OK")
    return operation.op == "get" and operation.value is not None


def _seen(name: str, words: Words, reply: Any) -> set[str]:
    if name in ("GET", "MGET"):
        return _texts(reply)
    if name == "GOBLIN.CLAIM":
        return _texts(reply[1]) if isinstance(reply, list) else set()
    if name in ("GOBLIN.CAD", "GOBLIN.CAEXPIRE") and reply == 1:
        return _texts(words[1])
    if name == "GOBLIN.CAS" and reply == "OK":
        return _texts(words[1])
    return set()


def _texts(reply: Any) -> set[str]:
    if isinstance(reply, list):
        return set().union(*map(_texts, reply)) if reply else set()
    return set() if reply is None else {str(reply)}


@dataclass(frozen=True, slots=True)
class Touch:
    """One command of an operation, with its own reply, for rules about single keys."""

    operation: Operation
    name: str
    words: Words
    known: bool  # answered; else it may have been executed, or may yet be
    reply: Any

    @property
    def key(self) -> str:
        return str(self.words[0])


def touches(operation: Operation) -> list[Touch]:
    """The commands that were, or may have been, executed; none of an operation that failed."""
    if operation.outcome == "fail" or operation.op == "digest":
        return []
    known = operation.outcome == "ok"
    replies = operation.value if operation.op == "txn" else [operation.value]
    if known and replies is None:
        return []  # EXEC aborted
    commands = [words for words in commands_of(operation) if words[0] != "WATCH"]
    answers = replies if known else [None] * len(commands)
    return [
        Touch(operation, name, words, known, reply)
        for (name, *words), reply in zip(commands, answers, strict=True)
    ]
