"""Error truth: what an error said was not executed must never be seen.

Values and tokens are written once each, so a value that only failed operations wrote gives them
away wherever it shows up. A failed increment shows in check_counters.py, as one too many.
"""

from __future__ import annotations

from collections import Counter

from chaos.findings import Check
from chaos.history import History, Operation
from chaos.requests import seen, written

NAME = "errors"


def check(history: History) -> Check:
    """Every failed operation that would have left a value of its own."""
    result = Check(NAME, of="operations that failed")
    executable = {
        value
        for operation in history.operations
        if operation.outcome != "fail" and operation.op != "digest"
        for value in written(operation)
    }
    first_seen: dict[str, Operation] = {}
    for operation in history.operations:
        if operation.op != "digest":
            for value in seen(operation):
                first_seen.setdefault(value, operation)
    kinds: Counter[str] = Counter()
    for operation in history.operations:
        if operation.outcome != "fail":
            continue
        kinds[_kind(operation.error or "no text")] += 1
        own = written(operation) - executable
        result.looked_at += bool(own)
        for value in sorted(own & first_seen.keys()):
            witness = first_seen[value]
            text = f"{value} was said not to be written ({operation.error}), and was seen"
            result.broken("error truth", text, operation, witness)
    result.figures = dict(kinds.most_common())
    return result


def _kind(error: str) -> str:
    """An error's code, or what stands before its details."""
    code = error.split(" ")[0]
    return code if code.isupper() else error.split(":")[0]
