"""Drawing: scales, axes, bars and steps as SVG text; it knows nothing of what is drawn."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

# Coordinates need no more than a tenth of a pixel, and a page of them should stay small.
Point = tuple[float, float]


def number(value: float) -> str:
    text = f"{value:.1f}"
    return text.removesuffix(".0")


@dataclass(frozen=True, slots=True)
class Scale:
    """From time to pixels."""

    begin: float
    end: float
    left: float
    right: float

    def __call__(self, value: float) -> float:
        share = (value - self.begin) / ((self.end - self.begin) or 1)
        return self.left + min(max(share, 0.0), 1.0) * (self.right - self.left)

    def ticks(self, about: int = 10) -> list[float]:
        """Round numbers, some of them."""
        span = (self.end - self.begin) or 1
        step = 10 ** math.floor(math.log10(span / about))
        step *= next(factor for factor in (1, 2, 5, 10) if span / (step * factor) <= about)
        first = math.ceil(self.begin / step) * step
        count = int((self.end - first) / step) + 1
        return [first + i * step for i in range(count)]


def time_text(ms: float) -> str:
    """A time on an axis."""
    return f"{ms:g} ms" if abs(ms) < 1000 and ms else f"{ms / 1000:g} s"


def tag(name: str, content: str = "", **attributes: object) -> str:
    """One element. `class_` stands for class; underlines for dashes."""
    words = [name]
    for key, value in attributes.items():
        if value is not None:
            text = number(value) if isinstance(value, float) else str(value)
            words.append(f'{key.rstrip("_").replace("_", "-")}="{escape(text)}"')
    return f"<{' '.join(words)}>{content}</{name}>" if content else f"<{' '.join(words)}/>"


def text(x: float, y: float, content: str, class_: str = "", anchor: str | None = None) -> str:
    return tag("text", escape(content), x=x, y=y, class_=class_ or None, text_anchor=anchor)


def title(content: str) -> str:
    """What shows when the pointer rests on it."""
    return f"<title>{escape(content)}</title>"


def bar(
    x1: float, x2: float, y: float, height: float, class_: str, hint: str = "", radius: int = 2
) -> str:
    """A bar that is seen even if it is short."""
    width = max(x2 - x1, 1.5)
    return tag(
        "rect", title(hint) if hint else "", x=x1, y=y, width=width, height=height, rx=radius,
        class_=class_,
    )  # fmt: skip


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> str:
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def path(points: Iterable[Point], class_: str, *, close: bool = False) -> str:
    words = [f"{number(x)} {number(y)}" for x, y in points]
    if not words:
        return ""
    return tag("path", d="M" + "L".join(words) + ("Z" if close else ""), class_=class_)


def steps(edges: Sequence[float], heights: Sequence[float]) -> list[Point]:
    """The outline of columns, from left to right."""
    points: list[Point] = []
    for left, right, height in zip(edges, edges[1:], heights, strict=False):
        if points and points[-1][1] == height:
            points[-1] = (right, height)
        else:
            points += [(left, height), (right, height)]
    return points


def area(edges: Sequence[float], lows: Sequence[float], highs: Sequence[float], class_: str) -> str:
    """The area between two step lines."""
    if all(low == high for low, high in zip(lows, highs, strict=True)):
        return ""
    return path([*steps(edges, highs), *reversed(steps(edges, lows))], class_, close=True)


def svg(width: float, height: float, content: str, label: str) -> str:
    return tag(
        "svg", title(label) + content, viewBox=f"0 0 {number(width)} {number(height)}", role="img"
    )


def lanes(spans: Sequence[tuple[float, float]], gap: float) -> list[int]:
    """For each span a lane in which it overlaps no other, as few lanes as possible."""
    ends: list[float] = []
    found = []
    for begin, end in spans:
        for lane, last in enumerate(ends):
            if last + gap <= begin:
                ends[lane] = end
                found.append(lane)
                break
        else:
            ends.append(end)
            found.append(len(ends) - 1)
    return found
