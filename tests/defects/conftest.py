"""Clusters for the scenarios, on a clock that only the test moves."""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path

import pytest
from pysyncobj import syncobj

from goblin_raft.consensus import snapshot_transfer
from tests.defects.clusters import Clock
from tests.defects.our_cluster import OurCluster
from tests.defects.stock_cluster import StockCluster

CHUNK_BYTES = 64


class Clusters:
    """Makes either kind; a test plays its scenario on both."""

    def __init__(self, clock, directory) -> None:
        self.clock = clock
        self.directory = directory
        self.made = []

    def stock(self, **options) -> StockCluster:
        return self._make(StockCluster, options)

    def ours(self, **options) -> OurCluster:
        return self._make(OurCluster, options)

    def small(self, kind):
        """One entry or two in a message, and snapshots in many chunks."""
        if kind == "stock":
            return self.stock(appendEntriesBatchSizeBytes=100, logCompactionBatchSize=CHUNK_BYTES)
        return self.ours(message_bytes=100)

    def _make(self, kind, options):
        directory = self.directory / str(len(self.made))
        directory.mkdir()
        self.made.append(kind(self.clock, directory, **options))
        return self.made[-1]


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(syncobj, "monotonicTime", lambda: clock.now_s)
    return clock


@pytest.fixture
def clusters(clock, monkeypatch):
    monkeypatch.setattr(snapshot_transfer, "CHUNK_BYTES", CHUNK_BYTES)
    stock_logger = logging.getLogger("pysyncobj")
    monkeypatch.setattr(stock_logger, "disabled", True)
    base = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(prefix="goblin-defects-", dir=base) as name:
        clusters = Clusters(clock, Path(name))
        yield clusters
        for cluster in clusters.made:
            cluster.stop()
