"""What a checker says: the rules that were broken, and how much it looked at; no rule is known."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from chaos.history import Operation

Valid = bool | Literal["unknown"]


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule that was broken, in words, with the few operations that show it."""

    rule: str
    text: str
    operations: tuple[Operation, ...] = ()


@dataclass(slots=True)
class Check:
    """One checker's answer. `looked_at` zero: the run had nothing that this checker could judge."""

    name: str
    valid: Valid = True
    looked_at: int = 0
    of: str = "operations"
    note: str = ""
    findings: list[Finding] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)

    def broken(self, rule: str, text: str, *operations: Operation) -> None:
        """A rule was broken."""
        self.valid = False
        ordered = sorted(operations, key=lambda operation: operation.start_ms)
        self.findings.append(Finding(rule, text, tuple(ordered)))

    def undecided(self, note: str) -> None:
        """Something could not be decided: worse than valid, not as bad as a broken rule."""
        if self.valid is True:
            self.valid = "unknown"
        self.note = f"{self.note}; {note}" if self.note else note
