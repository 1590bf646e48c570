"""The table of all commands; a family that is not listed here does not exist."""

from __future__ import annotations

from goblin_raft.commands import (
    claims,
    clients,
    conditional,
    connection,
    counters,
    diagnostics,
    expiry,
    hashes,
    info,
    introspection,
    keys,
    locks,
    objects,
    pubsub,
    ranges,
    scans,
    scripting,
    server,
    settings,
    sorted_sets,
    strings,
    transactions,
    unions,
)
from goblin_raft.errors import StoreError, unknown_command, unknown_subcommand
from goblin_raft.spec import Command, Family, build_table

FAMILIES: list[Family] = [
    claims.family,
    conditional.family,
    strings.family,
    counters.family,
    keys.family,
    expiry.family,
    scans.family,
    objects.family,
    hashes.family,
    sorted_sets.family,
    ranges.family,
    unions.family,
    transactions.family,
    pubsub.family,
    scripting.family,
    connection.family,
    clients.family,
    server.family,
    info.family,
    introspection.family,
    settings.family,
    diagnostics.family,
]

# By upper-case name; subcommands by both words, `COMMAND DOCS`.
TABLE: dict[bytes, Command] = build_table(FAMILIES)
# Commands of the log that no request can name: scripting.py has them stand for scripts.
UNNAMED: dict[bytes, Command] = build_table([locks.family])


def lookup(argv: list[bytes]) -> Command:
    """The command that a request names, in any case. Raises StoreError."""
    command = TABLE.get(argv[0]) or TABLE.get(argv[0].upper())
    if command is None or command.words_of_name > 1:
        raise StoreError(unknown_command(argv))
    if command.subcommands and len(argv) > 1:
        subcommand = command.subcommands.get(argv[1].upper())
        if subcommand is None:
            raise StoreError(unknown_subcommand(argv))
        return subcommand
    return command
