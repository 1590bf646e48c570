"""COMMAND and its subcommands: the table of commands, told to clients and to people."""

from __future__ import annotations

import fnmatch

from goblin_raft import errors, errors_node
from goblin_raft.arguments import repeated, string
from goblin_raft.node_view import NodeView
from goblin_raft.reply import Map, Reply
from goblin_raft.spec import Command, Family

family = Family("server")


def table() -> dict[bytes, Command]:
    """All commands, by name, without the two-word ones."""
    # The table is made of the families, this one included, so it cannot be imported at the top.
    from goblin_raft.commands import TABLE

    return {name: command for name, command in sorted(TABLE.items()) if b" " not in name}


def find(name: bytes) -> Command | None:
    """By the name as COMMAND shows it: `get`, `client|id`."""
    from goblin_raft.commands import TABLE

    return None if b" " in name else TABLE.get(name.upper().replace(b"|", b" "))


@family.node("COMMAND")
def command(node: NodeView) -> Reply:
    """List all commands: name, arity, flags and where the keys lie."""
    return [each.row() for each in table().values()]


family.help("COMMAND")


@family.node("COMMAND COUNT")
def command_count(node: NodeView) -> Reply:
    """Count the commands."""
    return len(table())


@family.node("COMMAND LIST", repeated(string("filter"), least=0))
def command_list(node: NodeView, words: list[bytes]) -> Reply:
    """List the names of all commands, or of some.

    COMMAND LIST [FILTERBY MODULE name | ACLCAT category | PATTERN pattern]
    """
    commands = table()
    if not words:
        return [name.lower() for name in commands]
    if len(words) != 3 or words[0].upper() != b"FILTERBY":
        return errors.SYNTAX_ERROR.failure()
    value = words[2].decode("utf-8", "replace").lower()
    match words[1].upper():
        case b"MODULE":
            return []
        case b"ACLCAT":
            return [n.lower() for n, each in commands.items() if f"@{value}" in each.categories]
        case b"PATTERN":
            return [
                name.lower()
                for name in commands
                if fnmatch.fnmatchcase(name.decode().lower(), value)
            ]
        case _:
            return errors.SYNTAX_ERROR.failure()


@family.node("COMMAND INFO", repeated(string("name"), least=0))
def command_info(node: NodeView, names: list[bytes]) -> Reply:
    """List some commands as COMMAND does, with nil for those that do not exist."""
    wanted = [find(name) for name in names] if names else list(table().values())
    return [None if each is None else each.row() for each in wanted]


@family.node("COMMAND DOCS", repeated(string("name"), least=0))
def command_docs(node: NodeView, names: list[bytes]) -> Reply:
    """Describe commands: summary, group, arguments."""
    wanted = [find(name) for name in names] if names else list(table().values())
    return Map({each.full_name.encode(): each.docs() for each in wanted if each is not None})


@family.node("COMMAND GETKEYS", string("command"), repeated(string("argument"), least=0))
def command_getkeys(node: NodeView, name: bytes, arguments: list[bytes]) -> Reply:
    """Tell which words of a request are keys."""
    each = table().get(name.upper())
    if each is None:
        return errors_node.GETKEYS_OF_NOTHING.failure()
    argv = [name, *arguments]
    if not each.key_positions[0] and not each.keys_are_numbered:
        return errors_node.GETKEYS_WITHOUT_KEYS.failure()
    if not each.words_min <= len(argv) <= each.words_max:
        return errors_node.GETKEYS_ARITY.failure()
    return [*each.keys_of(argv)]
