"""The same claims, by the same schedule of faults, against Redis with Sentinel.

Three machines, each with a redis-server and a Sentinel; one primary, two replicas, appendfsync
always. The claim is the script that everybody writes. A client asks the Sentinel of its own machine
who the primary is, as Redis's documentation says, and asks again when it lost it. Faults hit both
processes of a machine. With WAIT a write counts when one replica has acknowledged it; with fewer it
is unknown.
"""

from __future__ import annotations

import asyncio
import json
import random
import signal
import subprocess
import time
from collections import Counter as Tally
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaos import history
from chaos.catalogue import NEMESES
from chaos.client import Answer, Client
from chaos.netns import NetnsLinks
from chaos.nodes import Links, free_ports
from chaos.proxy import Address, ProxyLinks
from chaos.run import Plan, judged
from chaos.stage import Stage
from chaos.stage import attack as attack_stage
from chaos.verdict import Verdict
from chaos.workload import (
    REQUEST_TIMEOUT_S,
    Arena,
    Connection,
    Session,
    Timeline,
    Words,
    claim_value,
    working,
)
from chaos.workload_claims import Claims
from goblin_raft.local_cluster import die_with_parent

GROUP = "claims"
DOWN_AFTER_MS = 1000
FAILOVER_TIMEOUT_MS = 5000
WAIT_MS = 1000
START_BOUND_S = 20.0
RECOVERY_BOUND_S = 30.0
# The seed's own words for the claim; the others are the usual compare-and-act scripts.
CLAIM = (
    "if redis.call('set', KEYS[1], ARGV[1], 'NX', 'EX', ARGV[2]) then return 'CLAIMED' end "
    "return redis.call('get', KEYS[2])"
)
RENEW = (
    "if redis.call('get', KEYS[1]) == ARGV[1] then "
    "return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0"
)
RELEASE = (
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"
)
# Redis refuses with these before it executes anything.
REDIS_DEFINITE = dict.fromkeys(
    ("READONLY", "LOADING", "MASTERDOWN", "NOREPLICAS", "MISCONF", "ERR", "WRONGTYPE"), True
)


class SentinelDialect:
    """A claim as EVAL; with `wait`, every write waits for one replica."""

    def __init__(self, *, wait: bool) -> None:
        self.wait = wait

    def requests(self, op: str, key: str, args: tuple[Any, ...]) -> list[Words]:
        words: Words = {
            "claim": lambda: ("EVAL", CLAIM, 2, key, args[0], args[1], args[2]),
            "renew": lambda: ("EVAL", RENEW, 1, key, *args),
            "release": lambda: ("EVAL", RELEASE, 1, key, *args),
            "publish": lambda: ("SET", key, *args),
            "get": lambda: ("GET", key),
        }[op]()
        return [words, ("WAIT", 1, WAIT_MS)] if self.wait and op != "get" else [words]

    def value(self, op: str, answers: list[Answer]) -> tuple[Answer, Any]:
        answer = answers[0]
        if len(answers) == 2 and answer.outcome == "ok":
            waited = answers[1]
            if waited.outcome != "ok" or waited.value < 1:
                answer = Answer("unknown", error=f"WAIT: {waited.value} {waited.error or ''}")
        return answer, claim_value(answer.value) if op == "claim" else answer.value


class SentinelClient:
    """Asks its Sentinel for the primary whenever it has no connection."""

    def __init__(self, sentinel: Address) -> None:
        self.sentinel = sentinel
        self.connection = 0
        self._client: Client | None = None

    async def call(self, *words: str | int) -> Answer:
        return (await self.pipeline([words]))[0]

    async def pipeline(
        self, requests: list[Words], *, on_connection: int | None = None
    ) -> list[Answer]:
        if self._client is None:
            asked = Client(self.sentinel, 0.5)
            answer = await asked.call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", GROUP)
            asked.close()
            if answer.outcome != "ok" or not answer.value:
                failed = Answer("fail", error="its Sentinel names no primary", answered=False)
                return [failed] * len(requests)
            host, port = answer.value
            self._client = Client((host, int(port)), REQUEST_TIMEOUT_S, definite=REDIS_DEFINITE)
        answers = await self._client.pipeline(requests)
        if any(not answer.answered or answer.outcome == "fail" for answer in answers):
            self.close()  # it may be a replica now: ask the Sentinel again
        return answers

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
        self._client = None


