"""One run: a cluster, clients, faults, healing, last reads, a quiet time, and the verdict.

Everything that a run decides by chance comes from its seed; what depends on timing (who leads when
a fault begins) does not repeat exactly, and the history says what happened.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import random
import shlex
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaos import history, preload, report
from chaos.catalogue import NEMESES, WORKLOADS
from chaos.needs import root
from chaos.netns import NetnsLinks
from chaos.nodes import Launch, Links, Nodes
from chaos.proxy import ProxyLinks
from chaos.stage import Nemesis, Stage, attack
from chaos.verdict import Verdict, judge
from chaos.workload import Arena, GoblinDialect, Session, Timeline, Workload, connector, working
from goblin_raft import __version__
from goblin_raft.config import Config

# After the last fault every node must serve within this time. It has to be filled up, perhaps, and
# on a machine that is busy with other things.
RECOVERY_BOUND_S = 30.0
DIGEST_BOUND_S = 10.0
LEADER_POLL_S = 0.1
TMPFS_BYTES = 48 * 1024 * 1024
QUIET_MIN_S = 1.0
# In a node's log these are bugs, or what a client should never have caused.
ALARMS = ("Traceback", "apply.bug", "CRITICAL")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to do; the command that repeats it is made of this."""

    workload: str
    nemeses: tuple[str, ...]
    seconds: float
    nodes: int
    seed: int
    directory: Path
    network: str = "proxy"
    workers: int = 2
    planted: str | None = None
    keep: bool = False

    def command(self) -> str:
        words = ["cluster/chaos", "--workload", self.workload]
        words += ["--nemesis", ",".join(self.nemeses), "--seconds", f"{self.seconds:g}"]
        words += ["--nodes", str(self.nodes), "--seed", str(self.seed)]
        if self.network != "proxy":
            words += ["--network", self.network]
        if self.planted is not None:
            words += ["--planted-bug", self.planted]
        return shlex.join(words)


@dataclass(slots=True)
class Result:
    """What a run came to. `findings` of the harness stand beside those of the checkers."""

    plan: Plan
    verdict: Verdict
    findings: list[str]
    operations: int
    outcomes: dict[str, int]
    faults: dict[str, int]
    remarks: dict[str, int]
    seconds: float
    recovery_s: float

    @property
    def valid(self) -> bool | str:
        """True, False, or "unknown"."""
        return False if self.findings else self.verdict.valid

    def summary(self) -> dict[str, Any]:
        """For a machine, and for the sum of many runs."""
        texts = [f"{f.rule}: {f.text}" for f in self.verdict.findings]
        return {
            "command": self.plan.command(),
            "workload": self.plan.workload,
            "nemeses": list(self.plan.nemeses),
            "nodes": self.plan.nodes,
            "seed": self.plan.seed,
            "planted": self.plan.planted,
            "version": version(),
            "date": time.strftime("%Y-%m-%d %H:%M"),
            "valid": self.valid,
            "findings": [*self.findings, *texts],
            "operations": self.operations,
            "outcomes": self.outcomes,
            "faults": self.faults,
            "remarks": self.remarks,
            "seconds": round(self.seconds, 1),
            "recovery_s": round(self.recovery_s, 2),
            "gaps": gaps_of(self.verdict),
        }


def gaps_of(verdict: Verdict) -> list[tuple[str, float | None, float | None]]:
    """For each fault how long no client at all was answered: a write, and a read."""
    outages = [o for check in verdict.checks for o in check.figures.get("outages", [])]
    return [(o["what"], o["write_gap_ms"], o["read_gap_ms"]) for o in outages]


