"""docs/commands.md and docs/errors.md, from the tables; `goblin-raft docs` writes them."""

from __future__ import annotations

from goblin_raft import docs_examples, errors
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
        "This page is generated from the declarations in `goblin_raft/commands/` and from the",
        "stories in `tests/transcripts/`: examples, kinds of reply and errors were seen there.",
        "",
        "Arity counts the words of a whole request; a negative one means at least so many. Every",
        "command may also answer that the number of arguments is wrong, and each one that uses the",
        "log or a read barrier CLUSTERDOWN, TRYAGAIN and, if it writes, UNCERTAIN: see errors.md.",
    ]
    groups: dict[str, list[Command]] = {}
    for family in FAMILIES:
        groups.setdefault(family.group, []).extend(family.commands)
    steps = docs_examples.read_steps()
    for group, commands in groups.items():
        lines += ["", f"## {group}"]
        for command in commands:
            lines += ["", f"### {command.name}", "", f"    {command.usage}", ""]
            lines += [f"{command.summary}."]
            if command.description:
                lines += ["", command.description]
            lines += ["", *_facts(command, steps)]
            if shown := docs_examples.example(steps, command.name):
                lines += ["", "```", *shown, "```"]
    return "\n".join(lines) + "\n"


def _facts(command: Command, steps: list[docs_examples.Step]) -> list[str]:
    """A list of what a reader wants to know at a glance."""
    facts = [
        f"- Runs {_WHERE[command.verb]}.",
        f"- Arity {command.arity}; keys: {_keys(command)}.",
    ]
    if kinds := docs_examples.reply_kinds(steps, command.name):
        facts.append(f"- Reply: {' or '.join(kinds)}.")
    if found := docs_examples.error_texts(steps, command.name):
        facts.append(f"- Errors: {', '.join(f'`{text}`' for text in found)}.")
    return facts


def _keys(command: Command) -> str:
    first, last, step = command.key_positions
    if not first:
        return "none"
    if last < 0:
        every = "every word" if step == 1 else f"every {step}. word"
        return f"{every} from {first} on"
    return f"word {first}" if first == last else f"words {first} to {last}"


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
