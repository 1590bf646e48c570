"""docs/commands.md and docs/errors.md, from the tables; `goblin-raft docs` writes them."""

from __future__ import annotations

from goblin_raft import errors
from goblin_raft.commands import FAMILIES
from goblin_raft.spec import Command, Verb

_WHERE = {
    Verb.WRITE: "through the log, on every replica",
    Verb.READ: "on the node that was asked, behind a read barrier",
    Verb.NODE: "on the node that was asked, at once, with or without a leader",
    Verb.SESSION: "on the node that was asked; docs/transactions.md has what follows from that",
}


def render_commands() -> str:
    """docs/commands.md."""
    lines = [
        "# Commands",
        "",
        "This page is generated from the declarations in `goblin_raft/commands/`.",
    ]
    groups: dict[str, list[Command]] = {}
    for family in FAMILIES:
        groups.setdefault(family.group, []).extend(family.commands)
    for group, commands in groups.items():
        lines += ["", f"## {group}"]
        for command in commands:
            lines += ["", f"### {command.name}", "", f"    {command.usage}", ""]
            lines += [f"{command.summary}."]
            if command.description:
                lines += ["", command.description]
            lines += ["", f"Runs {_WHERE[command.verb]}. Arity {command.arity}."]
    return "\n".join(lines) + "\n"


def render_errors() -> str:
    """docs/errors.md."""
    lines = [
        "# Errors",
        "",
        "This page is generated from `goblin_raft/errors.py`.",
        "",
        "*Executed?* answers what matters to a store of claims: `no` means that the command",
        "certainly did not happen and never will; `unknown` means that it may have, or may yet.",
    ]
    for cause in errors.Cause:
        lines += [
            "",
            f"## {cause.value}",
            "",
            "| reply | executed? | what to do |",
            "|---|---|---|",
        ]
        for row in errors.TABLE:
            if row.cause is cause:
                executed = "no" if row.definite else "unknown"
                lines.append(f"| `{row.text}` | {executed} | {row.advice} |")
    return "\n".join(lines) + "\n"
