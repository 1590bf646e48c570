"""Workloads of plain values: registers, a counter, and writers that read elsewhere."""

from __future__ import annotations

import itertools
import time

from chaos.workload import Arena, Session, Worker

# Keys that are in use at one time, and for how long. The search for an order of operations grows
# with what happened to one key, so no key is used for ever; but none is ever forgotten: the last
# reads look at old ones too.
REGISTERS = 3
EPOCH_S = 3.0
FINAL_KEYS_MAX = 90


class RegisterWorker(Worker):
    """GET, SET and compare-and-set on few keys; each value is written once only."""

    def __init__(self, arena: Arena, node: str, number: int, board: Register) -> None:
        super().__init__(arena, node, number)
        self.board = board
        self.values = itertools.count()
        self.seen: dict[str, str] = {}

    async def step(self) -> None:
        key = self.board.some_key(self)
        choice = self.rng.random()
        fresh = f"{self.node}.{self.number}.{self.process}.{next(self.values)}"
        if choice < 0.45:
            outcome, value = await self.do("get", key)
            if outcome == "ok" and value is not None:
                self.seen[key] = value
        elif choice < 0.7 or key not in self.seen:
            outcome, _ = await self.do("set", key, fresh)
            if outcome == "ok":
                self.seen[key] = fresh
        else:
            outcome, _ = await self.do("cas", key, self.seen[key], fresh)
            if outcome == "ok":
                self.seen[key] = fresh


class Register:
    """Linearizable registers."""

    name = "register"

    def __init__(self) -> None:
        self._began_s = time.monotonic()
        self._used: dict[str, None] = {}

    async def prepare(self, arena: Arena) -> None:
        pass

    def worker(self, arena: Arena, node: str, number: int) -> Worker:
        return RegisterWorker(arena, node, number, self)

    def some_key(self, worker: Worker) -> str:
        epoch = int((time.monotonic() - self._began_s) / EPOCH_S)
        key = f"register:{epoch}.{worker.rng.randrange(REGISTERS)}"
        self._used[key] = None
        return key

    def final_keys(self) -> list[str]:
        return list(self._used)[-FINAL_KEYS_MAX:]


class CounterWorker(Worker):
    """Counts by INCR, which must not happen twice, or by compare-and-set, which must win once."""

    async def step(self) -> None:
        key = self.rng.choice(Counter.KEYS)
        if key in Counter.BY_INCR:
            if self.rng.random() < 0.8:
                await self.do("incr", key, 1)
            else:
                await self.do("get", key)
            return
        outcome, value = await self.do("get", key)
        if outcome == "ok" and value is not None:
            await self.do("cas", key, value, str(int(value) + 1))


class Counter:
    """Counters that end at exactly what was counted."""

    name = "counter"
    BY_INCR = ("counter:0", "counter:1")
    KEYS = (*BY_INCR, "counter:2", "counter:3")

    async def prepare(self, arena: Arena) -> None:
        session = Session(arena, arena.ids[0])
        for key in self.final_keys():
            while (await session.do("set", key, "0"))[0] != "ok":
                pass
        session.close()

    def worker(self, arena: Arena, node: str, number: int) -> Worker:
        return CounterWorker(arena, node, number)

    def final_keys(self) -> list[str]:
        return list(self.KEYS)


class WriterReader(Worker):
    """Writes through one node, reads through another, one after the other."""

    def __init__(self, arena: Arena, node: str, number: int) -> None:
        super().__init__(arena, node, number)
        self.values = itertools.count(1)
        self.others = [Session(arena, other) for other in arena.ids if other != node]

    async def step(self) -> None:
        key = f"ryw:{self.node}.{self.number}"
        everywhere: list[Session] = [self, *self.others]
        await self._through(self.rng.choice(everywhere), "set", key, str(next(self.values)))
        for session in self.rng.sample(everywhere, 2):
            await self._through(session, "get", key)

    async def _through(self, session: Session, op: str, key: str, *args: str) -> None:
        """This client's next operation, through that connection."""
        session.process = self.process
        await session.do(op, key, *args)
        self.process = session.process

    def close(self) -> None:
        for session in self.others:
            session.close()
        super().close()


class ReadYourWrites:
    """What a client wrote through one node it reads through every other."""

    name = "read-your-writes"

    def __init__(self) -> None:
        self._keys: list[str] = []

    async def prepare(self, arena: Arena) -> None:
        pass

    def worker(self, arena: Arena, node: str, number: int) -> Worker:
        self._keys.append(f"ryw:{node}.{number}")
        return WriterReader(arena, node, number)

    def final_keys(self) -> list[str]:
        return list(dict.fromkeys(self._keys))
