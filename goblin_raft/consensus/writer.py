"""Writes batches in the disk thread; when the disk fails or is full, keeps at it, at a distance.

A disk that fails is treated as one that is very slow: the batch that could not be written is not
given up, no turn runs until it is durable, and what was held back stays so. So nothing is promised
that is not on disk, and nothing that memory holds gets ahead of it. What the node does meanwhile
(it leaves the cluster's work to the others) is the engine's business.

Invariants:

* A handle on which a write or an fsync failed is never used again. All files are opened anew, read
  and proved as at a start, and copied out of the write-ahead file, so that what an fsync had given
  up is written once more (storage.py).
* What is then found must be what memory says was durable; if it is not, the node stays back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from goblin_raft.consensus.disk import DiskThread
from goblin_raft.consensus.errors import StartRefused
from goblin_raft.consensus.log import Log
from goblin_raft.consensus.storage import Batch, is_disk_error

logger = logging.getLogger(__name__)

RETRY_MIN_S = 0.5
RETRY_MAX_S = 8.0


class Writer:
    """One batch at a time. All methods belong to the event loop's thread."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        log: Log,
        *,
        failed: Callable[[], None],
        fatal: Callable[[BaseException], None],
    ) -> None:
        """`failed` is called once each time that the disk begins to fail; `fatal` when an error
        has nothing to do with the disk, and must not return."""
        self._loop = loop
        self._log = log
        self._failed = failed
        self._fatal = fatal
        self._disk = DiskThread(loop)
        self._wait_s = RETRY_MIN_S
        self._retry: asyncio.TimerHandle | None = None
        self.busy = False
        self.problem = ""  # a sentence for the operator, while the disk fails

    def write(self, batch: Batch, written: Callable[[bool], None]) -> None:
        """`written(at_once)` when it is durable: False if the disk had to recover first."""
        self.busy = True
        self._disk.submit(
            lambda: self._log.write(batch), lambda error: self._ended(error, batch, written)
        )

    def close(self, wait_s: float) -> None:
        """Let the thread end."""
        if self._retry is not None:
            self._retry.cancel()
        self._disk.close(wait_s)

    def _ended(
        self, error: BaseException | None, batch: Batch, written: Callable[[bool], None]
    ) -> None:
        if error is not None:
            self._step_back(error, batch, written)
            return
        at_once = not self.problem
        if self.problem:
            logger.warning("disk.works_again")
        self.problem, self.busy, self._wait_s = "", False, RETRY_MIN_S
        written(at_once)

    def _step_back(
        self, error: BaseException, batch: Batch, written: Callable[[bool], None]
    ) -> None:
        is_first = not self.problem
        if isinstance(error, StartRefused):  # what was found there is wrong: no use to try again
            self.problem = str(error)
            logger.critical("disk.damaged error=%s", error)
        elif is_disk_error(error):
            why = getattr(error, "strerror", None) or error
            self.problem = f"the disk does not take writes ({why}); tried again every few seconds"
            logger.log(logging.CRITICAL if is_first else logging.ERROR, "disk.failed %s", why)
            self._retry = self._loop.call_later(self._wait_s, self._recover, batch, written)
            self._wait_s = min(RETRY_MAX_S, self._wait_s * 2)
        else:
            self._fatal(error)
        if is_first:
            self._failed()

    def _recover(self, batch: Batch, written: Callable[[bool], None]) -> None:
        self._disk.submit(
            lambda: self._log.recover(batch), lambda error: self._ended(error, batch, written)
        )
