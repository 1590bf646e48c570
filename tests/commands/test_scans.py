"""What is picked at random is there, and varies; steps are bounded whatever a client asks for."""

from __future__ import annotations

import pytest

from goblin_raft.key_index import PAGE_NAMES_MAX


def test_a_random_key_is_any_key_that_is_not_over(node):
    for number in range(40):
        node.call("SET", f"k{number}", "v")
    node.machine.keyspaces[0].deadlines.update({b"k%d" % number: 0 for number in range(30)})
    found = {node.call("RANDOMKEY") for _ in range(400)}
    assert found <= {b"k%d" % number for number in range(30, 40)}
    assert len(found) > 2


def test_there_is_no_random_key_when_all_are_over(node):
    node.call("SET", "k", "v")
    node.machine.keyspaces[0].deadlines[b"k"] = 0
    assert node.call("RANDOMKEY") is None


OF_TYPES = [("HSET", "HRANDFIELD", "WITHVALUES"), ("ZADD", "ZRANDMEMBER", "WITHSCORES")]


@pytest.mark.parametrize("size", [3, 1000])
@pytest.mark.parametrize("write, name, more", OF_TYPES)
def test_random_names_are_names(node, size, write, name, more):
    names = [b"%d" % number for number in range(size)]
    for each in names:
        node.call(write, "k", each, each)
    for count in (1, 2, 3, size, size + 1):
        found = node.call(name, "k", count)
        assert len(found) == len(set(found)) == min(size, count)
        assert set(found) <= set(names)
    for count in (1, 10, 2000):
        found = node.call(name, "k", -count)
        assert len(found) == count
        assert set(found) <= set(names)
    for member, held in node.call(name, "k", 9, more).items:
        assert member == (held if write == "HSET" else b"%d" % held.number)
    assert len({node.call(name, "k") for _ in range(200)}) > 1


def test_a_page_is_bounded(node):
    count = PAGE_NAMES_MAX + 2000
    for start in range(0, count, 1000):
        words = [word for number in range(start, start + 1000) for word in (number, "v")]
        node.call("MSET", *words)
        node.call("HSET", "h", *words)
    for words in (["SCAN"], ["HSCAN", "h"]):
        cursor, found = node.call(*words, 0, "COUNT", 10**12)
        assert cursor != b"0"
        assert len(found) // len(words) == PAGE_NAMES_MAX


def test_scan_finds_what_stays_while_others_come_and_go(node):
    for number in range(500):
        node.call("SET", f"stay{number}", "v")
    cursor, found, number = b"0", [], 0
    while cursor != b"0" or not found:
        cursor, page = node.call("SCAN", cursor, "COUNT", 7)
        found += page
        for _ in range(20):
            number += 1
            node.call("SET", f"pass{number}", "v", "PX", 100)
            node.call("DEL", f"pass{number - 30}")
        node.pass_time(3)
    staying = sorted(name for name in found if name.startswith(b"stay"))
    assert staying == sorted(b"stay%d" % number for number in range(500))


def test_a_cursor_means_the_same_after_a_snapshot(node):
    for number in range(2000):
        node.call("HSET", "h", f"f{number}", "v")
        node.call("SET", f"k{number}", "v")
    cursor, _ = node.call("SCAN", 0, "COUNT", 700)
    field_cursor, _ = node.call("HSCAN", "h", 0, "COUNT", 700)
    before = node.call("SCAN", cursor, "COUNT", 50), node.call("HSCAN", "h", field_cursor)
    node.machine.restore(node.machine.state())
    assert (node.call("SCAN", cursor, "COUNT", 50), node.call("HSCAN", "h", field_cursor)) == before
