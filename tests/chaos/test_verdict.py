"""The worst answer is the verdict, and a run in which nothing happened proves nothing."""

from __future__ import annotations

from chaos.history import History
from chaos.verdict import judge
from tests.chaos.stores import lost, ok

RIGHT = [ok("set k 1", "OK", 0, 10), ok("get k", "1", 11, 12)]
WRONG = [*RIGHT, ok("get k", None, 13, 14)]


def run(operations, **header):
    return judge(History(header, operations))


def test_valid():
    verdict = run(RIGHT, workload="register")
    assert verdict.valid is True
    assert verdict.findings == []
    assert "VALID" in str(verdict)


def test_one_broken_rule_is_enough():
    verdict = run(WRONG, workload="register")
    assert verdict.valid is False
    assert "INVALID" in str(verdict)
    assert str(WRONG[-1]) in str(verdict)


def test_nothing_happened():
    assert run([], workload="register").valid == "unknown"
    assert run([lost("set k 1", 0)], workload="register").valid == "unknown"
    assert run([], workload="something else").valid is True


def test_each_workload_must_have_something_to_look_at():
    claims = [ok("claim c r t 1", "CLAIMED", 0, 10)]
    assert run(claims, workload="lease").valid is True
    verdict = run(claims, workload="claims")  # nobody asked for a result
    assert verdict.valid == "unknown"
    assert [check.name for check in verdict.checks if check.valid == "unknown"] == ["results"]
