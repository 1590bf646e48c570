"""Faults of processes: kill -9, SIGSTOP, SIGTERM, and a disk that lies after a crash.

What a node must do is stated where it is checked: whatever it does, its clients' history decides.
"""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

from chaos.stage import Nemesis, Stage

# A damaged node has said so by then, or it serves.
VERDICT_BOUND_S = 15.0


class Kill(Nemesis):
    """kill -9, and a start some time later."""

    name = "kill"

    async def victims(self, stage: Stage) -> tuple[str, list[str]]:
        kind = stage.rng.choice(("leader", "leader", "follower", "minority", "majority", "all"))
        return await self.of_kind(stage, kind)

    async def of_kind(self, stage: Stage, kind: str) -> tuple[str, list[str]]:
        leader, followers = await stage.line_up()
        either = [leader, *followers] if stage.rng.random() < 0.5 else followers
        chosen = {
            "leader": [leader],
            "follower": followers[:1],
            "minority": either[: stage.minority],
            "majority": [leader, *followers[: stage.minority]],
            "all": [leader, *followers],
        }[kind]
        return f"kill-{kind}", chosen

    async def once(self, stage: Stage) -> None:
        what, chosen = await self.victims(stage)
        chosen = stage.take(chosen)
        if not chosen:
            return
        try:
            stage.begins(what, chosen)
            await asyncio.gather(*map(stage.nodes.kill, chosen))
            await stage.hold(0.1, 3.0)
            for node_id in chosen:
                await stage.nodes.start(node_id)
                if stage.rng.random() < 0.3:
                    await stage.hold(0.05, 0.5)
            stage.ends(what, chosen)
        finally:
            stage.give(chosen)


class KillOf(Kill):
    """The same, always of one kind."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.name = f"kill-{kind}"

    async def victims(self, stage: Stage) -> tuple[str, list[str]]:
        return await self.of_kind(stage, self.kind)


class Pause(Nemesis):
    """SIGSTOP and SIGCONT: a node that believes that no time has passed."""

    name = "pause"

    async def once(self, stage: Stage) -> None:
        some = await stage.some()
        count = stage.rng.choice((1, 1, stage.minority, stage.minority + 1))
        chosen = stage.take(some[:count])
        if not chosen:
            return
        what = "pause"
        try:
            stage.begins(what, chosen)
            for node_id in chosen:
                stage.nodes.pause(node_id)
            await stage.hold(0.3, 4.0)
        finally:
            for node_id in chosen:
                stage.nodes.resume(node_id)
            stage.ends(what, chosen)
            stage.give(chosen)


class Restart(Nemesis):
    """SIGTERM, as an operator does it: one node or all in turn. Each must end with code 0."""

    name = "restart"

    async def once(self, stage: Stage) -> None:
        some = await stage.some()
        count = stage.rng.choice((1, 1, len(some)))
        for node_id in some[:count]:
            if not stage.take([node_id]):
                continue
            try:
                stage.begins("restart", [node_id])
                code = await stage.nodes.terminate(node_id)
                if code != 0:
                    how = "had to be killed" if code is None else f"ended with code {code}"
                    stage.findings.append(f"{node_id} {how} after SIGTERM")
                await stage.hold(0.0, 0.8)
                await stage.nodes.start(node_id)
                stage.ends("restart", [node_id])
            finally:
                stage.give([node_id])
            await stage.nodes.wait_until_all_serve(2.0)


def flip_bit(path: Path, rng: random.Random) -> str:
    """Change one bit of a file; where, in words."""
    with path.open("r+b") as file:
        size = file.seek(0, 2)
        at, bit = rng.randrange(size), rng.randrange(8)
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ (1 << bit)]))
    return f"bit {bit} of byte {at} of {size} in {path.name}"


# What a node does not rely on after a crash: SQLite makes -shm anew, and drafts are thrown away.
NOT_KEPT = ("lock", "node.pid", "ballast")
NOT_KEPT_SUFFIXES = (".db-shm", ".draft", ".part")


def damageable(directory: Path) -> list[Path]:
    """The files whose damage a node must notice: what it keeps."""
    return sorted(
        path
        for path in directory.iterdir()
        if path.is_file()
        and path.stat().st_size
        and path.name not in NOT_KEPT
        and not path.name.endswith(NOT_KEPT_SUFFIXES)
    )


class Corrupt(Nemesis):
    """A flipped bit in one node's log or snapshot while it is down.

    The node must refuse to start, or be unharmed, because the bit meant nothing. If it refused, the
    operator wipes it, and it is filled up by the others. One node at a time, and a minority.
    """

    name = "corrupt"
    settings = {"snapshot_log_bytes": 65_536}  # noqa: RUF012 see Nemesis

    async def once(self, stage: Stage) -> None:
        chosen = stage.take((await stage.some())[:1])
        if not chosen:
            return
        [node_id] = chosen
        node = stage.nodes.nodes[node_id]
        try:
            stage.begins("corrupt", chosen)
            await stage.nodes.kill(node_id)
            files = damageable(node.directory)
            where = flip_bit(stage.rng.choice(files), stage.rng)
            await stage.nodes.start(node_id)
            refused = await self._refuses(stage, node_id)
            if refused is None:
                stage.findings.append(f"{node_id} neither serves nor refuses: {where}")
                await stage.nodes.kill(node_id)
            if refused is not False:
                node.expect_end()
                stage.nodes.wipe(node_id)
                await stage.nodes.start(node_id)
            stage.remark({True: "refused", False: "unharmed", None: "stuck"}[refused])
            # Two nodes that are being filled up at once would be a majority without its log.
            waiting = await stage.nodes.wait_until_all_serve(VERDICT_BOUND_S)
            if node_id in waiting:
                stage.findings.append(f"{node_id} does not come back after its wipe ({where})")
            stage.ends("corrupt", chosen)
        finally:
            stage.give(chosen)

    async def _refuses(self, stage: Stage, node_id: str) -> bool | None:
        """True: it ended; False: it serves; None: neither in time."""
        node = stage.nodes.nodes[node_id]
        loop = asyncio.get_running_loop()
        give_up_s = loop.time() + VERDICT_BOUND_S
        while loop.time() < give_up_s:
            if not node.up:
                return True
            if (await stage.nodes.info(node_id)).get("raft_leader"):
                return False
            await asyncio.sleep(0.05)
        return None
