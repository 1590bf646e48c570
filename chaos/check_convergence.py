"""Convergence: nodes that have applied the same entries hold the same state.

Each digest is a node's own sum over its state, with the index of the last entry in it. Two that
differ at one index are a fork. At the end, all nodes must have given one at the same index.
"""

from __future__ import annotations

from collections import defaultdict

from chaos.findings import Check
from chaos.history import History, Operation

NAME = "convergence"


def check(history: History) -> Check:
    """All digests, by the index they were taken at."""
    result = Check(NAME, of="digests compared")
    by_index: dict[int, list[Operation]] = defaultdict(list)
    for operation in history.of("digest"):
        if operation.outcome == "ok":
            by_index[int(operation.value[0])].append(operation)
    together: set[str] = set()
    final = history.phase_ms("final")
    for index, operations in sorted(by_index.items()):
        nodes = {operation.node for operation in operations}
        if len(nodes) > 1:
            result.looked_at += len(operations)
        first: dict[str, Operation] = {}
        for operation in operations:
            first.setdefault(str(operation.value[1]), operation)
        if len(first) > 1:
            text = f"nodes hold different states at index {index}"
            result.broken("convergence", text, *first.values())
        if final is None or min(o.start_ms for o in operations) >= final:
            together = max(together, nodes, key=len)
    wanted = set(history.nodes())
    if by_index and not wanted <= together:
        missing = ", ".join(sorted(wanted - together))
        result.undecided(f"at the end no index had digests of all nodes; {missing} missing")
    return result
