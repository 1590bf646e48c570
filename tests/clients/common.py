"""What the programs of this directory share: checks by name, and writing through a failover.

Runs in the environments of the clients, so it uses the standard library alone.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable

# A client that has not recovered after this has not recovered.
RECOVER_BOUND_S = 25.0


class Checks:
    """Runs functions by name; the result of each is `works` or what went wrong."""

    def __init__(self) -> None:
        self.results: dict[str, str] = {}

    def __call__(self, name: str) -> Callable[[Callable[[], None]], None]:
        def run(function: Callable[[], None]) -> None:
            try:
                function()
                self.results[name] = "works"
            except Exception as error:
                self.results[name] = describe(error)

        return run


def describe(error: BaseException) -> str:
    """An error in one line: its text, as the client shows it."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


Connect = Callable[[int], tuple[Callable[[str], object], Callable[[str], bool]]]


def run_failover(connect: Connect, survivor: int, leader: int) -> dict:
    """Write one key after another through each of two nodes until standard input says `stop`.

    `connect(port)` gives (write a key, whether it can be read). A write that raised is tried again
    with the next key. Afterwards every acknowledged key must be there, read through the survivor.
    """
    stopped = threading.Event()
    results: dict[str, dict] = {}
    threads = []
    for name, port in (("survivor", survivor), ("leader", leader)):
        loop = threading.Thread(target=write_loop, args=(connect, port, name, stopped, results))
        loop.start()
        threads.append(loop)
    print("running", flush=True)
    sys.stdin.readline()
    stopped.set()
    for loop in threads:
        loop.join(2 * RECOVER_BOUND_S)
    _, is_there = connect(survivor)
    for result in results.values():
        acknowledged = result.pop("acknowledged")
        result["ok"] = len(acknowledged)
        result["lost"] = sum(not is_there(key) for key in acknowledged)
    return results


def write_loop(
    connect: Connect, port: int, name: str, stopped: threading.Event, results: dict[str, dict]
) -> None:
    """Write until told to stop, and on until a write succeeded after that."""
    write, _ = connect(port)
    acknowledged: list[str] = []
    failures: Counter[str] = Counter()
    last_s, gap_s = time.monotonic(), 0.0
    number = 0
    give_up_s = None
    recovered = False
    while not recovered:
        number += 1
        key = f"failover:{port}:{id(results)}:{time.time_ns()}:{number}"
        final = stopped.is_set()
        if final and give_up_s is None:
            give_up_s = time.monotonic() + RECOVER_BOUND_S
        try:
            write(key)
        except Exception as error:
            failures[describe(error)[:90]] += 1
            if give_up_s is not None and time.monotonic() > give_up_s:
                break
            time.sleep(0.1)
            continue
        now_s = time.monotonic()
        gap_s, last_s = max(gap_s, now_s - last_s), now_s
        acknowledged.append(key)
        recovered = final
        time.sleep(0.02)
    results[name] = {
        "acknowledged": acknowledged,
        "recovered": recovered,
        "gap_ms": int(gap_s * 1000),
        "failures": dict(failures),
    }


def main(version: str, check: Callable[[int], dict], failover: Callable[[int, int], dict]) -> None:
    """`check PORT` or `failover SURVIVOR LEADER`; the result is one line of JSON."""
    what, *ports = sys.argv[1:]
    result = check(int(ports[0])) if what == "check" else failover(int(ports[0]), int(ports[1]))
    print(json.dumps({"version": version, "result": result}), flush=True)
