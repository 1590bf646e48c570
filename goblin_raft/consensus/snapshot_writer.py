"""Writes a snapshot in a child process: the state as it was at the fork, while the node goes on.

Knows how to write blocks to a file and how to watch a child; not what the blocks mean. The child
shares nothing that it could harm: it closes every descriptor that it inherited, so it holds neither
the node's ports nor its directory, and it never returns to the event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import resource
import signal
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from goblin_raft.consensus.snapshots import write_snapshot

logger = logging.getLogger(__name__)

# Serving clients comes first.
NICENESS = 10
PROGRESS_EVERY_S = 2.0
REAP_EVERY_S = 0.05
PROGRESS_EVERY_BLOCKS = 20

Done = Callable[[int, int], None]


class SnapshotWriter:
    """One snapshot at a time. All methods belong to the event loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._pid = 0
        self._reports = b""
        self._said_s = 0.0

    def start(
        self,
        path: Path,
        blocks: Callable[[], Iterable[bytes]],
        done: Done,
        failed: Callable[[str], None],
    ) -> None:
        """Fork. Later either `done(size, crc)` or `failed(why)`."""
        reader, writer = os.pipe()
        try:
            pid = os.fork()
        except OSError as error:  # no memory, or too many processes
            os.close(reader)
            os.close(writer)
            failed(str(error.strerror or error))
            return
        if pid == 0:
            _in_child(path, blocks, writer)
        os.close(writer)
        self._pid, self._reports, self._said_s = pid, b"", self._loop.time()
        os.set_blocking(reader, False)
        self._loop.add_reader(reader, self._read, reader, path, done, failed)

    def stop(self) -> None:
        """End the child, if there is one: the node stops."""
        if self._pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            self._pid = 0

    def _read(self, reader: int, path: Path, done: Done, failed: Callable[[str], None]) -> None:
        data = os.read(reader, 65536)
        self._reports += data
        if data:
            self._report_progress(path)
            return
        self._loop.remove_reader(reader)
        os.close(reader)
        self._reap()
        words = self._reports.decode("utf-8", "replace").splitlines()[-1:]
        match words[0].split(maxsplit=1) if words else []:
            case ["done", numbers]:
                size, crc = map(int, numbers.split())
                done(size, crc)
            case ["failed", why]:
                failed(why)
            case _:
                failed("its process ended early")

    def _report_progress(self, path: Path) -> None:
        now_s = self._loop.time()
        if now_s - self._said_s >= PROGRESS_EVERY_S:
            self._said_s = now_s
            lines = self._reports.decode("ascii", "replace").splitlines()
            logger.info("snapshot.progress file=%s written=%s", path.name, lines[-1])

    def _reap(self) -> None:
        """The child has said its last word; giving back its memory may take it a moment."""
        if self._pid and os.waitpid(self._pid, os.WNOHANG) == (0, 0):
            self._loop.call_later(REAP_EVERY_S, self._reap)
        else:
            self._pid = 0


def _in_child(path: Path, blocks: Callable[[], Iterable[bytes]], writer: int) -> None:
    """Everything that the child does. Does not return."""
    status = 1
    try:
        gc.disable()  # it would touch, and so copy, every page
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        os.closerange(3, writer)
        os.closerange(writer + 1, most)
        os.nice(NICENESS)
        size, crc = write_snapshot(path, _counted(blocks(), writer))
        os.write(writer, b"done %d %d\n" % (size, crc))
        status = 0
    except BaseException as error:  # nothing may get out of here, whatever it is
        with contextlib.suppress(BaseException):
            os.write(writer, f"failed {type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(status)


def _counted(blocks: Iterable[bytes], writer: int) -> Iterator[bytes]:
    size = 0
    for number, block in enumerate(blocks):
        yield block
        size += len(block)
        if number % PROGRESS_EVERY_BLOCKS == 0:
            os.write(writer, b"%d bytes\n" % size)
