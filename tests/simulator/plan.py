"""From a seed to a schedule: everything that is decided before a run begins, as plain data.

A plan can be made shorter event by event (shrink.py); the same plan always gives the same run.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, NamedTuple

# Each node's steady clock is off by at most so much, so two differ by less than the 500 ppm that
# the product assumes (docs/guarantees.md).
RATE_ERROR = 240e-6
WALL_JUMP_MS = 3e6
REGISTERS = (b"r0", b"r1", b"r2")
CLAIMS = (b"c0", b"c1", b"c2")
LEADER = -1  # in place of a node's number: whoever leads then

CRASH_STEPS = ("now", "turn", "sending", "disk", "written", "answering")


class Event(NamedTuple):
    """Something that happens to the cluster."""

    at_ms: float
    kind: str
    arguments: tuple[Any, ...]


@dataclass(frozen=True)
class Settings:
    """What holds during a whole run."""

    heartbeat_ms: int
    election_min_ms: int
    election_max_ms: int
    quorum_timeout_ms: int
    leader_wait_ms: int
    commit_timeout_ms: int
    snapshot_log_bytes: int
    keep_share: float  # of the log behind a snapshot
    entry_bytes_max: int
    delay_ms: float
    spike: float  # share of messages that take much longer
    loss: float  # share of messages that are lost although the session lives on
    disk_ms: float
    real_files: bool
    encoded: bool  # messages through the codec, or as they are
    rates: tuple[float, ...]
    walls_ms: tuple[float, ...]


@dataclass(frozen=True)
class Plan:
    """One run."""

    seed: int
    nodes: int
    duration_ms: float
    settings: Settings
    events: tuple[Event, ...]
    noise: int = 0  # another number, other delays: for shrinking, where the schedule must stay


def make_plan(seed: int, nodes: int) -> Plan:
    """The schedule of a seed."""
    rng = random.Random(f"{seed}/{nodes}")
    settings = make_settings(rng, seed, nodes)
    duration_ms = rng.choice((400.0, 500.0, 600.0, 800.0, 1600.0))
    events = make_operations(rng, nodes, duration_ms) + make_faults(rng, nodes, duration_ms)
    return Plan(seed, nodes, duration_ms, settings, tuple(sorted(events)))


def make_settings(rng: random.Random, seed: int, nodes: int) -> Settings:
    heartbeat_ms = rng.choice((30, 45))
    election_min_ms = heartbeat_ms * rng.choice((3, 4)) + 1
    return Settings(
        heartbeat_ms=heartbeat_ms,
        election_min_ms=election_min_ms,
        election_max_ms=election_min_ms * 2,
        quorum_timeout_ms=election_min_ms * rng.choice((2, 3)),
        leader_wait_ms=rng.choice((300, 600)),
        commit_timeout_ms=rng.choice((300, 300, 700)),
        snapshot_log_bytes=rng.choice((4096, 4096, 8192, 100_000)),
        keep_share=rng.choice((0.0, 0.0, 0.25)),
        entry_bytes_max=rng.choice((1100, 1100, 4000)),
        delay_ms=rng.choice((0.5, 2.0, 2.0, 8.0)),
        spike=rng.choice((0.0, 0.01, 0.05)),
        loss=rng.choice((0.0, 0.0, 0.0, 0.01)),
        disk_ms=rng.choice((0.3, 1.0, 5.0)),
        real_files=seed % 16 == 5,
        encoded=seed % 4 == 1,
        rates=tuple(1 + rng.uniform(-RATE_ERROR, RATE_ERROR) for _ in range(nodes)),
        walls_ms=tuple(rng.uniform(-WALL_JUMP_MS, WALL_JUMP_MS) for _ in range(nodes)),
    )


# ---- what clients ask ------------------------------------------------------------------------


def make_operations(rng: random.Random, nodes: int, duration_ms: float) -> list[Event]:
    """Bursts, so that several commands are under way at once, on a few keys."""
    events = []
    at_ms = rng.uniform(0, 30)
    gap_ms = rng.choice((12, 25, 50))
    sizes = rng.choice(((0, 0, 100, 400), (0,), (400,)))
    while at_ms < duration_ms:
        kinds = rng.choice((("set", "get", "cas"), ("claim", "claim", "renew", "release", "peek")))
        kinds = rng.choice((kinds, kinds, ("tally",), ("get",)))
        for _ in range(rng.choice((1, 1, 2, 3, 6))):
            kind = rng.choice(kinds)
            node = rng.randrange(nodes)
            key = rng.choice(CLAIMS if kind in ("claim", "renew", "release", "peek") else REGISTERS)
            number = rng.randrange(1 << 40)
            lease_ms = rng.choice((20, 100, 400))
            size = rng.choice(sizes)
            arguments = (node, key, number, lease_ms, size)
            events.append(Event(at_ms + rng.uniform(0, 4), kind, arguments))
        at_ms += rng.expovariate(1 / gap_ms)
    return events


# ---- what goes wrong -------------------------------------------------------------------------

# Kind of fault and its weight.
FAULTS = {
    "cut": 10,
    "hold": 6,
    "one_way": 8,
    "isolate": 8,
    "split": 5,
    "bridge": 3,
    "crash": 12,
    "power": 2,
    "pause": 5,
    "slow_disk": 4,
    "stuck_disk": 3,
    "disk_error": 2,
    "hand_over": 8,
    "snapshot": 8,
    "wall": 3,
    "rate": 2,
    "damage": 3,
    "raise": 1,
    "strand": 4,
    "leave_behind": 8,
    "wipe": 3,
}


def make_faults(rng: random.Random, nodes: int, duration_ms: float) -> list[Event]:
    """Some runs have many faults, some a few kinds only, and some none to speak of."""
    kinds = list(FAULTS)
    if rng.random() < 0.5:
        kinds = rng.sample(kinds, rng.randint(2, 6))
    weights = [FAULTS[kind] for kind in kinds]
    gap_ms = rng.choice((25, 60, 60, 150))
    events = []
    at_ms = rng.uniform(0, 200)
    while at_ms < duration_ms:
        events += make_fault(rng, rng.choices(kinds, weights)[0], nodes, at_ms)
        if rng.random() < 0.15:  # two things at once are worse than one after the other
            kind = rng.choices(kinds, weights)[0]
            events += make_fault(rng, kind, nodes, at_ms + rng.uniform(0, 3))
        at_ms += rng.expovariate(1 / gap_ms)
    return events


def make_fault(rng: random.Random, kind: str, nodes: int, at_ms: float) -> list[Event]:
    arguments = make_arguments(rng, kind, nodes)
    events = [Event(at_ms, kind, arguments)]
    if kind == "leave_behind":  # and something for the snapshot that it then needs
        target, for_ms = arguments
        more = rng.choice(("", "damage", "crash", "snapshot"))
        if more == "snapshot":  # its own, which takes longer than to get the leader's
            events.append(Event(at_ms + for_ms - 5, more, (target, 400.0, False)))
        if more == "damage":
            events.append(Event(at_ms, more, (target, rng.random())))
        if more == "crash":
            step, fate = rng.choice(("disk", "written", "answering")), rng.random()
            back_ms = at_ms + for_ms + rng.uniform(5, 30)
            events.append(Event(back_ms, more, (target, rng.uniform(1, 30), step, fate)))
    return events


def make_arguments(rng: random.Random, kind: str, nodes: int) -> tuple[Any, ...]:
    one, other = rng.sample(range(nodes), 2)
    target = LEADER if rng.random() < 0.5 else one
    for_ms = rng.choice((5.0, 30.0, 100.0, 300.0)) * rng.uniform(0.5, 1.5)
    match kind:
        case "cut":
            return one, other, for_ms / 4
        case "one_way" | "hold":
            return (one, other, for_ms, rng.random() < 0.5)
        case "isolate":
            return target, for_ms, rng.random() < 0.3
        case "split" | "bridge":
            order = rng.sample(range(nodes), nodes)
            return tuple(order), rng.randint(1, nodes - 1), for_ms, rng.random() < 0.3
        case "crash":
            return target, for_ms, rng.choice(CRASH_STEPS), rng.random()
        case "power":
            return (tuple((rng.uniform(1, 100), rng.random()) for _ in range(nodes)),)
        case "pause" | "stuck_disk":
            return target, for_ms
        case "slow_disk":
            return target, for_ms * 2, rng.choice((10.0, 40.0))
        case "disk_error":
            return target, for_ms
        case "damage":
            return one, rng.random()
        case "wipe":
            return one, for_ms
        case "leave_behind":
            return one, 60 + for_ms
        case "strand":
            rest_ms = rng.choice((5.0, 20.0, 60.0))
            return one, rng.randint(0, max(0, nodes // 2 - 1)), for_ms, rest_ms, rng.uniform(0, 60)
        case "hand_over" | "raise":
            return ()
        case "snapshot":
            return target, rng.choice((0.5, 20.0, 150.0, 500.0)), rng.random() < 0.1
        case "wall":
            return one, rng.uniform(-WALL_JUMP_MS, WALL_JUMP_MS)
        case "rate":
            return one, 1 + rng.uniform(-RATE_ERROR, RATE_ERROR)
    raise AssertionError(kind)