def version() -> str:
    """The release and, in a checkout, the commit."""
    try:
        told = subprocess.run(
            ["git", "describe", "--always", "--dirty"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return __version__
    return f"{__version__} ({told.stdout.strip()})"


def judged(directory: Path, complaints: Sequence[str]) -> Verdict:
    """The checkers' verdict on the history in this directory, and a page about it beside it."""
    seen = history.read(directory / "history.jsonl")
    verdict = judge(seen)
    report.write(directory / "report.html", seen, verdict, complaints)
    return verdict


class Run:
    """The parts of one run, put together."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.workload: Workload = WORKLOADS[plan.workload]()
        self.nemeses: list[Nemesis] = [NEMESES[name]() for name in plan.nemeses]
        plan.directory.mkdir(parents=True, exist_ok=True)
        self.mounted: list[Path] = []
        settings: dict[str, Any] = {}
        for nemesis in self.nemeses:
            settings |= nemesis.settings
        launch = Launch(base=dataclasses.replace(Config(), **settings))
        if plan.planted is not None:
            launch.module = ("tests.planted_node", plan.planted)
        if any(nemesis.tmpfs for nemesis in self.nemeses):
            root()
        if any(nemesis.preload for nemesis in self.nemeses):
            launch.library = preload.build(plan.directory)
        links: Links = (
            NetnsLinks()
            if plan.network == "netns"
            else ProxyLinks(random.Random(f"{plan.seed}:links"))
        )
        self.nodes = Nodes(plan.directory, plan.nodes, links, launch)
        self.links = links

    # ---- phases --------------------------------------------------------------------------------

    async def run(self) -> Result:
        plan = self.plan
        about = {
            "workload": plan.workload,
            "nemeses": list(plan.nemeses),
            "seed": plan.seed,
            "nodes": plan.nodes,
            "seconds": plan.seconds,
            "version": version(),
            "system": "goblin",
            "command": plan.command(),
        }
        with history.Recorder(plan.directory / "history.jsonl", about) as recorder:
            timeline = Timeline(recorder)
            stage = Stage(self.nodes, self.links, timeline, random.Random(plan.seed))
            stage.minority_only = "clock" in plan.nemeses
            try:
                recovery_s = await self._phases(stage, timeline)
            finally:
                await self.nodes.close()
                self._unmount()
        seconds = timeline.now_ms() / 1000
        findings = [*stage.findings, *self._complaints()]
        verdict = await asyncio.to_thread(judged, plan.directory, findings)
        result = Result(
            plan,
            verdict,
            findings,
            timeline.operations,
            timeline.outcomes,
            stage.counts,
            stage.remarks,
            seconds,
            recovery_s,
        )
        (plan.directory / "result.json").write_text(json.dumps(result.summary(), indent=1) + "\n")
        if result.valid is True and not plan.keep:
            self._tidy()
        return result

    async def _phases(self, stage: Stage, timeline: Timeline) -> float:
        plan = self.plan
        await self.nodes.open()
        self._mount()
        await asyncio.gather(*map(self.nodes.start, self.nodes.ids))
        waiting = await self.nodes.wait_until_all_serve(RECOVERY_BOUND_S)
        if waiting:
            stage.findings.append(f"{', '.join(waiting)} did not serve at the start")
            return 0.0
        addresses = {node_id: node.resp for node_id, node in self.nodes.nodes.items()}
        connect = connector(addresses)
        arena = Arena(connect, self.nodes.ids, GoblinDialect(), timeline, plan.seed)
        timeline.event("phase", "faults")
        await self.workload.prepare(arena)
        watcher = asyncio.create_task(self._watch_leaders(timeline))
        try:
            async with working(self.workload, arena, plan.workers):
                await attack(stage, self.nemeses, plan.seed, plan.seconds)
                timeline.event("phase", "recovery")
                began_s = time.monotonic()
                await self._heal(stage)
                waiting = await self.nodes.wait_until_all_serve(RECOVERY_BOUND_S)
                recovery_s = time.monotonic() - began_s
                if waiting:
                    who = ", ".join(waiting)
                    stage.findings.append(f"{who} did not recover within {RECOVERY_BOUND_S:g} s")
            timeline.event("phase", "final")
            await self._compare(arena, stage)
            timeline.event("phase", "quiet")
            async with working(self.workload, arena, plan.workers):
                await asyncio.sleep(max(QUIET_MIN_S, plan.seconds / 10))
            await self._compare(arena, stage)
        finally:
            watcher.cancel()
        for node_id in self.nodes.ids:
            code = await self.nodes.terminate(node_id)
            if code != 0:
                stage.findings.append(f"{node_id} ended with code {code} when all were stopped")
        return recovery_s

    async def _heal(self, stage: Stage) -> None:
        await self.links.heal()
        for node_id, node in self.nodes.nodes.items():
            self.nodes.resume(node_id)
            if node.control is not None:
                node.control.set(wall_offset_ms=0, fsync_fails=False, fsync_delay_ms=0)
            if not node.up:
                stage.findings.append(f"{node_id} was down after the faults: {node.exits}")
                await self.nodes.start(node_id)

    async def _compare(self, arena: Arena, stage: Stage) -> None:
        """The last reads on every node, and the digests of all nodes at one index."""
        sessions = [Session(arena, node_id) for node_id in self.nodes.ids]
        give_up_s = time.monotonic() + DIGEST_BOUND_S
        while True:
            answers = await asyncio.gather(*(session.do("digest", "") for session in sessions))
            indexes = {value[0] if outcome == "ok" else None for outcome, value in answers}
            if len(indexes) == 1 and None not in indexes:
                break
            if time.monotonic() > give_up_s:
                stage.findings.append(
                    f"the nodes do not come to one index: {sorted(map(str, indexes))}"
                )
                break
            await asyncio.sleep(0.05)
        keys = self.workload.final_keys()

        async def read_all(session: Session) -> None:
            for key in keys:
                await session.do("get", key)
            session.close()

        await asyncio.gather(*map(read_all, sessions))

    # ---- beside the clients --------------------------------------------------------------------

    async def _watch_leaders(self, timeline: Timeline) -> None:
        seen: set[tuple[int, str]] = set()
        while True:
            for node_id, info in (await self.nodes.infos()).items():
                if info.get("raft_role") == "leader":
                    lead = (int(info["raft_term"]), node_id)
                    if lead not in seen:
                        seen.add(lead)
                        timeline.event("leader", str(lead[0]), (node_id,))
            await asyncio.sleep(LEADER_POLL_S)

    def _complaints(self) -> list[str]:
        """Processes that ended by themselves, and what no node should have in its log."""
        found = []
        for node_id, node in self.nodes.nodes.items():
            found += [f"{node_id} ended by itself with code {code}" for code in node.exits]
            if any(nemesis.name.startswith("disk") for nemesis in self.nemeses):
                continue  # says so, loudly, and rightly
            if node.log_file.exists():
                for line in node.log_file.read_text(errors="replace").splitlines():
                    if any(alarm in line for alarm in ALARMS):
                        found.append(f"{node_id} has in its log: {line[:200]}")
        return found

    def _mount(self) -> None:
        """A small file system of its own for each node, where a fault fills it."""
        if not any(nemesis.tmpfs for nemesis in self.nemeses):
            return
        for node in self.nodes.nodes.values():
            options = f"size={TMPFS_BYTES}"
            subprocess.run(
                ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(node.directory)], check=True
            )
            self.mounted.append(node.directory)

    def _unmount(self) -> None:
        for directory in self.mounted:
            subprocess.run(["umount", "-l", str(directory)], check=False)
        self.mounted.clear()

    def _tidy(self) -> None:
        """After a good run the nodes' directories are of no interest; logs and history stay."""
        for node_id in self.nodes.ids:
            shutil.rmtree(self.plan.directory / node_id, ignore_errors=True)


def execute(plan: Plan) -> Result:
    """Run the plan from start to end."""
    return asyncio.run(Run(plan).run())
