"""What some faults need of the machine that they run on; knows no fault."""

from __future__ import annotations

import os
import shutil


class Missing(Exception):
    """What a run needs and this machine lacks; one sentence for whoever started it."""


def compiler() -> str:
    """The C compiler, for the library that steers clocks and fsync."""
    found = shutil.which("cc") or shutil.which("gcc")
    if found is None:
        msg = "clock and disk faults need a C compiler (on Debian: apt-get install gcc libc6-dev)"
        raise Missing(msg)
    return found


def root() -> None:
    """For a file system of one's own, which can be filled."""
    if os.geteuid() != 0:
        msg = "disk-full needs root, to give each node a small file system of its own"
        raise Missing(msg)


def namespaces() -> None:
    """For links that the kernel cuts."""
    if os.geteuid() != 0 or shutil.which("ip") is None or shutil.which("iptables") is None:
        msg = "network namespaces need root, iproute2 and iptables"
        raise Missing(msg)
