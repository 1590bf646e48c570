"""Transactions are atomic: money that moves between accounts is never seen missing or doubled.

Each transaction that reads all accounts at once must find the total in them. The search of
check_linear.py decides the rest: WATCH, the order of transactions, and those of unknown outcome.
"""

from __future__ import annotations

from chaos.findings import Check
from chaos.history import History, Operation
from chaos.requests import commands_of, keys_of

NAME = "transactions"


def check(history: History) -> Check:
    """Every look at all accounts. The first values that were set are what there is in all."""
    result = Check(NAME, of="looks at all accounts")
    transactions = history.of("txn")
    touched = {key for operation in transactions for key in keys_of(operation)}
    accounts = {
        operation.key: int(operation.args[0])
        for operation in reversed(history.of("set"))
        if operation.key in touched and operation.outcome == "ok"
    }
    total = sum(accounts.values())
    moves = aborted = 0
    for operation in transactions:
        if operation.outcome != "ok":
            continue
        if operation.value is None:
            aborted += 1
            continue
        held = _balances(operation)
        moves += held is None
        if held is None or held.keys() != accounts.keys():
            continue
        result.looked_at += 1
        found = sum(held.values())
        if found != total:
            text = f"{operation.node} found {found} in all accounts; there are {total}"
            result.broken("atomicity", text, operation)
    if transactions:
        result.figures = {"moves": moves, "aborted": aborted}
    return result


def _balances(operation: Operation) -> dict[str, int] | None:
    """What a transaction of nothing but reads found; None for another."""
    held: dict[str, int] = {}
    commands = [words for words in commands_of(operation) if words[0] != "WATCH"]
    for (name, *words), reply in zip(commands, operation.value, strict=True):
        if isinstance(reply, dict):
            return None  # an error; check_linear.py minds
        if name == "GET":
            held[words[0]] = int(reply or 0)
        elif name == "MGET":
            held.update({key: int(each or 0) for key, each in zip(words, reply, strict=True)})
        else:
            return None
    return held
