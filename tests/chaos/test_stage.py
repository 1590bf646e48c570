"""Faults are fair: never two on one process, a minority where asked, both sides of a cut."""

from __future__ import annotations

import asyncio
import random
from types import SimpleNamespace

import pytest

from chaos.nemesis_links import KINDS
from chaos.nemesis_process import damageable, flip_bit
from chaos.stage import Stage


def stage(count: int = 5, seed: int = 1) -> Stage:
    ids = [f"n{number + 1}" for number in range(count)]

    async def leader():
        return "n2"

    nodes = SimpleNamespace(ids=ids, leader=leader)
    return Stage(nodes, None, None, random.Random(seed))  # type: ignore[arg-type]


def reached(ids, cut) -> dict[str, set[str]]:
    """Whom each node can say something to."""
    return {a: {b for b in ids if a != b and (a, b) not in cut} for a in ids}


def test_a_node_is_taken_once():
    it = stage()
    assert it.take(["n1", "n2"]) == ["n1", "n2"]
    assert it.take(["n2", "n3"]) == ["n3"]
    it.give(["n2"])
    assert it.take(["n2"]) == ["n2"]


def test_no_more_than_a_minority_where_that_is_asked():
    it = stage(count=5)
    it.minority_only = True
    assert it.take(["n1", "n2", "n3"]) == ["n1", "n2"]
    assert it.take(["n4"]) == []


@pytest.mark.parametrize("count", [3, 5])
@pytest.mark.parametrize("seed", range(5))
def test_cuts_are_what_their_names_say(count, seed):
    majority = count // 2 + 1
    it = stage(count, seed)
    for kind in ("leader-minority", "leader-majority", "bridge", "ring", "one-way"):
        cut = set(asyncio.run(KINDS[kind](it)))
        can = reached(it.ids, cut)
        side = {a: {b for b in can[a] if a in can[b]} | {a} for a in it.ids}
        if kind == "leader-minority":
            assert len(side["n2"]) < majority
            assert max(map(len, side.values())) >= majority
        elif kind == "leader-majority":
            assert len(side["n2"]) >= majority
            assert min(map(len, side.values())) < majority
        elif kind == "bridge":
            assert [len(s) for s in side.values()].count(count) == 1
            assert all(len(s) >= majority for s in side.values())
        elif kind == "ring" and count == 5:
            assert all(len(s) == 3 for s in side.values())
            assert len({frozenset(s) for s in side.values()}) == 5
        elif kind == "one-way":
            assert cut
            assert not any((b, a) in cut for a, b in cut)


def test_a_flipped_bit_is_one_bit(tmp_path):
    path = tmp_path / "raft.db"
    before = bytes(range(256)) * 10
    path.write_bytes(before)
    flip_bit(path, random.Random(3))
    after = path.read_bytes()
    changed = [a ^ b for a, b in zip(before, after, strict=True) if a != b]
    assert len(changed) == 1
    assert changed[0].bit_count() == 1


def test_damage_hits_what_a_node_keeps_and_nothing_else(tmp_path):
    for name in ("raft.db", "raft.db-wal", "raft.db-shm", "snapshot-5-1", "lock", "node.pid"):
        (tmp_path / name).write_text("x")
    names = {path.name for path in damageable(tmp_path)}
    assert names == {"raft.db", "raft.db-wal", "snapshot-5-1"}
