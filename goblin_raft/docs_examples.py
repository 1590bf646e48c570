"""Examples and observed replies for docs/commands.md, from the stories that the tests tell.

What is shown there was answered by a node in a test; it must not know any command.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

# Beside the package in a checkout, which is where the pages are written; not part of a release.
STORIES = Path(__file__).parent.parent / "tests" / "transcripts"

REQUEST = re.compile(r"(?:n\d)?> (.*)")
# Lines of a reply that is short enough to be shown.
LINES_MAX = 12
CONTEXT_STEPS = 2


@dataclass(frozen=True, slots=True)
class Step:
    """A request of a story with its reply, and what came before it in that story."""

    line: str
    words: tuple[str, ...]
    reply: str
    before: tuple[Step, ...]

    @property
    def is_error(self) -> bool:
        return self.reply.startswith("(error)")

    @property
    def says_little(self) -> bool:
        """Whether another example shows more of what the command is for."""
        return self.reply in ("(nil)", "(integer) 0", "(empty array)", '""')

    @property
    def is_long(self) -> bool:
        return self.reply.count("\n") >= LINES_MAX or len(self.line) > 90


def read_steps(directory: Path = STORIES) -> list[Step]:
    """All requests of all stories, in order of the files' names."""
    steps: list[Step] = []
    for path in sorted(directory.glob("*.txt")):
        told: list[Step] = []
        for block in re.split(r"\n(?=(?:n\d)?> )|\n\s*\n", path.read_text()):
            line, _, reply = block.strip("\n").partition("\n")
            found = REQUEST.fullmatch(line)
            if found is None:
                if line.startswith("~"):  # time passes: what came before no longer explains
                    told = []
                continue
            try:
                words = tuple(shlex.split(found[1]))
            except ValueError:  # Redis's quoting is not quite a shell's
                words = tuple(found[1].split())
            told.append(Step(line, words, reply, tuple(told[-4:])))
        steps += told
    return steps


def steps_of(steps: list[Step], name: str) -> list[Step]:
    """Those that are requests of this command, `GET` or `COMMAND DOCS`; not those in a transaction,
    where every command is answered QUEUED."""
    own = name.split()
    return [
        step
        for step in steps
        if [word.upper() for word in step.words[: len(own)]] == own and step.reply != "QUEUED"
    ]


def example(steps: list[Step], name: str) -> list[str]:
    """A request with its reply, behind what led to it; no lines if no story has one to show."""
    own = [step for step in steps_of(steps, name) if not step.is_error]
    if not own:
        return []
    best = min(own, key=lambda step: (step.is_long, step.says_little))
    if best.is_long:
        return []
    subject = best.words[len(name.split()) :][:1]
    context = [step for step in best.before if subject and subject[0] in step.words[1:2]]
    shown = [step for step in context if not (step.is_error or step.is_long)][-CONTEXT_STEPS:]
    return [line for step in [*shown, best] for line in (step.line, *step.reply.split("\n"))]


def error_texts(steps: list[Step], name: str) -> list[str]:
    """The errors that stories show for the command, without those that every command has."""
    found = {step.reply.removeprefix("(error) ") for step in steps_of(steps, name) if step.is_error}
    common = ("ERR wrong number of arguments", "ERR unknown")
    return sorted(text for text in found if "\n" not in text and not text.startswith(common))


def reply_kinds(steps: list[Step], name: str) -> list[str]:
    """What kinds of reply stories show for the command, errors aside."""
    return sorted({kind_of(step.reply) for step in steps_of(steps, name) if not step.is_error})


def kind_of(reply: str) -> str:
    """By how redis-cli prints it."""
    if reply == "(nil)":
        return "nil"
    if reply.startswith("(integer)"):
        return "integer"
    if reply.startswith('"'):
        return "bulk string"
    if reply == "(empty array)" or re.match(r" *1\) ", reply):
        return "array"
    return "status"
