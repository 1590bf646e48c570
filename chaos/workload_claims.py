"""Workloads of claims: workers that race for jobs, and leases that run out while nodes fail.

The workers keep to the protocol of the README: whoever is told CLAIMED works, publishes while its
lease is surely not over, and everybody else takes the result or waits. A worker counts its lease
from before it asked, so it never believes in it for longer than the store does.
"""

from __future__ import annotations

import time

from chaos.workload import Arena, Worker

# What a worker leaves unused at the end of its lease: it must not begin to publish too late.
MARGIN_S = 0.25
# Jobs that are open at one time, and how long each is before it is closed.
OPEN_JOBS = 6
JOB_S = 6.0
# How many of the claims of each kind the last reads look at.
FINAL_KEYS_MAX = 120


class Claimant(Worker):
    """What both kinds of worker do with a claim."""

    tokens = 0

    def token(self) -> str:
        self.tokens += 1
        return f"w{self.node}.{self.number}.{self.process}.{self.tokens}"

    async def claim(self, key: str, result: str, seconds: int) -> tuple[str, float] | None:
        """The token and the moment (monotonic) until which it surely holds; None if not ours."""
        token, asked_s = self.token(), time.monotonic()
        outcome, value = await self.do("claim", key, result, token, seconds)
        if outcome == "ok" and value == "CLAIMED":
            return token, asked_s + seconds
        return None

    async def renew(self, key: str, token: str, seconds: float, until_s: float) -> float:
        """Ask for a longer lease; until when it surely holds now."""
        asked_s = time.monotonic()
        outcome, value = await self.do("renew", key, token, int(seconds * 1000))
        if outcome == "ok":
            return asked_s + seconds if value == 1 else 0.0
        # It may or may not have been renewed: only the shorter one is sure.
        return min(until_s, asked_s + seconds) if outcome == "unknown" else until_s


class JobWorker(Claimant):
    """Races for jobs and does them, unless it crashes."""

    def __init__(self, arena: Arena, node: str, number: int, board: Claims) -> None:
        super().__init__(arena, node, number)
        self.board = board

    async def step(self) -> None:
        job = self.board.some_job(self)
        key, result = f"claim:{job}", f"result:{job}"
        seconds = self.rng.choice((1, 1, 2, 3))
        held = await self.claim(key, result, seconds)
        if held is not None:
            await self._work(key, result, *held)
        elif self.rng.random() < 0.2:
            await self.do("get", self.rng.choice((key, result)))

    async def _work(self, key: str, result: str, token: str, until_s: float) -> None:
        if self.rng.random() < 0.25:
            return  # crashed right after the claim: its lease has to run out
        if await self.pause(self.rng.uniform(0, 0.7)):
            return
        if self.rng.random() < 0.3 and time.monotonic() < until_s - MARGIN_S:
            until_s = await self.renew(key, token, self.rng.choice((0.6, 1.5, 2.5)), until_s)
            if await self.pause(self.rng.uniform(0, 0.5)):
                return
        if time.monotonic() >= until_s - MARGIN_S:
            return  # too late: somebody else may own it
        if self.rng.random() < 0.15:
            await self.do("release", key, token)  # gives it back undone
            return
        outcome, done = await self.do("get", result)
        if outcome != "ok" or time.monotonic() >= until_s - MARGIN_S:
            return
        if done is None:
            await self.do("publish", result, f"done:{token}")
        if self.rng.random() < 0.3 and time.monotonic() < until_s - MARGIN_S:
            await self.do("release", key, token)


class Claims:
    """Workers racing for jobs: claim, work, publish, crash, renew, release."""

    name = "claims"

    def __init__(self) -> None:
        self.jobs = 0
        self._open: list[tuple[str, float]] = []
        self._all: list[str] = []

    async def prepare(self, arena: Arena) -> None:
        pass

    def worker(self, arena: Arena, node: str, number: int) -> Worker:
        return JobWorker(arena, node, number, self)

    def some_job(self, worker: Worker) -> str:
        now_s = time.monotonic()
        self._open = [(job, end_s) for job, end_s in self._open if now_s < end_s]
        while len(self._open) < OPEN_JOBS:
            self.jobs += 1
            self._open.append((f"{self.jobs}", now_s + JOB_S * worker.rng.uniform(0.5, 1.5)))
            self._all.append(f"{self.jobs}")
        return worker.rng.choice(self._open)[0]

    def final_keys(self) -> list[str]:
        jobs = self._all[-FINAL_KEYS_MAX // 2 :]
        return [f"{kind}:{job}" for job in jobs for kind in ("claim", "result")]


class LeaseWorker(Claimant):
    """Asks for few keys all the time, so that the moment at which a lease ends is seen well."""

    KEYS = 4

    async def step(self) -> None:
        key = f"lease:{self.rng.randrange(self.KEYS)}"
        seconds = self.rng.choice((1, 1, 1, 2, 4))
        held = await self.claim(key, key.replace("lease", "none"), seconds)
        if held is None:
            if self.rng.random() < 0.15:
                await self.do("get", key)
            return
        token, until_s = held
        choice = self.rng.random()
        if choice < 0.25:
            await self.pause(self.rng.uniform(0, 0.8))
            if time.monotonic() < until_s - MARGIN_S:
                await self.renew(key, token, self.rng.choice((0.5, 1.5, 3.0)), until_s)
        elif choice < 0.4:
            await self.pause(self.rng.uniform(0, 0.8))
            await self.do("release", key, token)
        # Otherwise it runs out.


class Lease:
    """Leases across faults: not early, not twice, not for ever."""

    name = "lease"

    async def prepare(self, arena: Arena) -> None:
        pass

    def worker(self, arena: Arena, node: str, number: int) -> Worker:
        return LeaseWorker(arena, node, number)

    def final_keys(self) -> list[str]:
        return [f"lease:{number}" for number in range(LeaseWorker.KEYS)]
