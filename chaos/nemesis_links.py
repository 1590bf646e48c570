"""Faults of the network between nodes: cut, cut in one direction, slow, lossy.

Which nodes are on which side is chosen by who leads at that moment.
"""

from __future__ import annotations

from itertools import product

from chaos.proxy import Pair
from chaos.stage import Nemesis, Stage


def between(one: list[str], other: list[str]) -> list[Pair]:
    """Both directions of every link between two sets."""
    return [*product(one, other), *product(other, one)]


async def leader_in_minority(stage: Stage) -> list[Pair]:
    leader, followers = await stage.line_up()
    inside = [leader, *followers[: stage.minority - 1]]
    return between(inside, [n for n in stage.ids if n not in inside])


async def leader_in_majority(stage: Stage) -> list[Pair]:
    _, followers = await stage.line_up()
    outside = followers[: stage.rng.randint(1, stage.minority)]
    return between(outside, [n for n in stage.ids if n not in outside])


async def bridge(stage: Stage) -> list[Pair]:
    """Two halves that cannot reach each other, and one node between that reaches all."""
    nodes = await stage.some()
    middle = len(nodes) // 2
    return between(nodes[:middle], nodes[middle + 1 :])


async def one_way(stage: Stage) -> list[Pair]:
    """Somebody is heard but does not hear, or hears and is not heard."""
    one = (await stage.some())[0]
    others = [n for n in stage.ids if n != one]
    kind = stage.rng.choice(("mute", "deaf", "one link"))
    if kind == "mute":
        return [(one, other) for other in others]
    if kind == "deaf":
        return [(other, one) for other in others]
    return [(one, stage.rng.choice(others))]


async def ring(stage: Stage) -> list[Pair]:
    """Every node reaches two neighbours only: of five, each sees a majority, no two the same."""
    nodes, count = await stage.some(), len(stage.ids)
    apart = [
        (i, j)
        for i, j in product(range(count), repeat=2)
        if (i - j) % count not in (0, 1, count - 1)
    ]
    return [(nodes[i], nodes[j]) for i, j in apart]


KINDS = {
    "leader-minority": leader_in_minority,
    "leader-majority": leader_in_majority,
    "bridge": bridge,
    "one-way": one_way,
    "ring": ring,
}


class Partition(Nemesis):
    """Links that carry nothing for a while; half of the cuts also end the connections."""

    def __init__(self, kind: str | None = None) -> None:
        self.kind = kind
        self.name = f"partition-{kind}" if kind else "partition"

    async def once(self, stage: Stage) -> None:
        kind = self.kind or stage.rng.choice([*KINDS, "leader-minority"])
        pairs = await KINDS[kind](stage)
        if not pairs:
            return
        hit = sorted({node for pair in pairs for node in pair})
        what = f"partition-{kind}"
        stage.begins(what, hit)
        await stage.links.cut(pairs, reset=stage.rng.random() < 0.5)
        await stage.hold(0.8, 5.0)
        await stage.links.heal(pairs)
        stage.ends(what, hit)


class Slow(Nemesis):
    """Links that take long."""

    name = "slow"

    async def once(self, stage: Stage) -> None:
        one = (await stage.some())[0]
        others = [n for n in stage.ids if n != one]
        everywhere = stage.rng.random() < 0.4
        pairs = between(stage.ids, stage.ids) if everywhere else between([one], others)
        pairs = [(a, b) for a, b in dict.fromkeys(pairs) if a != b]
        delay_ms = stage.rng.choice((5, 20, 60, 150))
        stage.begins("slow", stage.ids if everywhere else [one])
        await stage.links.shape(pairs, delay_ms=delay_ms, jitter_ms=delay_ms, loss=0)
        await stage.hold(1.0, 5.0)
        await stage.links.heal(pairs)
        stage.ends("slow", stage.ids if everywhere else [one])


class Lossy(Nemesis):
    """Links that lose packets."""

    name = "lossy"

    async def once(self, stage: Stage) -> None:
        one = (await stage.some())[0]
        everywhere = stage.rng.random() < 0.4
        others = [n for n in stage.ids if n != one]
        pairs = between(stage.ids, stage.ids) if everywhere else between([one], others)
        pairs = [(a, b) for a, b in dict.fromkeys(pairs) if a != b]
        loss = stage.rng.choice((0.02, 0.1, 0.3))
        stage.begins("lossy", stage.ids if everywhere else [one])
        await stage.links.shape(pairs, delay_ms=0, jitter_ms=0, loss=loss)
        await stage.hold(1.0, 5.0)
        await stage.links.heal(pairs)
        stage.ends("lossy", stage.ids if everywhere else [one])
