"""The rules of claims, each by itself: what a worker may rely on, in words that a worker knows.

The search of check_linear.py decides more than these together. But it can run out of time, it does
not say how late a lease may end, and which rule was broken is easier to see here. Each rule looks
only at what is certain, and errs on the side of the store:

- A claim that was told CLAIMED took effect after it was sent and before it was answered. So from
  its end until its start + lease the key is certainly held with its token. The end of that interval
  moves with renewals that were answered with 1, counted from their starts, and is cut off where a
  release, or anything else that may have taken the key away, was sent: it may act at once.
- Whoever is sure to have asked within that interval must have met that token; and two intervals of
  different tokens have no moment in common. (An interval counts from the start where it ends and
  from the end where it begins: counted otherwise, a slow answer would look like a broken promise.)
- A claim can have held the key only from its start until its end + lease, by the greatest possible
  reckoning, and `late_ms` longer, which allows for moments without a leader. A renewal of unknown
  outcome may have prolonged that by its own length; a claim of unknown outcome may have taken
  effect at any time, so it has no end. Whoever met a token, or was refused, must have met one of
  these: else a lease was armed again, or a token is wrong.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from chaos.findings import Check
from chaos.history import History, Operation
from chaos.model import EARLY_MS, FOREVER
from chaos.requests import Touch, touches

NAME = "claims"
LATE_MS = 1000.0


@dataclass(slots=True)
class Tenure:
    """A claim that was granted, or may have been."""

    claim: Operation
    token: str
    granted: bool
    # The claim and its successful renewals, each with the milliseconds from then on.
    setters: list[tuple[Operation, float]]
    maybe: list[Touch]  # renewals of unknown outcome
    released_by: float
    # In between nobody else can hold the key; empty where no answer said CLAIMED.
    sure_from: float
    sure_to: float

    def over_by(self, meeting: Operation, late_ms: float) -> float:
        """The latest end of what this request may have met, by what was sent before it ended."""
        if not self.granted:
            return FOREVER
        sent = [(o, ms) for o, ms in self.setters if o is not meeting and _before(o, meeting)]
        over_by = max((_end(o) + ms for o, ms in _last(sent)), default=-FOREVER)
        over_by += sum(
            touch.words[2] + late_ms for touch in self.maybe if _before(touch.operation, meeting)
        )
        return float(min(over_by, self.released_by))


def check(history: History) -> Check:
    """All rules on all claim keys."""
    result = Check(NAME, of="claims granted")
    late_ms = float(history.run.get("late_ms", LATE_MS))
    held = tenures(history)
    contested = 0
    for key, on_key in _by_claim_key(history).items():
        granted = [tenure for tenure in held[key] if tenure.granted]
        result.looked_at += len(granted)
        contested += sum(t.name == "GOBLIN.CLAIM" and t.known for t in on_key) > len(granted)
        _double_holders(result, key, granted)
        denied: set[int] = set()
        for touch in on_key:
            if touch.known:
                _against_the_sure(result, key, touch, granted, denied)
                _against_the_possible(result, key, touch, held[key], late_ms)
    result.figures = {"keys": len(held), "contested keys": contested}
    return result


def tenures(history: History) -> dict[str, list[Tenure]]:
    """By claim key, who held it or may have."""
    early_ms = float(history.run.get("early_ms", EARLY_MS))
    found = _by_claim_key(history)
    return {key: _tenures(on_key, early_ms) for key, on_key in found.items()}


def _by_claim_key(history: History) -> dict[str, list[Touch]]:
    by_key: dict[str, list[Touch]] = {operation.key: [] for operation in history.of("claim")}
    for operation in history.operations:
        for touch in touches(operation):
            if touch.key in by_key:
                by_key[touch.key].append(touch)
    return by_key


def _end(operation: Operation) -> float:
    return FOREVER if operation.end_ms is None else operation.end_ms


def _tenures(on_key: list[Touch], early_ms: float) -> list[Tenure]:
    by_token: dict[str, list[Touch]] = defaultdict(list)
    takers: list[Touch] = []  # SET, DEL and the like: they look at no token
    for touch in on_key:
        if touch.name in ("GOBLIN.CAEXPIRE", "GOBLIN.CAD"):
            if touch.reply != 0 or not touch.known:
                by_token[str(touch.words[1])].append(touch)
        elif touch.name in ("SET", "DEL", "GOBLIN.CAS"):
            takers.append(touch)
    found = []
    for touch in on_key:
        operation = touch.operation
        if touch.name != "GOBLIN.CLAIM" or (touch.known and touch.reply != "CLAIMED"):
            continue
        own = [t for t in by_token[str(touch.words[2])] if _end(t.operation) >= operation.start_ms]
        takes = [t for t in takers if _end(t.operation) >= operation.start_ms]
        found.append(_tenure(touch, own, takes, early_ms))
    return found


def _before(operation: Operation, other: Operation) -> bool:
    return operation.start_ms <= _end(other)


def _last(setters: list[tuple[Operation, float]]) -> list[tuple[Operation, float]]:
    """Those that may have acted last: no other is certainly behind them."""
    latest_start = max((operation.start_ms for operation, _ in setters), default=0.0)
    return [(operation, ms) for operation, ms in setters if _end(operation) >= latest_start]


def _tenure(claim: Touch, own: list[Touch], takers: list[Touch], early_ms: float) -> Tenure:
    operation = claim.operation
    renewals = [touch for touch in own if touch.name == "GOBLIN.CAEXPIRE"]
    releases = [touch for touch in own if touch.name == "GOBLIN.CAD"]
    setters = [(operation, claim.words[3] * 1000)]
    setters += [(touch.operation, touch.words[2]) for touch in renewals if touch.known]
    maybe = [touch for touch in renewals if not touch.known]
    ends = [o.start_ms + ms for o, ms in _last(setters)]
    ends += [touch.operation.start_ms + touch.words[2] for touch in maybe]
    # Who renewed with success held it until then at least.
    sure_to = max(min(ends) - early_ms, *(o.start_ms for o, _ in setters), 0.0)
    sure_to = min([sure_to, *(touch.operation.start_ms for touch in [*takers, *releases])])
    released_by = min((_end(t.operation) for t in releases if t.known), default=FOREVER)
    sure_from = _end(operation) if claim.known else FOREVER
    return Tenure(
        operation,
        str(claim.words[2]),
        claim.known,
        setters,
        maybe,
        released_by,
        sure_from,
        sure_to,
    )


def _double_holders(result: Check, key: str, granted: list[Tenure]) -> None:
    longest: Tenure | None = None
    for tenure in sorted(granted, key=lambda t: t.sure_from):
        if tenure.sure_from >= tenure.sure_to:
            continue
        if longest and longest.token != tenure.token and longest.sure_to > tenure.sure_from:
            both_ms = min(longest.sure_to, tenure.sure_to) - tenure.sure_from
            text = f"{key} was held by {longest.token} and {tenure.token} for {both_ms:.0f} ms"
            result.broken("double holder", text, longest.claim, tenure.claim)
        if longest is None or tenure.sure_to > longest.sure_to:
            longest = tenure


def _met(touch: Touch) -> str | None:
    """The token that the answer shows; "" for none or another; None if it does not say."""
    name, words, reply = touch.name, touch.words, touch.reply
    if name == "GET":
        return "" if reply is None else str(reply)
    if name == "GOBLIN.CLAIM":
        return "" if reply == "CLAIMED" else None
    if name in ("GOBLIN.CAEXPIRE", "GOBLIN.CAD"):
        return str(words[1]) if reply == 1 else None
    return None


def _against_the_sure(
    result: Check, key: str, touch: Touch, granted: list[Tenure], denied: set[int]
) -> None:
    """Each claim is denied once only: what follows from one mistake would fill pages."""
    operation, met = touch.operation, _met(touch)
    refused = touch.name in ("GOBLIN.CAEXPIRE", "GOBLIN.CAD") and touch.reply == 0
    for tenure in granted:
        inside = tenure.sure_from < operation.start_ms and _end(operation) < tenure.sure_to
        if not inside or operation is tenure.claim or id(tenure) in denied:
            continue
        if met is not None and met != tenure.token:
            shown = f"the token {met}" if met else "no claim"
            text = f"{operation.node} met {shown} on {key} while {tenure.token} held it"
            rule = "double holder" if operation.op == "claim" else "token"
            result.broken(rule, text, tenure.claim, operation)
            denied.add(id(tenure))
        elif refused and str(touch.words[1]) == tenure.token:
            text = f"{operation.node} did not know {tenure.token}, which held {key}"
            result.broken("claim lost", text, tenure.claim, operation)
            denied.add(id(tenure))


def _against_the_possible(
    result: Check, key: str, touch: Touch, tenures: list[Tenure], late_ms: float
) -> None:
    operation, met = touch.operation, _met(touch)
    if touch.name == "GOBLIN.CLAIM" and touch.reply != "CLAIMED":
        candidates = tenures
    elif met:
        candidates = [tenure for tenure in tenures if tenure.token == met]
        if not any(_before(tenure.claim, operation) for tenure in candidates):
            text = f"{operation.node} met {met} on {key}, and no claim that took effect has it"
            result.broken("token", text, operation)
            return
    else:
        return
    begun = [tenure for tenure in candidates if _before(tenure.claim, operation)]
    ends = [tenure.over_by(operation, late_ms) for tenure in begun]
    if not begun:
        result.broken("token", f"{key} was held by nobody, and refused", operation)
    elif max(ends) + late_ms < operation.start_ms:
        last = begun[ends.index(max(ends))]
        text = (
            f"{key} was still held {operation.start_ms - max(ends):.0f} ms after every lease on "
            f"it was over or released (late_ms is {late_ms:.0f})"
        )
        result.broken("lease too long", text, last.claim, operation)
