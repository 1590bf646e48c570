"""The verdict on a run: all checkers' answers together; it knows the list of them and no rule.

Every checker sees every run. One that finds nothing to look at says so, and a run in which none of
the checkers that its workload is for found anything is not valid but unknown: nothing was shown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from chaos import (
    availability,
    check_claims,
    check_convergence,
    check_counters,
    check_errors,
    check_linear,
    check_reads,
    check_results,
    check_transactions,
)
from chaos.findings import Check, Finding, Valid
from chaos.history import History, read

CHECKERS: list[Callable[[History], Check]] = [
    check_claims.check,
    check_results.check,
    check_counters.check,
    check_transactions.check,
    check_reads.check,
    check_errors.check,
    check_convergence.check,
    check_linear.check,
    availability.check,
]

# By workload: the checkers that must have had something to look at.
MUST_LOOK = {
    "claims": {"claims", "results", "linearizable"},
    "lease": {"claims", "linearizable"},
    "register": {"linearizable"},
    "counter": {"counters", "linearizable"},
    "transactions": {"transactions", "linearizable"},
    "read-your-writes": {"reads", "linearizable"},
}


@dataclass(slots=True)
class Verdict:
    """False if any rule was broken; else unknown if anything was left undecided; else True."""

    valid: Valid
    checks: list[Check] = field(default_factory=list)

    @property
    def findings(self) -> list[Finding]:
        """What is wrong, rule by rule."""
        return [finding for check in self.checks for finding in check.findings]

    def __str__(self) -> str:
        word = {True: "VALID", False: "INVALID", "unknown": "UNKNOWN"}[self.valid]
        lines = [f"verdict: {word}"]
        for check in self.checks:
            state = {True: "ok", False: "BROKEN", "unknown": "unknown"}[check.valid]
            note = f" ({check.note})" if check.note else ""
            lines.append(f"  {check.name}: {state}, {check.looked_at} {check.of}{note}")
            for finding in check.findings:
                lines.append(f"    {finding.text}")
                lines += [f"      {operation}" for operation in finding.operations]
        return "\n".join(lines)


def judge(history: History) -> Verdict:
    """Run all checkers."""
    checks = [checker(history) for checker in CHECKERS]
    for check in checks:
        needed = check.name in MUST_LOOK.get(str(history.run.get("workload")), set())
        if needed and not check.looked_at:
            check.undecided("there was nothing to look at")
    return Verdict(_worst([check.valid for check in checks]), checks)


def judge_file(path: Path) -> Verdict:
    """The verdict on a history that was written."""
    return judge(read(path))


def _worst(answers: list[Valid]) -> Valid:
    if False in answers:
        return False
    return "unknown" if "unknown" in answers else True
