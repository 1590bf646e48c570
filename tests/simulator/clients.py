"""The clients of a simulated cluster: what they ask of which node, and what they were told."""

from __future__ import annotations

from typing import Any

from goblin_raft.reply import OK as REPLY_OK
from goblin_raft.reply import Failure
from tests.simulator.cluster import Cluster, Node
from tests.simulator.linearizable import OK, Operation
from tests.simulator.plan import Event

REFUSED = "refused"
KINDS = {"set", "get", "cas", "claim", "renew", "release", "peek", "tally"}


class Clients:
    """Each operation is a client of its own, connected to one node."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.history: list[Operation] = []
        self.latest: dict[bytes, bytes] = {}  # what somebody was told that a key holds
        self.acknowledged = 0
        self.answered_twice: Operation | None = None

    def ask(self, event: Event) -> None:
        """Skipped when nobody listens there: then nothing was asked."""
        number, key, unique, lease_ms, size = event.arguments
        node = self.cluster.nodes[self.cluster.names[number]]
        if not node.up or node.problem:
            return
        if event.kind in ("get", "peek"):
            self._read(node, Operation(event.kind, key, (), self.cluster.now_ms))
            return
        value = b"%d" % unique + b"." * size
        latest = self.latest.get(key, b"")
        match event.kind:
            case "set":
                arguments: tuple[Any, ...] = (value,)
                commands = [["SET", 0, key, value, None, False, None]]
            case "cas":
                arguments = (latest, value)
                commands = [["GOBLIN.CAS", 0, key, latest, value]]
            case "claim":
                arguments = (value, lease_ms)
                commands = [["GOBLIN.CLAIM", 0, key, b"result", value, lease_ms]]
            case "renew":
                arguments = (latest, lease_ms)
                commands = [["GOBLIN.CAEXPIRE", 0, key, latest, lease_ms]]
            case "release":
                arguments = (latest, 0)
                commands = [["GOBLIN.CAD", 0, key, latest]]
            case _:  # tally: it leaves b"1"; the same a second time would make it b"2"
                key, arguments = b"t%d" % unique, (b"1",)
                commands = [
                    ["SET", 0, key, b"0", "NX", False, None],
                    ["GOBLIN.CAS", 0, key, b"1", b"2"],
                    ["GOBLIN.CAS", 0, key, b"0", b"1"],
                ]
        operation = Operation(event.kind, key, arguments, self.cluster.now_ms)
        self._write(node, operation, commands, 20 + len(value))

    def _write(
        self, node: Node, operation: Operation, commands: list[Any], size_bytes: int
    ) -> None:
        self.history.append(operation)
        self.cluster.say(f"{node.name} is asked: {operation}")

        def settle(replies: list[Any]) -> None:
            self._settle(operation, replies)

        node.replica.propose(commands, size_bytes, settle)
        if not node.paused:
            self.cluster.wake(node)

    def _settle(self, operation: Operation, replies: list[Any]) -> None:
        reply = replies[-1]
        if operation.end_ms < float("inf"):
            self.answered_twice = operation
        if isinstance(reply, Failure):
            if reply.definite:
                operation.outcome, operation.end_ms = REFUSED, self.cluster.now_ms
        else:
            operation.outcome, operation.end_ms = OK, self.cluster.now_ms
            self.acknowledged += 1
            operation.value = reply in (REPLY_OK, 1, b"CLAIMED")
            if operation.value and operation.kind in ("set", "cas", "claim"):
                self.latest[operation.key] = operation.arguments[operation.kind == "cas"]
        self.cluster.say(f"answer: {operation}")
        if self.cluster.raising:
            self.cluster.raising = False
            raise RuntimeError("a simulated client fails at its answer")

    def _read(self, node: Node, operation: Operation) -> None:
        self.history.append(operation)
        replica = node.replica

        def ready(failure: Failure | None) -> None:
            if failure is not None:
                operation.outcome = REFUSED
                return
            operation.value = replica.machine.read(["GET", 0, operation.key], replica.clock_ms())
            operation.outcome, operation.end_ms = OK, self.cluster.now_ms
            self.cluster.say(f"{node.name} answers: {operation}")

        replica.read(ready)
        if not node.paused:
            self.cluster.wake(node)
