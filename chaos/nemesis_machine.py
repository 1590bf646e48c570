"""Faults of what a node stands on: its wall clock, its disk; and snapshots without end."""

from __future__ import annotations

import asyncio
import contextlib
import errno
from pathlib import Path

from chaos.client import Client
from chaos.preload import Control
from chaos.stage import Nemesis, Stage

HOUR_MS = 3_600_000
BALLAST = "ballast"
# The exit code of a node that refuses to start.
REFUSED = 1


def control_of(stage: Stage, node_id: str) -> Control:
    control = stage.nodes.nodes[node_id].control
    assert control is not None, "these faults need faults.c in the nodes"
    return control


class Clock(Nemesis):
    """The wall clock: an hour off, jumping, or going back and forth a hundred times a second."""

    name = "clock"
    preload = True

    async def once(self, stage: Stage) -> None:
        kind = stage.rng.choice(("skew", "jump", "strobe"))
        some = await stage.some()
        chosen = some[: stage.rng.choice((1, stage.minority, len(some)))]
        stage.begins(f"clock-{kind}", chosen)
        await getattr(self, f"_{kind}")(stage, chosen)
        if stage.rng.random() < 0.5:  # otherwise it stays wrong, as wrong clocks do
            for node_id in chosen:
                control_of(stage, node_id).set(wall_offset_ms=0)
        stage.ends(f"clock-{kind}", chosen)

    async def _skew(self, stage: Stage, chosen: list[str]) -> None:
        for node_id in chosen:
            control_of(stage, node_id).set(wall_offset_ms=stage.rng.choice((HOUR_MS, -HOUR_MS)))
        await stage.hold(1.0, 4.0)

    async def _jump(self, stage: Stage, chosen: list[str]) -> None:
        for _ in range(stage.rng.randint(2, 8)):
            for node_id in chosen:
                offset_ms = int(stage.rng.choice((-1, 1)) * 10 ** stage.rng.uniform(1, 6.5))
                control_of(stage, node_id).set(wall_offset_ms=offset_ms)
            await stage.hold(0.05, 0.6)

    async def _strobe(self, stage: Stage, chosen: list[str]) -> None:
        for _ in range(150):
            for node_id in chosen:
                control_of(stage, node_id).set(
                    wall_offset_ms=stage.rng.choice((0, HOUR_MS, -HOUR_MS, 700, -700))
                )
            await stage.hold(0.005, 0.015)
            if stage.stop.is_set():
                return


class DiskSlow(Nemesis):
    """Every fsync takes so much longer."""

    name = "disk-slow"
    preload = True

    async def once(self, stage: Stage) -> None:
        some = await stage.some()
        chosen = some[: stage.rng.choice((1, stage.minority, len(some)))]
        delay_ms = stage.rng.choice((5, 50, 250, 1200))
        stage.begins("disk-slow", chosen)
        for node_id in chosen:
            control_of(stage, node_id).set(fsync_delay_ms=delay_ms)
        await stage.hold(1.0, 4.0)
        for node_id in chosen:
            control_of(stage, node_id).set(fsync_delay_ms=0)
        stage.ends("disk-slow", chosen)


async def bring_back(stage: Stage, nodes: list[str]) -> None:
    """Start those that were just being started when this fault began: without a disk they refused.
    A node that runs stays up whatever its disk does."""
    for node_id in nodes:
        node = stage.nodes.nodes[node_id]
        if node.process is not None and node.process.returncode == REFUSED:
            node.expect_end()
            await stage.nodes.start(node_id)


class DiskFail(Nemesis):
    """fsync answers EIO: nothing that was written since the last one may be believed."""

    name = "disk-fail"
    preload = True

    async def once(self, stage: Stage) -> None:
        chosen = stage.take((await stage.some())[: stage.minority])
        if not chosen:
            return
        try:
            stage.begins("disk-fail", chosen)
            for node_id in chosen:
                control_of(stage, node_id).set(fsync_fails=True)
            await stage.hold(0.3, 3.0)
            for node_id in chosen:
                control_of(stage, node_id).set(fsync_fails=False)
            await bring_back(stage, chosen)
            stage.ends("disk-fail", chosen)
        finally:
            stage.give(chosen)


def fill(directory: Path) -> None:
    """Leave no free byte on the file system of this directory, which is small and our own."""
    with contextlib.suppress(OSError), open(directory / BALLAST, "ab", buffering=0) as ballast:
        for size in (1 << 20, 1 << 12, 1):
            while True:
                try:
                    ballast.write(bytes(size))
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    break


class DiskFull(Nemesis):
    """No space left on a node's disk. Needs root, for a small file system of its own."""

    name = "disk-full"
    tmpfs = True

    async def once(self, stage: Stage) -> None:
        some = await stage.some()
        chosen = stage.take(some[: stage.rng.choice((1, stage.minority, len(some)))])
        if not chosen:
            return
        directories = [stage.nodes.nodes[node_id].directory for node_id in chosen]
        try:
            stage.begins("disk-full", chosen)
            for directory in directories:
                fill(directory)
            await stage.hold(0.5, 4.0)
            for directory in directories:
                (directory / BALLAST).unlink(missing_ok=True)
            await bring_back(stage, chosen)
            stage.ends("disk-full", chosen)
        finally:
            stage.give(chosen)


class Snapshots(Nemesis):
    """Snapshots without end, while one node is away and has to be filled up by one."""

    name = "snapshot"
    settings = {"snapshot_log_bytes": 32_768}  # noqa: RUF012 see Nemesis

    async def once(self, stage: Stage) -> None:
        chosen = stage.take((await stage.some())[:1])
        try:
            stage.begins("snapshot", chosen)
            for node_id in chosen:
                await stage.nodes.kill(node_id)
            for _ in range(stage.rng.randint(5, 25)):
                await asyncio.gather(*(self._ask(stage, n) for n in stage.ids if n not in chosen))
                await stage.hold(0.02, 0.2)
            for node_id in chosen:
                await stage.nodes.start(node_id)
            stage.ends("snapshot", chosen)
        finally:
            stage.give(chosen)

    async def _ask(self, stage: Stage, node_id: str) -> None:
        client = Client(stage.nodes.nodes[node_id].resp, 1.0)
        await client.call("GOBLIN.SNAPSHOT")
        client.close()