@dataclass(slots=True)
class Machine:
    """One redis-server and one Sentinel."""

    node_id: str
    redis: Address
    sentinel: Address
    directory: Path
    processes: list[asyncio.subprocess.Process] = field(default_factory=list)
    paused: bool = False

    @property
    def up(self) -> bool:
        return any(process.returncode is None for process in self.processes)


class Machines:
    """What faults see of Redis with Sentinel: the same words as nodes.Nodes."""

    def __init__(self, directory: Path, count: int, links: Links) -> None:
        self.directory = directory
        self.links = links
        self.ids = [f"n{number + 1}" for number in range(count)]
        self.nodes: dict[str, Machine] = {}

    async def open(self) -> None:
        ports = free_ports(2 * len(self.ids))
        await self.links.open(dict(zip(self.ids, ports[: len(self.ids)], strict=True)))
        for number, node_id in enumerate(self.ids):
            host = self.links.host(node_id)
            redis, sentinel = (host, ports[2 * number]), (host, ports[2 * number + 1])
            machine = Machine(node_id, redis, sentinel, self.directory / node_id)
            machine.directory.mkdir(parents=True)
            self.nodes[node_id] = machine
        first = self.nodes[self.ids[0]]
        for machine in self.nodes.values():
            self._configure(machine, first)

    def _configure(self, machine: Machine, first: Machine) -> None:
        host, port = machine.redis
        lines = [f"bind {host}", f"port {port}", f"dir {machine.directory}", "save ''"]
        lines += ["appendonly yes", "appendfsync always", "protected-mode no"]
        lines += [f"replica-announce-ip {host}", "repl-timeout 5", "repl-diskless-sync-delay 0"]
        if machine is not first:
            lines.append(f"replicaof {first.redis[0]} {first.redis[1]}")
        (machine.directory / "redis.conf").write_text("\n".join(lines) + "\n")
        quorum = len(self.ids) // 2 + 1
        host, port = machine.sentinel
        lines = [f"bind {host}", f"port {port}", f"dir {machine.directory}", "protected-mode no"]
        lines += [f"sentinel announce-ip {host}"]
        lines += [f"sentinel monitor {GROUP} {first.redis[0]} {first.redis[1]} {quorum}"]
        lines += [f"sentinel down-after-milliseconds {GROUP} {DOWN_AFTER_MS}"]
        lines += [f"sentinel failover-timeout {GROUP} {FAILOVER_TIMEOUT_MS}"]
        (machine.directory / "sentinel.conf").write_text("\n".join(lines) + "\n")

    async def start(self, node_id: str) -> None:
        machine = self.nodes[node_id]
        machine.processes, machine.paused = [], False
        for name, *more in (("redis.conf",), ("sentinel.conf", "--sentinel")):
            command = ["redis-server", str(machine.directory / name), *more]
            with open(machine.directory.with_suffix(".log"), "ab") as log:  # noqa: ASYNC230
                process = await asyncio.create_subprocess_exec(
                    *self.links.wrap(node_id, command),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    preexec_fn=die_with_parent(signal.SIGKILL),
                )
            machine.processes.append(process)

    async def kill(self, node_id: str) -> None:
        await self._end(node_id, signal.SIGKILL)

    async def terminate(self, node_id: str) -> int:
        self.resume(node_id)
        await self._end(node_id, signal.SIGTERM)
        return 0

    async def _end(self, node_id: str, number: signal.Signals) -> None:
        for process in self.nodes[node_id].processes:
            if process.returncode is None:
                process.send_signal(number)
                await process.wait()
        self.nodes[node_id].paused = False

    def pause(self, node_id: str) -> None:
        self._signal(node_id, signal.SIGSTOP)
        self.nodes[node_id].paused = True

    def resume(self, node_id: str) -> None:
        if self.nodes[node_id].paused:
            self._signal(node_id, signal.SIGCONT)
        self.nodes[node_id].paused = False

    def _signal(self, node_id: str, number: signal.Signals) -> None:
        for process in self.nodes[node_id].processes:
            if process.returncode is None:
                process.send_signal(number)

    async def leader(self) -> str | None:
        """The node that most Sentinels call the primary."""
        named: Tally[int] = Tally()
        for machine in self.nodes.values():
            if machine.up and not machine.paused:
                client = Client(machine.sentinel, 0.5)
                answer = await client.call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", GROUP)
                client.close()
                if answer.outcome == "ok" and answer.value:
                    named[f"{answer.value[0]}:{answer.value[1]}"] += 1  # type: ignore[index]
        for address, _ in named.most_common(1):
            for node_id, machine in self.nodes.items():
                if f"{machine.redis[0]}:{machine.redis[1]}" == address:
                    return node_id
        return None

    async def wait_until_all_serve(self, within_s: float) -> list[str]:
        """Until the primary has all others as replicas that are in sync."""
        give_up_s = time.monotonic() + within_s
        while time.monotonic() < give_up_s:
            leader = await self.leader()
            if leader is not None:
                client = Client(self.nodes[leader].redis, 0.5)
                answer = await client.call("INFO", "replication")
                client.close()
                online = str(answer.value).count("state=online")
                if "role:master" in str(answer.value) and online == len(self.ids) - 1:
                    return []
            await asyncio.sleep(0.2)
        return list(self.ids)

    async def close(self) -> None:
        for node_id in self.ids:
            if node_id in self.nodes:
                await self.kill(node_id)
        await self.links.close()


