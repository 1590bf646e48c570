"""Transactions: transfers between accounts under WATCH, whose sum never changes.

A transfer watches two accounts, reads both, and writes both in MULTI/EXEC. It is recorded as `txn`
whose first arguments are ["expect", account, balance]: what was read under WATCH and must still
hold if EXEC succeeded. Others read all accounts in one MULTI/EXEC.
"""

from __future__ import annotations

from typing import Any

import hiredis

from chaos.client import Answer
from chaos.workload import Arena, Session, Words, Worker

ACCOUNTS = [f"account:{number}" for number in range(4)]
BALANCE = 100


def exec_value(op: str, answers: list[Answer]) -> tuple[Answer, Any]:
    """EXEC's answer decides; errors inside its list are shown as {"error": text}."""
    last = answers[-1]
    if not isinstance(last.value, list):
        return last, last.value
    value = [
        {"error": str(item)} if isinstance(item, hiredis.ReplyError) else item
        for item in last.value
    ]
    return last, value


class Teller(Worker):
    """Moves money, and counts it."""

    async def step(self) -> None:
        choice = self.rng.random()
        if choice < 0.4:
            await self._txn([["get", account] for account in ACCOUNTS])
        elif choice < 0.5:
            await self.do("get", self.rng.choice(ACCOUNTS))
        else:
            await self._transfer(*self.rng.sample(ACCOUNTS, 2))

    async def _transfer(self, source: str, target: str) -> None:
        watched = await self.client.pipeline([("WATCH", source, target)])
        if watched[0].outcome != "ok":
            await self.think()
            return
        connection = self.client.connection
        balances = []
        for account in (source, target):
            outcome, value = await self.do("get", account)
            if outcome != "ok" or value is None:
                await self.client.pipeline([("UNWATCH",)], on_connection=connection)
                return
            balances.append(int(value))
        amount = self.rng.randint(1, 5)
        await self._txn(
            [
                ["expect", source, str(balances[0])],
                ["expect", target, str(balances[1])],
                ["set", source, str(balances[0] - amount)],
                ["set", target, str(balances[1] + amount)],
                ["get", source],
            ],
            on_connection=connection,
        )

    async def _txn(self, commands: list[list[str]], on_connection: int | None = None) -> None:
        requests: list[Words] = [("MULTI",)]
        requests += [(op.upper(), *words) for op, *words in commands if op != "expect"]
        requests.append(("EXEC",))
        await self.record(
            "txn", "", tuple(commands), requests, exec_value, on_connection=on_connection
        )


class Transactions:
    """MULTI, EXEC and WATCH: all or nothing, and nothing in between."""

    name = "transactions"

    async def prepare(self, arena: Arena) -> None:
        session = Session(arena, arena.ids[0])
        for account in ACCOUNTS:
            while (await session.do("set", account, str(BALANCE)))[0] != "ok":
                pass
        session.close()

    def worker(self, arena: Arena, node: str, number: int) -> Worker:
        return Teller(arena, node, number)

    def final_keys(self) -> list[str]:
        return ACCOUNTS
