"""Stories: redis-cli sessions as text files, read, told on some stage, and written again.

# A line that says what happens.        the first one names the story
> SET k v EX 30                         a request; `n2>` asks node 2, where there are three
OK                                      its reply, as redis-cli prints it
~ 29 s                                  time passes; also in ms
> SET <65537-bytes> v                   a word of so many bytes
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from goblin_raft.resp import split_inline

TRANSCRIPTS = Path(__file__).parent / "transcripts"
REQUEST = re.compile(r"(?:n(\d))?> (.*)")
PAUSE = re.compile(r"~ (\d+) (ms|s)")
FILLER = re.compile(rb"<(\d+)-bytes>")
ESCAPES = {7: "\\a", 8: "\\b", 9: "\\t", 10: "\\n", 13: "\\r", 34: '\\"', 92: "\\\\"}


@dataclass
class Stage:
    """Where a story is told. Without `pass_time`, stories in which time passes are not."""

    send: Callable[[list[bytes], int], str]  # words, node: the reply as redis-cli prints it
    pass_time: Callable[[int], None] | None = None  # milliseconds


@dataclass
class Step:
    """A block of a file: a request, a pause, or a remark."""

    line: str
    expected: str = ""

    @property
    def argv(self) -> list[bytes] | None:
        """The words of a request."""
        found = REQUEST.fullmatch(self.line)
        if found is None:
            return None
        words = split_inline(found[2].encode())
        assert words, self.line
        return [FILLER.sub(lambda hit: b"x" * int(hit[1]), word) for word in words]

    @property
    def node(self) -> int:
        """Which node is asked; 0 for any."""
        found = REQUEST.fullmatch(self.line)
        return int(found[1] or 0) if found else 0

    @property
    def pause_ms(self) -> int:
        """How much time passes here."""
        found = PAUSE.fullmatch(self.line)
        return int(found[1]) * (1000 if found[2] == "s" else 1) if found else 0


def read_story(path: Path) -> list[Step]:
    """The blocks of a file."""
    steps = []
    for block in re.split(r"\n\s*\n", path.read_text().strip("\n")):
        lines = block.split("\n")
        while lines:
            line = lines.pop(0)
            expected = []
            if REQUEST.fullmatch(line):
                while lines and not REQUEST.fullmatch(lines[0]):
                    expected.append(lines.pop(0))
            else:
                assert line.startswith("#") or PAUSE.fullmatch(line), f"{path.name}: {line}"
            steps.append(Step(line, "\n".join(expected)))
        steps.append(Step(""))
    return steps[:-1]


def has_pauses(story: list[Step]) -> bool:
    """Whether time passes in it."""
    return any(step.pause_ms for step in story)


def tell(story: list[Step], stage: Stage) -> list[Step]:
    """The story with the replies that this stage gives."""
    told = []
    for step in story:
        if step.pause_ms:
            assert stage.pass_time is not None
            stage.pass_time(step.pause_ms)
        reply = stage.send(step.argv, step.node) if step.argv else step.expected
        told.append(Step(step.line, reply))
    return told


def text_of(story: list[Step]) -> str:
    """The file."""
    return "".join(f"{step.line}\n{step.expected}{chr(10) * bool(step.expected)}" for step in story)


def read_reply(stream: BinaryIO, indent: str = "") -> str:
    """One RESP2 reply from a stream of bytes, as redis-cli prints it to a person."""
    line = stream.readline()
    assert line.endswith(b"\r\n"), f"the connection ended after {line!r}"
    kind, rest = line[:1], line[1:-2]
    if kind == b"+":
        return rest.decode()
    if kind == b"-":
        return "(error) " + rest.decode()
    if kind == b":":
        return f"(integer) {int(rest)}"
    size = int(rest)
    if size < 0:
        return "(nil)"
    if kind == b"$":
        return quote(stream.read(size + 2)[:-2])
    assert kind == b"*", line
    if size == 0:
        return "(empty array)"
    width = len(str(size))
    inner = indent + " " * (width + 2)
    items = [f"{n + 1:>{width}}) {read_reply(stream, inner)}" for n in range(size)]
    return f"\n{indent}".join(items)


def quote(data: bytes) -> str:
    """A bulk string as redis-cli prints it."""
    chars = (ESCAPES.get(b) or (chr(b) if 32 <= b < 127 else f"\\x{b:02x}") for b in data)
    return '"' + "".join(chars) + '"'
