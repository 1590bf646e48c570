"""The disk thread: runs one write at a time and reports back to the event loop; decides nothing."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable

Job = tuple[Callable[[], None], Callable[[BaseException | None], None]]


class DiskThread:
    """`submit(work, done)`: `work()` runs in the thread, then `done(error)` in the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        # A daemon: a disk that never answers must not keep a process from ending.
        self._thread = threading.Thread(target=self._run, name="disk", daemon=True)
        self._thread.start()

    def submit(
        self, work: Callable[[], None], done: Callable[[BaseException | None], None]
    ) -> None:
        """Hand over one job."""
        self._jobs.put((work, done))

    def close(self, wait_s: float) -> None:
        """Let the thread end after the jobs that it has, and wait for that a bounded time."""
        self._jobs.put(None)
        self._thread.join(wait_s)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            work, done = job
            error: BaseException | None = None
            try:
                work()
            except BaseException as caught:  # reported, never lost in a thread
                error = caught
            try:
                self._loop.call_soon_threadsafe(done, error)
            except RuntimeError:  # the loop is closed: nobody waits for this any more
                return
