"""How large the parts of a request may be; it must not know where a request comes from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits on keys and values. The settings of the same names give the numbers.

    Every node should have the same: a request is checked by the node that takes it, and what has
    passed there is applied everywhere, whatever the limits of the others.
    """

    # A key is looked at far more often than read, and long keys are ids that should be a digest.
    key_bytes_max: int = 65_536
    # A value travels in one log entry to every node: a large one holds up all that wait behind it.
    value_bytes_max: int = 1_048_576
    # Redis's number, which clients' `/1` addresses and test suites rely on.
    databases: int = 16
