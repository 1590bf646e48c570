"""The wall clock and the disk of one node, in the harness's hands: builds faults.c and steers it.

Knows processes only as an environment that they are started with. Needs a C compiler.
"""

from __future__ import annotations

import mmap
import os
import struct
import subprocess
import tempfile
from pathlib import Path

from chaos.needs import compiler

SOURCE = Path(__file__).with_name("faults.c")
# As `struct control` in faults.c: wall offset, fsync fails, fsync delay.
LAYOUT = struct.Struct("=qii")


def build(directory: Path) -> Path:
    """The library, compiled into `directory`."""
    library = directory / "faults.so"
    with tempfile.TemporaryDirectory(dir=directory) as scratch:
        part = Path(scratch) / "faults.so"
        command = [compiler(), "-O2", "-shared", "-fPIC", "-o", str(part), str(SOURCE), "-ldl"]
        subprocess.run(command, check=True)
        part.replace(library)
    return library


class Control:
    """The mapped file of one node. Settings take effect at its next call, without a restart."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.write_bytes(bytes(LAYOUT.size))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), LAYOUT.size)
        self.wall_offset_ms = 0
        self.fsync_fails = False
        self.fsync_delay_ms = 0

    def set(
        self,
        *,
        wall_offset_ms: int | None = None,
        fsync_fails: bool | None = None,
        fsync_delay_ms: int | None = None,
    ) -> None:
        """Change what is given, leave the rest."""
        if wall_offset_ms is not None:
            self.wall_offset_ms = wall_offset_ms
        if fsync_fails is not None:
            self.fsync_fails = fsync_fails
        if fsync_delay_ms is not None:
            self.fsync_delay_ms = fsync_delay_ms
        offset_ns = self.wall_offset_ms * 1_000_000
        self._map[:] = LAYOUT.pack(offset_ns, int(self.fsync_fails), self.fsync_delay_ms)

    def environ(self, library: Path) -> dict[str, str]:
        """What a process that is to obey this file is started with."""
        loaded = [str(library), os.environ.get("LD_PRELOAD", "")]
        return {"LD_PRELOAD": ":".join(filter(None, loaded)), "CHAOS_CONTROL": str(self.path)}

    def close(self) -> None:
        self._map.close()
