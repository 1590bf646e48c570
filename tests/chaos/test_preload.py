"""The library that is loaded into nodes: wall clock and fsync obey, the steady clock does not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from chaos import preload

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")

# Prints the two clocks and how fsync went for each line that it reads.
PROGRAM = """
import os, sys, time
for line in sys.stdin:
    began = time.monotonic()
    try:
        fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
        os.fsync(fd)
        how = "ok"
    except OSError as error:
        how = str(error.errno)
    print(time.time(), time.clock_gettime(time.CLOCK_BOOTTIME), how, time.monotonic() - began)
    sys.stdout.flush()
"""


@pytest.fixture
def process(tmp_path):
    library = preload.build(tmp_path)
    control = preload.Control(tmp_path / "control")
    running = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "file")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **control.environ(library)},
    )

    def ask() -> tuple[float, float, str, float]:
        running.stdin.write("\n")
        running.stdin.flush()
        wall, steady, how, took = running.stdout.readline().split()
        return float(wall), float(steady), how, float(took)

    yield control, ask
    running.stdin.close()
    running.wait(5)
    running.stdout.close()
    control.close()


def test_the_wall_clock_moves_and_the_steady_one_does_not(process):
    control, ask = process
    wall, steady, _, _ = ask()
    control.set(wall_offset_ms=3_600_000)
    late_wall, late_steady, _, _ = ask()
    assert 3599 < late_wall - wall < 3610
    assert 0 <= late_steady - steady < 10
    control.set(wall_offset_ms=-3_600_000)
    assert -3601 < ask()[0] - wall < -3590
    control.set(wall_offset_ms=0)
    assert 0 <= ask()[0] - wall < 10


def test_fsync_fails_and_takes_long_as_told(process):
    control, ask = process
    assert ask()[2] == "ok"
    control.set(fsync_fails=True)
    assert ask()[2] == "5"  # EIO
    control.set(fsync_fails=False, fsync_delay_ms=150)
    _, _, how, took = ask()
    assert how == "ok"
    assert took >= 0.15