async def attack(plan: Plan, *, wait: bool) -> dict[str, Any]:
    """One run of the claims workload; what the checkers found, by rule."""
    plan.directory.mkdir(parents=True, exist_ok=True)
    links: Links = NetnsLinks() if plan.network == "netns" else ProxyLinks(random.Random(0))
    machines = Machines(plan.directory, plan.nodes, links)
    about = {
        "workload": "claims",
        "nemeses": list(plan.nemeses),
        "seed": plan.seed,
        "nodes": plan.nodes,
        "seconds": plan.seconds,
        "version": redis_version(),
        "system": "redis-sentinel" + (" WAIT 1" if wait else ""),
        "command": command(plan, wait=wait),
    }
    with history.Recorder(plan.directory / "history.jsonl", about) as recorder:
        timeline = Timeline(recorder)
        stage = Stage(machines, links, timeline, random.Random(plan.seed))  # type: ignore[arg-type]
        try:
            await _phases(plan, stage, machines, SentinelDialect(wait=wait))
        finally:
            await machines.close()
    verdict = await asyncio.to_thread(judged, plan.directory, stage.findings)
    seen = history.read(plan.directory / "history.jsonl")
    summary = {
        **about,
        "operations": timeline.operations,
        "outcomes": timeline.outcomes,
        "faults": stage.counts,
        "valid": verdict.valid,
        "claims": len({claim.key for claim in seen.of("claim")}),
        "claims_with_two_holders": len(keys_of(verdict, "double holder")),
        "results_lost": len(keys_of(verdict, "result lost")),
        "rules": dict(Tally(f.rule for f in verdict.findings)),
        "findings": [f"{f.rule}: {f.text}" for f in verdict.findings],
        "notes": stage.findings,
    }
    (plan.directory / "result.json").write_text(json.dumps(summary, indent=1) + "\n")
    return summary


def command(plan: Plan, *, wait: bool) -> str:
    return f"{plan.command()} --system redis-sentinel{' --wait' if wait else ''}"


def keys_of(verdict: Verdict, rule: str) -> set[str]:
    """The keys on which this rule was broken."""
    return {f.operations[0].key for f in verdict.findings if f.rule == rule and f.operations}


async def _phases(plan: Plan, stage: Stage, machines: Machines, dialect: SentinelDialect) -> None:
    timeline, workload = stage.timeline, Claims()
    await machines.open()
    await asyncio.gather(*map(machines.start, machines.ids))
    if await machines.wait_until_all_serve(START_BOUND_S):
        stage.findings.append("Redis and Sentinel did not come up")
        return

    def connect(node_id: str) -> Connection:
        return SentinelClient(machines.nodes[node_id].sentinel)

    arena = Arena(connect, machines.ids, dialect, timeline, plan.seed)
    timeline.event("phase", "faults")
    async with working(workload, arena, plan.workers):
        nemeses = [NEMESES[name]() for name in plan.nemeses]
        await attack_stage(stage, nemeses, plan.seed, plan.seconds)
        timeline.event("phase", "recovery")
        await machines.links.heal()
        for node_id in machines.ids:
            machines.resume(node_id)
        if await machines.wait_until_all_serve(RECOVERY_BOUND_S):
            stage.findings.append("the replicas did not come back")
    timeline.event("phase", "final")
    session = Session(arena, machines.ids[0])
    for key in workload.final_keys():
        await session.do("get", key)
    session.close()


def redis_version() -> str:
    told = subprocess.run(["redis-server", "--version"], capture_output=True, text=True, check=True)
    return " ".join(told.stdout.split()[:3])
