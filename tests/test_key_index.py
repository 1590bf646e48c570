"""The order of SCAN: complete, the same for everybody, and in bounded steps."""

from __future__ import annotations

import random
from zlib import crc32

from goblin_raft.key_index import BUCKET_OF_HASH, HASHES, KeyIndex


def whole_scan(index: KeyIndex, count: int, between=lambda: None) -> list[bytes]:
    found, cursor = [], 0
    while True:
        cursor, names = index.page(cursor, count)
        found += names
        if not cursor:
            return found
        between()


def test_an_empty_one_has_one_empty_page():
    assert KeyIndex().page(0, 10) == (0, [])
    assert KeyIndex().page(2**64 - 1, 10) == (0, [])


def test_every_name_comes_once_whatever_the_size_of_a_page():
    names = {b"name-%d" % number for number in range(3000)}
    index = KeyIndex(names)
    for count in (1, 7, 100, 10_000):
        found = whole_scan(index, count)
        assert len(found) == 3000
        assert set(found) == names
        assert [crc32(name) for name in found] == sorted(crc32(name) for name in names)


def test_what_stays_is_found_once_while_others_come_and_go():
    rng = random.Random(1)
    staying = {b"stay-%d" % number for number in range(500)}
    index = KeyIndex(staying)
    passing: set[bytes] = set()

    def between():
        for _ in range(40):
            name = b"pass-%d" % rng.randrange(5000)
            if name in passing:
                passing.remove(name)
                index.remove(name)
            else:
                passing.add(name)
                index.add(name)

    for _ in range(6):
        found = whole_scan(index, rng.randrange(1, 50), between)
        assert sorted(name for name in found if name in staying) == sorted(staying)
        assert len(found) == len(set(found))


def test_a_page_depends_on_the_names_and_not_on_how_they_came_about():
    names = [b"%d" % number for number in range(2000)]
    old, new = KeyIndex(), KeyIndex(names[1000:])
    for name in names:
        old.add(name)
    for name in names[:1000]:
        old.remove(name)
    cursor = 0
    while True:
        page = old.page(cursor, 9)
        assert page == new.page(cursor, 9)
        cursor = page[0]
        if not cursor:
            break


def test_buckets_are_even_and_go_when_they_are_empty():
    index = KeyIndex(b"%d" % number for number in range(40_000))
    assert max(map(len, index._buckets.values())) < 50
    for number in range(40_000):
        index.remove(b"%d" % number)
    assert index._buckets == {}


def test_each_name_is_where_it_belongs_after_a_random_history():
    rng = random.Random(2)
    index, names = KeyIndex(), set()
    for _ in range(20_000):
        name = b"%d" % rng.randrange(6000)
        if name in names:
            names.remove(name)
            index.remove(name)
        else:
            names.add(name)
            index.add(name)
    for at, bucket in index._buckets.items():
        assert bucket
        assert all(crc32(name) >> BUCKET_OF_HASH == at for name in bucket)
    assert set().union(*index._buckets.values()) == names


def test_names_of_one_hash_share_a_page_and_are_not_lost():
    """crc32 is linear: these three differ and collide."""
    base = b"\0" * 8
    twins = [base, *colliding(base, 2)]
    index = KeyIndex([*twins, *(b"%d" % number for number in range(400))])
    found = whole_scan(index, 1)
    assert len(found) == 403
    for name in twins:
        index.remove(name)
    assert len(whole_scan(index, 1)) == 400


def colliding(name: bytes, count: int) -> list[bytes]:
    """Other names with the same crc32, by patching the last four of eight bytes."""
    top = {entry >> 24: byte for byte, entry in enumerate(_crc_table())}
    target = crc32(name)
    found = []
    for number in range(1, count + 1):
        prefix = number.to_bytes(4, "big")
        state = crc32(prefix) ^ 0xFFFFFFFF
        wanted = target ^ 0xFFFFFFFF
        indexes = []
        for _ in range(4):
            index = top[wanted >> 24]
            indexes.append(index)
            wanted = ((wanted ^ _crc_table()[index]) << 8) & 0xFFFFFFFF
        patch = b""
        for index in reversed(indexes):
            byte = (state ^ index) & 0xFF
            patch += bytes([byte])
            state = (state >> 8) ^ _crc_table()[index]
        found.append(prefix + patch)
        assert crc32(found[-1]) == target
    return found


def _crc_table() -> list[int]:
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ (0xEDB88320 if value & 1 else 0)
        table.append(value)
    return table


def test_a_name_near_any_place():
    index = KeyIndex([b"a", b"b", b"c"])
    found = {index.near(place) for place in range(0, HASHES, HASHES // 64)}
    assert found == {b"a", b"b", b"c"}
