"""What the committed log means, worked out a second time, in as few lines as possible; shares no
code with the state machine. It knows the handful of commands that the simulated clients use.
"""

from __future__ import annotations

from typing import Any

from goblin_raft.entry import decode_entry, decode_proposal


class Model:
    """One entry after the other, each once."""

    def __init__(self) -> None:
        self.values: dict[bytes, tuple[bytes, float]] = {}  # value and deadline
        self.now_ms = 0
        self.seen: dict[tuple[str, int], set[int]] = {}
        self.low: dict[tuple[str, int], int] = {}
        self.replies: dict[tuple[str, int, int], list[Any]] = {}
        self.executed: dict[
            bytes, tuple[str, int, int]
        ] = {}  # each value that only one command has
        self.twice: bytes | None = None

    def apply(self, data: bytes) -> int:
        """Apply one entry; gives its stamp."""
        entry = decode_entry(data)
        self.now_ms = max(self.now_ms, entry.stamp_ms)
        for proposal in map(decode_proposal, entry.proposals):
            boot = (proposal.origin, proposal.boot)
            seen = self.seen.setdefault(boot, set())
            low = self.low.get(boot, 0)
            if proposal.sequence > low and proposal.sequence not in seen:
                seen.add(proposal.sequence)
                name = (*boot, proposal.sequence)
                self.replies[name] = [self.run(command, name) for command in proposal.commands]
            self.low[boot] = max(low, proposal.settled - 1)
        return entry.stamp_ms

    def get(self, key: bytes) -> bytes | None:
        value, deadline_ms = self.values.get(key, (None, 0))
        return value if value is not None and self.now_ms < deadline_ms else None

    def note(self, unique: bytes, name: tuple[str, int, int]) -> None:
        if self.executed.setdefault(unique, name) != name:
            self.twice = unique

    def run(self, command: list[Any], name: tuple[str, int, int]) -> Any:
        verb, _, key, *arguments = command
        held = self.get(key)
        deadline_ms = self.values[key][1] if held is not None else float("inf")
        if verb == "SET":
            value, condition = arguments[:2]
            self.note(key + value, name)
            if condition == "NX" and held is not None:
                return None
            self.values[key] = (value, float("inf"))
            return "OK"
        if verb == "GOBLIN.CAS":
            self.note(key + arguments[1], name)
            if held != arguments[0]:
                return 0
            self.values[key] = (arguments[1], deadline_ms)
            return "OK"
        if verb == "GOBLIN.CLAIM":
            result_key, token, lease_ms = arguments
            self.note(key + token, name)
            if held is not None:
                return self.get(result_key)
            self.values[key] = (token, self.now_ms + lease_ms)
            return b"CLAIMED"
        if held != arguments[0]:
            return 0
        if verb == "GOBLIN.CAEXPIRE":
            self.values[key] = (held, self.now_ms + arguments[1])
        else:
            assert verb == "GOBLIN.CAD"
            del self.values[key]
        return 1

    def alive(self) -> dict[bytes, tuple[bytes, float]]:
        """What is not over."""
        return {key: item for key, item in self.values.items() if self.now_ms < item[1]}
