"""From a plan that fails to the shortest one that still fails in the same way (delta debugging)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.simulator.plan import Plan
from tests.simulator.run import run_plan

Fails = Callable[[Plan], Plan | None]

TRIES_MAX = 600
# Without an event all delays after it are drawn anew, so a shorter plan gets a few chances.
NOISES = range(4)


class Shrinker:
    """`best` is the shortest plan found; `tries` how many runs it took."""

    def __init__(self, plan: Plan, rule: str, *, tries_max: int = TRIES_MAX) -> None:
        self.best = plan
        self.rule = rule
        self.tries = 0
        self.tries_max = tries_max

    def shrink(self) -> Plan:
        before = None
        while before != self.best and self.tries < self.tries_max:
            before = self.best
            self._end_early()
            self._drop_events()
            self._calm_settings()
        return self.best

    def _try(self, plan: Plan) -> bool:
        """Take the plan if it still fails, under one noise or another."""
        for noise in (self.best.noise, *(n for n in NOISES if n != self.best.noise)):
            if self.tries >= self.tries_max:
                return False
            self.tries += 1
            noisy = replace(plan, noise=noise)
            if run_plan(noisy).rule == self.rule:
                self.best = noisy
                return True
        return False

    def _end_early(self) -> None:
        for share in (0.25, 0.5, 0.75, 0.9):
            duration_ms = self.best.duration_ms * share
            events = tuple(e for e in self.best.events if e.at_ms < duration_ms)
            if self._try(replace(self.best, duration_ms=duration_ms, events=events)):
                return

    def _drop_events(self) -> None:
        """Halves first, then smaller and smaller pieces."""
        size = max(1, len(self.best.events) // 2)
        while self.tries < self.tries_max:
            position = 0
            while position < len(self.best.events):
                events = self.best.events
                shorter = events[:position] + events[position + size :]
                if not self._try(replace(self.best, events=shorter)):
                    position += size
            if size == 1:
                return
            size //= 2

    def _calm_settings(self) -> None:
        for change in (
            {"loss": 0.0}, {"spike": 0.0}, {"encoded": False}, {"real_files": False},
            {"disk_ms": 0.3}, {"delay_ms": 0.5}, {"snapshot_log_bytes": 10**9},
            {"rates": (1.0,) * self.best.nodes}, {"walls_ms": (0.0,) * self.best.nodes},
        ):  # fmt: skip
            settings = replace(self.best.settings, **change)
            if settings != self.best.settings:
                self._try(replace(self.best, settings=settings))
