"""The page of a run is whole, small, safe, and shows what is wrong first."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from chaos.history import Event, History, write
from chaos.report import page
from chaos.report_svg import Scale, lanes, steps
from chaos.verdict import judge
from tests.chaos.stores import Simulated, failed, lost, ok
from tests.chaos.test_check_linear import job_requests, register_requests

RUN = {
    "workload": "claims",
    "nemeses": ["kill", "pause"],
    "nodes": 3,
    "seconds": 4.0,
    "seed": 7,
    "system": "goblin",
    "version": "0",
    "command": "cluster/chaos --seed 7",
}


def events(end_ms):
    found = [Event(0, "phase", "faults"), Event(1, "leader", "2", ("n1",))]
    for number in range(12):
        at = end_ms * (number + 1) / 14
        found += [Event(at, "fault", "kill", ("n1",)), Event(at + end_ms / 30, "heal", "kill")]
        found.append(Event(at + 5, "leader", str(number + 3), (f"n{number % 3 + 1}",)))
    return [*sorted(found, key=lambda event: event.time_ms), Event(end_ms * 0.9, "phase", "quiet")]


def simulated(requests, count=800, mistakes=()):
    store = Simulated(1, frozenset(mistakes))
    operations = store.history(requests(store.random, count), clients=6)
    end = max(o.end_ms or 0 for o in operations)
    return History(dict(RUN), operations, events(end))


def page_of(history, complaints=()):
    return page(history, judge(history), complaints)


def drawings(text):
    """Every drawing of the page, as XML."""
    return [
        ElementTree.fromstring(found) for found in re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    ]


@pytest.mark.parametrize(
    "workload, requests",
    [
        ("claims", job_requests),
        ("register", register_requests),
    ],
)
def test_a_right_run(workload, requests):
    history = simulated(requests)
    history.run["workload"] = workload
    text = page_of(history)
    (timeline,) = drawings(text)
    assert "VALID</span>" in text
    assert "INVALID" not in text
    assert RUN["command"] in text
    assert len(timeline.findall(".//rect")) > 12
    assert "What is wrong" not in text
    assert "How long clients waited" in text


def test_a_wrong_run_shows_the_evidence_before_all_else():
    text = page_of(simulated(job_requests, mistakes=("two holders",)))
    assert "INVALID</span>" in text
    assert 0 < text.index("double holder") < text.index("Timeline")
    assert len(drawings(text)) > 2
    assert "<details>" in text
    assert 'class="double"' in text


def test_what_the_harness_saw_is_a_finding_too():
    text = page_of(simulated(register_requests), ["n2 ended by itself"])
    assert "INVALID</span>" in text
    assert "n2 ended by itself" in text


def test_a_page_stays_small_whatever_happened():
    small = page_of(simulated(register_requests, 500))
    large = page_of(simulated(register_requests, 6_000))
    assert len(large) < 250_000
    assert len(large) < 3 * len(small)


def test_an_empty_run_and_one_without_an_answer():
    assert "UNKNOWN" in page_of(History({"workload": "claims"}))
    assert "UNKNOWN" in page_of(History({"workload": "register"}, [lost("set k 1", 0)]))
    refused = [failed("claim c r t 1", 0, 5), lost("claim d r t 1", 0)]
    assert "UNKNOWN" in page_of(History({"workload": "claims"}, refused))


def test_no_text_of_a_client_becomes_markup():
    evil = "<script>alert('x')</script>"
    operations = [
        ok("set k 1", "OK", 0, 1, node=evil), ok("get k", evil, 2, 3), lost("set k 9", 5)
    ]  # fmt: skip
    history = History({"workload": evil, "command": evil}, operations, [Event(1, "fault", evil)])
    text = page_of(history, [evil])
    assert "<script" not in text
    assert drawings(text)


def test_the_command_makes_a_page(tmp_path):
    source, target = tmp_path / "history.jsonl", tmp_path / "page.html"
    write(source, simulated(register_requests, 50))
    command = [sys.executable, "-m", "chaos.report", str(source), str(target)]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "verdict: " in told.stdout
    assert "</html>" in target.read_text()


def test_lanes_never_overlap():
    rng = random.Random(1)
    spans = sorted((begin, begin + rng.uniform(1, 9)) for begin in rng.sample(range(100), 40))
    placed = lanes(spans, 2)
    for lane in set(placed):
        own = [span for span, at in zip(spans, placed, strict=True) if at == lane]
        assert all(a[1] + 2 <= b[0] for a, b in pairwise(own))


def test_scales_and_steps():
    scale = Scale(0, 10_000, 100, 200)
    assert scale(5_000) == 150
    assert scale(-5) == 100
    assert scale(99_999) == 200
    assert scale.ticks(10) == [i * 1000 for i in range(11)]
    assert steps([0, 1, 2, 3], [5, 5, 7]) == [(0, 5), (2, 5), (2, 7), (3, 7)]
