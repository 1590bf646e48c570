"""A run as one page for a person to look at: the verdict, its evidence, the timeline, the waits.

`python -m chaos.report history.jsonl page.html` makes it from a history; a run makes its own. The
page needs nothing but itself.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any

from chaos.findings import Check, Finding
from chaos.history import History, read
from chaos.report_style import CSS
from chaos.report_timeline import Timeline, evidence
from chaos.verdict import Verdict, judge

# More evidence than this is not looked at.
FINDINGS_MAX = 20
OPERATIONS_MAX = 40
OUTAGES_MAX = 60

WORDS = {True: ("valid", "VALID"), False: ("invalid", "INVALID"), "unknown": ("", "UNKNOWN")}
STATES = {True: ("good", "holds"), False: ("bad", "broken"), "unknown": ("doubt", "undecided")}
# What each checker asserts, for who does not know them.
MEANING = {
    "claims": "At most one holder at any moment of a lease; no lease ends early or too late; "
    "every node knows the right token.",
    "results": "A published result is never lost and never changed.",
    "counters": "Acknowledged increments count once, failed ones never.",
    "transactions": "All of a transaction is seen, or nothing.",
    "reads": "A read on any node sees what was acknowledged anywhere before it began.",
    "errors": "What an error said was not executed is never seen.",
    "convergence": "Nodes that applied the same entries hold the same state.",
    "linearizable": "One order of execution explains every answer about a key.",
    "availability": "All nodes serve again when the faults are over.",
}


def page(history: History, verdict: Verdict, complaints: Sequence[str] = ()) -> str:
    """The whole page. `complaints` are what the harness itself saw go wrong."""
    run = history.run
    word = WORDS[False if complaints else verdict.valid]
    name = f"{run.get('workload', 'run')} under {_listed(run.get('nemeses')) or 'no faults'}"
    parts = [
        f"<h1>{escape(name)} <span class='verdict {word[0]}'>{word[1]}</span></h1>",
        _facts(history, verdict),
        _command(run),
        *(
            f"<div class='finding'><p><b>harness</b> {escape(text)}</p></div>"
            for text in complaints
        ),
        _findings(verdict.findings),
        "<h2>Timeline</h2>",
        _key(),
        f"<div class='scroll'>{Timeline(history).draw()}</div>",
        _checks(verdict.checks),
        _outages(verdict.checks),
    ]
    return (
        "<!doctype html><html lang='en'><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{escape(name)}: {word[1]}</title><style>{CSS}</style>"
        f"<body>{''.join(parts)}</body></html>\n"
    )


def write(path: Path, history: History, verdict: Verdict, complaints: Sequence[str] = ()) -> None:
    path.write_text(page(history, verdict, complaints), encoding="utf-8")


# ---- parts -------------------------------------------------------------------------------------


def _listed(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value or "")


def _facts(history: History, verdict: Verdict) -> str:
    run = history.run
    figures = next((c.figures for c in verdict.checks if c.name == "availability"), {})
    latency = figures.get("latency_ms", {})
    facts = [
        ("system", run.get("system")),
        ("version", run.get("version")),
        ("nodes", run.get("nodes")),
        ("faults for", f"{run['seconds']:g} s" if "seconds" in run else None),
        ("seed", run.get("seed")),
        ("requests", f"{sum(figures.get(k, 0) for k in ('ok', 'fail', 'unknown')):,}"),
        ("answered", f"{figures.get('ok', 0):,}"),
        ("not executed", f"{figures.get('fail', 0):,}"),
        ("unknown", f"{figures.get('unknown', 0):,}"),
        ("median", f"{latency['median']:g} ms" if latency else None),
        ("worst", f"{latency['worst']:g} ms" if latency else None),
    ]
    return (
        "<div class='facts'>"
        + "".join(
            f"<span class='dim'>{name} <b>{escape(str(value))}</b></span>"
            for name, value in facts
            if value not in (None, "")
        )
        + "</div>"
    )


def _command(run: dict[str, Any]) -> str:
    if "command" not in run:
        return ""
    return f"<p class='dim'>Run it again:</p><pre>{escape(str(run['command']))}</pre>"


def _findings(findings: Sequence[Finding]) -> str:
    """The first of each rule in full, and then the others behind a fold."""
    if not findings:
        return ""
    first = list({finding.rule: finding for finding in reversed(findings)}.values())[::-1]
    others = [finding for finding in findings if finding not in first]
    parts = ["<h2>What is wrong</h2>", *map(_finding, first)]
    if others:
        shown = "".join(map(_finding, others[:FINDINGS_MAX]))
        left_out = len(others) - FINDINGS_MAX
        more = f"<p class='dim'>and {left_out} more like these</p>" if left_out > 0 else ""
        parts.append(f"<details><summary>{len(others)} more</summary>{shown}{more}</details>")
    return "".join(parts)


def _finding(finding: Finding) -> str:
    parts = [f"<p><b>{escape(finding.rule)}</b> {escape(finding.text)}</p>"]
    if finding.operations:
        parts.append(evidence(finding.operations[:OPERATIONS_MAX]))
    left_out = len(finding.operations) - OPERATIONS_MAX
    if left_out > 0:
        parts.append(f"<p class='dim'>and {left_out} more operations</p>")
    return f"<div class='finding'>{''.join(parts)}</div>"


def _key() -> str:
    entries = [
        ("out-ok", "answered"),
        ("out-fail", "error: not executed"),
        ("out-unknown", "unknown outcome"),
        ("write", "latency of writes, median to worst"),
        ("read", "of reads"),
    ]
    spans = "".join(f"<span><i class='{name}'></i>{text}</span>" for name, text in entries)
    return f"<div class='key'>{spans}</div>"


def _table(head: Iterable[tuple[str, str]], rows: Iterable[Iterable[str]]) -> str:
    columns = "".join(f"<th class='{kind}'>{name}</th>" for name, kind in head)
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    return f"<table><tr>{columns}</tr>{body}</table>"


def _cell(content: str, kind: str = "") -> str:
    return f"<td class='{kind}'>{content}</td>"


def _checks(checks: Sequence[Check]) -> str:
    rows = []
    for check in checks:
        kind, state = STATES[check.valid]
        if not check.looked_at and check.valid is True:
            kind, state = "dim", "nothing to judge"
        plain = {k: v for k, v in check.figures.items() if not isinstance(v, dict | list)}
        told = "; ".join([*([check.note] if check.note else []), *_pairs(plain)])
        rows.append(
            [
                _cell(f"<b>{escape(check.name)}</b>"),
                _cell(state, f"{kind} state"),
                _cell(f"{check.looked_at:,} {escape(check.of)}", "num"),
                _cell(f"{MEANING.get(check.name, '')} <span class='dim'>{escape(told)}</span>"),
            ]
        )
    head = [("checker", ""), ("answer", ""), ("looked at", "num"), ("what it asserts", "")]
    return "<h2>Checks</h2>" + _table(head, rows)


def _pairs(figures: dict[str, Any]) -> list[str]:
    return [f"{name} {value:,}" if isinstance(value, int) else f"{name}: {value}"
            for name, value in list(figures.items())[:12]]  # fmt: skip


def _outages(checks: Sequence[Check]) -> str:
    figures = next((check.figures for check in checks if check.name == "availability"), {})
    found = figures.get("outages", [])
    if not found:
        return ""
    longest = max(max(o["write_gap_ms"] or 0, o["read_gap_ms"] or 0) for o in found) or 1
    rows = []
    for outage in found[:OUTAGES_MAX]:
        named = (
            f"{escape(outage['what'])} <span class='dim'>{escape(' '.join(outage['nodes']))}</span>"
        )
        rows.append(
            [
                _cell(f"{outage['begin_ms'] / 1000:.1f} s", "num"),
                _cell(named),
                *_gap(outage["write_gap_ms"], longest, "write"),
                *_gap(outage["read_gap_ms"], longest, "read"),
                _cell(f"{outage['slowest_ms']:.0f} ms", "num"),
                _cell(str(outage["failed"]), "num"),
                _cell(str(outage["unknown"]), "num"),
            ]
        )
    parts = ["<h2>How long clients waited</h2>"]
    for kind in ("write", "read"):
        gap = figures.get(f"{kind}_gap_ms")
        if gap:
            parts.append(
                f"<p>Longest time without an answer to any {kind}, by fault: median "
                f"<b>{gap['median']} ms</b>, worst <b>{gap['worst']} ms</b>.</p>"
            )
    head = [("at", "num"), ("fault", ""), ("write gap", "num"), ("", ""), ("read gap", "num"),
            ("", ""), ("slowest", "num"), ("failed", "num"), ("unknown", "num")]  # fmt: skip
    parts.append(_table(head, rows))
    if len(found) > OUTAGES_MAX:
        parts.append(f"<p class='dim'>and {len(found) - OUTAGES_MAX} more faults</p>")
    return "".join(parts)


def _gap(gap_ms: float | None, longest: float, kind: str) -> list[str]:
    if gap_ms is None:
        return [_cell("", "num"), _cell("")]
    width = 120 * gap_ms / longest
    return [
        _cell(f"{gap_ms:.0f} ms", "num"),
        _cell(f"<span class='gap {kind}' style='width:{width:.0f}px'></span>"),
    ]


def main() -> None:
    """History in, page out."""
    source, target = Path(sys.argv[1]), Path(sys.argv[2])
    history = read(source)
    verdict = judge(history)
    write(target, history, verdict)
    print(verdict)


if __name__ == "__main__":
    main()
