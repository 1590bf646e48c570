"""Pages that can go stale do not, and nothing is declared that no story ever shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from goblin_raft import docs_examples, docs_pages, errors
from goblin_raft.commands import TABLE
from goblin_raft.errors import Cause
from tests.stories import TRANSCRIPTS, read_story

DOCS = Path(__file__).parent.parent / "docs"
STEPS = [step for path in TRANSCRIPTS.glob("*.txt") for step in read_story(path)]
# Their replies depend on the node, the time or the version, so other tests show them.
NOT_FOR_STORIES = {
    "CLIENT ID",
    "CLIENT INFO",
    "COMMAND",
    "COMMAND COUNT",
    "COMMAND LIST",
    "GOBLIN.DIGEST",
    "HELLO",
    "INFO",
    "LASTSAVE",
    "MEMORY",
    "ROLE",
    "TIME",
    "WAITAOF",
}
# No request can cause it; tests/test_state_machine.py does.
BUGS_ONLY = {errors.INTERNAL_ERROR}


@pytest.mark.parametrize("page", ["commands", "errors"])
def test_generated_pages_are_current(page):
    expected = getattr(docs_pages, f"render_{page}")()
    assert (DOCS / f"{page}.md").read_text() == expected, "run `goblin-raft docs --write docs`"


@pytest.mark.parametrize("name", sorted(set(TABLE) - {n.encode() for n in NOT_FOR_STORIES}))
def test_every_command_is_in_a_story(name):
    words = name.split()
    told = [[word.upper() for word in (step.argv or [])[: len(words)]] for step in STEPS]
    assert words in told


@pytest.mark.parametrize(
    "row",
    [row for row in errors.TABLE if row.cause is Cause.REQUEST and row not in BUGS_ONLY],
    ids=lambda row: row.text,
)
def test_every_error_of_a_request_is_in_a_story(row):
    pattern = re.sub(r"\\{\w+\\}", ".*", re.escape("(error) " + row.text))
    assert any(re.fullmatch(pattern, step.expected) for step in STEPS)


def test_the_one_error_that_is_not_definite():
    assert [row.code for row in errors.TABLE if not row.definite] == ["UNCERTAIN"]
    assert not errors.UNCERTAIN.failure().definite
    assert errors.CLUSTERDOWN.failure().definite


@pytest.mark.parametrize("row", errors.TABLE, ids=lambda row: row.text)
def test_error_texts_are_lines_that_no_client_takes_for_something_else(row):
    """redisson tries again on anything that begins with WAIT, redis-py on LOADING."""
    assert "\n" not in row.text
    assert "\r" not in row.text
    assert not row.text.startswith(("WAIT", "ERR WAIT", "LOADING", "BUSY", "READONLY", "MOVED"))
    assert row.advice.endswith(".")


def test_what_a_client_sent_cannot_end_an_error_line():
    failure = errors.unknown_command([b"a\r\n+OK", b"\xff\r\n" * 200, b"{0}{name}"])
    assert "\r" not in failure.text
    assert "\n" not in failure.text
    failure.text.encode()


def test_examples_come_with_what_led_to_them(tmp_path):
    (tmp_path / "story.txt").write_text(
        "# A story.\n\n> GET k\n(nil)\n\n> SET k v\nOK\n> SET other v\nOK\n\n> GET\n"
        '(error) ERR wrong number\n\nn2> get k\n"v"\n\n> HGETALL k\n(error) WRONGTYPE x\n'
        "\n> GET k\nQUEUED\n"
    )
    steps = docs_examples.read_steps(tmp_path)
    told = ["> GET k", "(nil)", "> SET k v", "OK", "n2> get k", '"v"']
    assert docs_examples.example(steps, "GET") == told
    assert docs_examples.reply_kinds(steps, "GET") == ["bulk string", "nil"]
    assert docs_examples.error_texts(steps, "HGETALL") == ["WRONGTYPE x"]
    assert docs_examples.example(steps, "HGETALL") == []


@pytest.mark.parametrize(
    "reply, kind",
    [("OK", "status"), ("(integer) 1", "integer"), (' 1) "a"', "array"), ('"a"', "bulk string")],
)
def test_kinds_of_reply(reply, kind):
    assert docs_examples.kind_of(reply) == kind
