"""GOBLIN.DIGEST: equal states have equal digests, and any difference shows."""

from __future__ import annotations

from tests.conftest import MemoryNode


def told(*requests: tuple[str, ...]) -> list:
    node = MemoryNode()
    for words in requests:
        node.call(*words)
    return node.call("GOBLIN.DIGEST")


def test_equal_histories_have_equal_digests_at_the_same_index():
    requests = [("GOBLIN.CLAIM", "c", "r", "w", "30"), ("SET", "r", "done")]
    assert told(*requests) == told(*requests)
    assert told(*requests)[0] == 2


def test_any_difference_shows():
    claim = ("GOBLIN.CLAIM", "c", "r", "w", "30")
    states = [
        told(claim),
        told(("GOBLIN.CLAIM", "c", "r", "x", "30")),
        told(("GOBLIN.CLAIM", "c", "r", "w", "31")),
        told(("GOBLIN.CLAIM", "d", "r", "w", "30")),
        told(("SET", "c", "w")),
    ]
    assert len({digest for _, digest in states}) == len(states)
