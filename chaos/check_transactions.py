"""Transactions are atomic: money that moves between accounts is never seen missing or doubled.

Each transaction that reads all accounts at once must find the total in them. The search of
check_linear.py decides the rest: WATCH, the order of transactions, and those of unknown outcome.
"""

from __future__ import annotations

from chaos.findings import Check
from chaos.history import History, Operation

NAME = "transactions"


def check(history: History) -> Check:
    """Every look at all accounts; run has `accounts` and `total`."""
    result = Check(NAME, of="looks at all accounts")
    accounts = set(history.run.get("accounts", ()))
    total = history.run.get("total")
    if not accounts or total is None:
        return result
    moves = aborted = 0
    for operation in history.of("txn"):
        if operation.outcome != "ok":
            continue
        if operation.value is None:
            aborted += 1
            continue
        held = _balances(operation)
        moves += held is None
        if held is None or set(held) != accounts:
            continue
        result.looked_at += 1
        found = sum(held.values())
        if found != total:
            text = f"{operation.node} found {found} in all accounts; there are {total}"
            result.broken("atomicity", text, operation)
    result.figures = {"moves": moves, "aborted": aborted}
    return result


def _balances(operation: Operation) -> dict[str, int] | None:
    """What a transaction of nothing but reads found; None for another."""
    held: dict[str, int] = {}
    commands = [words for words in operation.args if words[0] != "WATCH"]
    for (name, *words), reply in zip(commands, operation.value, strict=True):
        if name == "GET":
            held[words[0]] = int(reply or 0)
        elif name == "MGET":
            held.update({key: int(each or 0) for key, each in zip(words, reply, strict=True)})
        else:
            return None
    return held
