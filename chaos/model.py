"""What one correct store may answer, as a function from state and operation to state.

A state is (time, items): items are (key, value, deadline) in order of keys. The model knows only
the least: `time` is the earliest moment at which everything so far can have happened, `deadline`
the earliest at which a key can be over. Whoever finds a key gone moves time to its deadline, which
must not lie behind the end of his own request: that is "no lease ends early". Whoever still finds
a key after its deadline is right too: how late a lease may end is the question of check_claims.py.

Taking the least is safe. All limits on time are of the form "not before", so whatever history is
possible at all is possible with everything as early as it can be. A lease that a request of unknown
outcome may have begun counts from that request's start, also where it must have begun later: nobody
was told that he holds it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from chaos.history import Operation
from chaos.requests import commands_of

State = tuple[float, tuple[tuple[str, str, float | None], ...]]
EMPTY: State = (0.0, ())

# The reply of an operation whose outcome is unknown: whatever it was, it is not known.
ANY = object()
FOREVER = float("inf")

# Stamps are whole milliseconds, so a lease may seem short by one.
EARLY_MS = 1.0


class Store:
    """The model. Without `timed` it keeps no time: cheaper, where no key has a deadline."""

    def __init__(self, *, timed: bool, early_ms: float = EARLY_MS) -> None:
        self.timed = timed
        self.early_ms = early_ms

    def step(self, state: State, operation: Operation) -> State | None:
        """The state after an operation that was executed in this one; None: it cannot have been."""
        commands = commands_of(operation)
        known = operation.outcome == "ok"
        if known and operation.op == "txn" and operation.value is None:
            return state  # EXEC aborted: nothing was executed
        time, items = state
        run = _Run({key: (value, deadline) for key, value, deadline in items}, self.early_ms)
        if self.timed:
            run.now = max(time, operation.start_ms)
            run.began = None if known else operation.start_ms
            run.end = operation.end_ms if known and operation.end_ms is not None else FOREVER
            if run.now > run.end:
                return None
        replies = operation.value if operation.op == "txn" else [operation.value]
        if known and len([words for words in commands if words[0] != "WATCH"]) != len(replies):
            return None
        answers = iter(replies if known else ())
        for name, *words in commands:
            reply = next(answers) if known and name != "WATCH" else ANY
            if isinstance(reply, dict):
                return None  # an error, where the harness asks for nothing that could be one
            if not _COMMANDS[name](run, words, reply):
                return None
        return run.now, tuple(sorted((key, *held) for key, held in run.store.items()))

    def not_before(self, state: State, time: float) -> State:
        """The same state, if all that is to come happens at this time or later."""
        now, items = state
        if not self.timed or time <= now:
            return state
        # How long a key has been past its deadline makes no difference.
        over = [(k, v, 0.0 if d is not None and d <= time else d) for k, v, d in items]
        return time, tuple(over)


class _Run:
    """One operation under way: the store, its moment, and how late that may become."""

    __slots__ = ("began", "early_ms", "end", "now", "store")

    def __init__(self, store: dict[str, tuple[str, float | None]], early_ms: float) -> None:
        self.store = store
        self.early_ms = early_ms
        self.now = 0.0
        self.end = FOREVER
        self.began: float | None = None  # where leases count from, if not from `now`

    def holds(self, key: str, value: Any) -> bool:
        held = self.store.get(key)
        return held is not None and held[0] == str(value)

    def absent(self, key: str) -> bool:
        """Whether the key can be gone by now, or while the request was under way; then it is."""
        held = self.store.get(key)
        if held is None:
            return True
        if held[1] is None or max(self.now, held[1]) > self.end:
            return False
        self.now = max(self.now, held[1])
        del self.store[key]
        return True

    def put(self, key: str, value: Any, lease_ms: float | None = None) -> None:
        deadline = None
        if lease_ms is not None:
            began = self.now if self.began is None else self.began
            deadline = began + lease_ms - self.early_ms
        self.store[key] = (str(value), deadline)

    def read(self, key: str, reply: Any) -> bool:
        return self.absent(key) if reply is None else self.holds(key, reply)

    def refused(self, key: str, value: Any, reply: Any) -> bool:
        """Whether the reply 0, "does not hold this value", can be right."""
        return reply == 0 and (not self.holds(key, value) or self.absent(key))


Command = Callable[[_Run, list[Any], Any], bool]


def _get(run: _Run, words: list[Any], reply: Any) -> bool:
    return reply is ANY or run.read(words[0], reply)


def _mget(run: _Run, words: list[Any], reply: Any) -> bool:
    return reply is ANY or all(run.read(*pair) for pair in zip(words, reply, strict=True))


def _watch(run: _Run, words: list[Any], reply: Any) -> bool:
    return run.read(words[0], words[1])


def _set(run: _Run, words: list[Any], reply: Any) -> bool:
    key, value, *expiry = words
    lease_ms = None if not expiry else expiry[1] * (1000 if expiry[0] == "EX" else 1)
    run.put(key, value, lease_ms)
    return reply is ANY or reply == "OK"


def _delete(run: _Run, words: list[Any], reply: Any) -> bool:
    if reply == 0:
        return run.absent(words[0])
    return run.store.pop(words[0], None) is not None


def _increment(run: _Run, words: list[Any], reply: Any) -> bool:
    held = run.store.get(words[0], ("0", None))
    number = int(held[0]) + int(words[1] if len(words) > 1 else 1)
    run.store[words[0]] = (str(number), held[1])
    return reply is ANY or int(reply) == number


def _decrement(run: _Run, words: list[Any], reply: Any) -> bool:
    return _increment(run, [words[0], -int(words[1] if len(words) > 1 else 1)], reply)


def _compare_and_set(run: _Run, words: list[Any], reply: Any) -> bool:
    key, old, new = words
    if reply is ANY or reply == "OK":
        if not run.holds(key, old):
            return False
        run.store[key] = (str(new), run.store[key][1])
        return True
    return run.refused(key, old, reply)


def _compare_and_delete(run: _Run, words: list[Any], reply: Any) -> bool:
    if reply is ANY or reply == 1:
        return run.holds(*words) and run.store.pop(words[0]) is not None
    return run.refused(words[0], words[1], reply)


def _compare_and_expire(run: _Run, words: list[Any], reply: Any) -> bool:
    key, token, lease_ms = words
    if reply is ANY or reply == 1:
        if not run.holds(key, token):
            return False
        run.put(key, token, lease_ms)
        return True
    return run.refused(key, token, reply)


def _claim(run: _Run, words: list[Any], reply: Any) -> bool:
    claim_key, result_key, token, seconds = words
    if reply is ANY or reply == "CLAIMED":
        if not run.absent(claim_key):
            return False
        run.put(claim_key, token, seconds * 1000)
        return True
    if claim_key not in run.store:
        return False
    return run.read(result_key, reply[1] if isinstance(reply, list) else reply)


_COMMANDS: dict[str, Command] = {
    "GET": _get,
    "MGET": _mget,
    "WATCH": _watch,
    "SET": _set,
    "DEL": _delete,
    "INCR": _increment,
    "INCRBY": _increment,
    "DECR": _decrement,
    "DECRBY": _decrement,
    "GOBLIN.CAS": _compare_and_set,
    "GOBLIN.CAD": _compare_and_delete,
    "GOBLIN.CAEXPIRE": _compare_and_expire,
    "GOBLIN.CLAIM": _claim,
}
