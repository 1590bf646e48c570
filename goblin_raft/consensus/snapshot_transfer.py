"""How a follower that is too far behind gets the leader's snapshot instead of entries (Raft,
section 7), piece by piece; what is in a snapshot is not known here.

One chunk is under way at a time, and its answer leaves when it is on the follower's disk: that is
all the back-pressure there is. The first chunk is empty, an offer: the answer says how much of this
very snapshot the follower has already, so a transfer goes on where the last session left it.

Invariants, each with the defect of stock pysyncobj 0.3.17 that broke it (docs/consensus.md):

* A chunk commits nothing; only a snapshot that was received, verified and loaded in whole does
  (D1), and it is said to be there only when it is on disk (D7).
* An older state never replaces a newer one (D10).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pysyncobj.node import Node

from goblin_raft.consensus.errors import Fatal
from goblin_raft.consensus.snapshots import Snapshot, SnapshotDamaged, read_snapshot
from goblin_raft.consensus.stock import LEADER, Message, StockNode, monotonic_s
from goblin_raft.entry import Unreadable
from goblin_raft.machine_state import StateLoader

logger = logging.getLogger(__name__)

CHUNK_BYTES = 512 * 1024
# A chunk or its answer may be lost with the other direction's connection: it is sent again.
RESEND_AFTER_S = 1.0
# A follower that has not answered for so long (it is stopped, perhaps) holds back no compaction.
PATIENCE_S = 30.0
# Each block takes about a millisecond; between turns the node hears its leader and answers PING.
BLOCKS_PER_TURN = 1


class Sending:
    """The leader's side of one transfer."""

    def __init__(self, snapshot: Snapshot, path: Path, now_s: float) -> None:
        self.snapshot = snapshot
        self._file = open(path, "rb", buffering=0)  # noqa: SIM115 held while sending
        self.offset = 0
        self.is_offer = True
        self.sent_s = float("-inf")
        self.answered_s = now_s

    def chunk(self, size_max: int) -> bytes:
        """The bytes that are to be sent now."""
        return b"" if self.is_offer else os.pread(self._file.fileno(), size_max, self.offset)

    def close(self) -> None:
        """The transfer is over, in one way or another."""
        self._file.close()


class Loading:
    """The follower's side, when all is received: the state is built beside the one in use."""

    def __init__(self, snapshot: Snapshot, path: Path, loader: StateLoader) -> None:
        self.snapshot = snapshot
        self.loader = loader
        self._blocks: Iterator[bytes] = read_snapshot(path, snapshot)

    def step(self) -> bool:
        """Load a little; whether that was the last. SnapshotDamaged, Unreadable."""
        for _ in range(BLOCKS_PER_TURN):
            block = next(self._blocks, None)
            if block is None:
                if not self.loader.ended:
                    raise SnapshotDamaged("it has no end")
                return True
            self.loader.feed(block)
        return False


class SnapshotTransfer(StockNode):
    """Both sides."""

    # Set by RaftNode.__init__, before pysyncobj's own.
    host: Any
    progress: dict[Node, Any]
    message_bytes_max: int
    heartbeat_s: float
    receiving: tuple[Snapshot, int] | None  # what comes, and how much of it is there
    loading: Loading | None

    def leader_heard(self, leader_ms: int) -> None:
        """A leader of the current term showed its clock."""
        raise NotImplementedError

    def clock_ms(self) -> int:
        """This node's reading of cluster time."""
        raise NotImplementedError

    def step_down(self, term: int) -> None:
        """Somebody is in a later term."""
        raise NotImplementedError

    def answered(self, node: Node) -> None:
        """It is there."""
        raise NotImplementedError

    def matches(self, node: Node, index: int) -> None:
        """Its log is known to be ours up to `index`."""
        raise NotImplementedError

    def _follow(self, leader: Node, term: int) -> None:
        raise NotImplementedError

    # ---- the leader ------------------------------------------------------------------------

    def send_snapshot(self, node: Node) -> None:
        """Begin a transfer to this follower, or send the next chunk, or an old one once more."""
        progress, now_s = self.progress[node], monotonic_s()
        snapshot = self._log.snapshot
        if progress.sending is None:
            assert snapshot is not None, "entries were dropped without a snapshot"
            path = self._log.snapshot_files.path(*snapshot.last_entry)
            progress.probe()
            progress.sending = Sending(snapshot, path, now_s)
            logger.info(
                "snapshot.send to=%s index=%d bytes=%d",
                node.id, snapshot.last_index, snapshot.size,
            )  # fmt: skip
        sending: Sending = progress.sending
        if now_s - sending.sent_s < RESEND_AFTER_S:
            return
        sending.sent_s = now_s
        last_index, last_term, size, crc = sending.snapshot
        self._SyncObj__transport.send(
            node,
            {
                "type": "snapshot_chunk",
                "term": self._term,
                "clock_ms": self.clock_ms(),
                "last_index": last_index,
                "last_term": last_term,
                "size": size,
                "crc": crc,
                "offset": sending.offset,
                "data": sending.chunk(min(CHUNK_BYTES, self.message_bytes_max)),
            },
        )

    def on_snapshot_answer(self, node: Node, message: Message) -> None:
        """Send what comes next; when it has all, go on with entries."""
        if message["term"] > self._term:
            self.step_down(message["term"])
            return
        if self._role != LEADER or message["term"] != self._term:
            return
        self.answered(node)
        progress = self.progress[node]
        sending: Sending | None = progress.sending
        if sending is None or message["last_index"] != sending.snapshot.last_index:
            return
        if message["done"]:
            logger.info("snapshot.sent to=%s index=%d", node.id, sending.snapshot.last_index)
            # All that a snapshot includes is committed, so it is the same at both.
            self.matches(node, max(progress.match_index, sending.snapshot.last_index))
            self._next_index[node] = max(self._next_index[node], progress.match_index + 1)
            progress.probe()
            progress.probing = False
            self._send_to(node, {}, heartbeat=True, probe=True)
            return
        if message["damaged"]:
            # Ours may be the damaged one: a new one is made of the state in memory.
            logger.error("snapshot.damaged at=%s index=%d", node.id, sending.snapshot.last_index)
            self.host.snapshot_is_damaged()
            progress.probe()
            return
        sending.answered_s = monotonic_s()
        sending.is_offer = False
        sending.offset = min(message["wanted"], sending.snapshot.size)
        if sending.offset < sending.snapshot.size:  # else it is being loaded: ask now and then
            sending.sent_s = float("-inf")
            self.send_snapshot(node)

    def _send_to(self, node: Node, built: dict[Any, Any], *, heartbeat: bool, probe: bool) -> None:
        raise NotImplementedError

    def oldest_needed_index(self) -> int | None:
        """The entries after this one are still needed, by followers that answer: what is under way
        to them, or comes after the snapshot that they get. Without this a burst of writes would
        leave all of them behind what the log still holds, and the leader without a majority."""
        if self._role != LEADER:
            return None
        since_s = monotonic_s() - PATIENCE_S
        needed = []
        for peer in self._connected & self._peers:
            progress = self.progress[peer]
            sending: Sending | None = progress.sending
            if sending is not None and sending.answered_s > since_s:
                needed.append(sending.snapshot.last_index)
            elif sending is None and progress.answered_s > since_s:
                needed.append(progress.match_index)
        return min(needed, default=None)

    # ---- the follower ----------------------------------------------------------------------

    def on_snapshot_chunk(self, node: Node, message: Message) -> None:
        """Take the next bytes; or say what is wanted instead."""
        term = message["term"]
        snapshot = Snapshot(
            message["last_index"], message["last_term"], message["size"], message["crc"]
        )
        if term < self._term:
            self._answer_snapshot(node, snapshot, wanted=0)
            return
        if term == self._term and self._role == LEADER:
            raise Fatal(f"two leaders in term {term}: {self._self.id} and {node.id}")
        self._follow(node, term)
        self.leader_heard(message["clock_ms"])
        if snapshot.last_index <= self._commit_index:
            self._answer_snapshot(node, snapshot, wanted=0, done=True)
            return
        if self.receiving is None or self.receiving[0] != snapshot:
            if self.loading is not None:
                # Another one is all there: see to that first, and be asked again in a while.
                self._answer_snapshot(node, snapshot, wanted=snapshot.size)
                return
            self.receiving = (snapshot, self._log.snapshot_files.received(snapshot))
            logger.info(
                "snapshot.receive from=%s index=%d bytes=%d have=%d",
                node.id, snapshot.last_index, snapshot.size, self.receiving[1],
            )  # fmt: skip
        have = self.receiving[1]
        data = message["data"]
        if data and message["offset"] == have and have + len(data) <= snapshot.size:
            self._log.receive_part(snapshot, have, data)
            have += len(data)
            self.receiving = (snapshot, have)
        if have == snapshot.size and self.loading is None:
            path = self._log.snapshot_files.part_path(snapshot)
            self.loading = Loading(snapshot, path, self.host.state_loader())
        self._answer_snapshot(node, snapshot, wanted=have)

    def _answer_snapshot(
        self,
        node: Node,
        snapshot: Snapshot,
        *,
        wanted: int,
        done: bool = False,
        damaged: bool = False,
    ) -> None:
        self._SyncObj__transport.send(
            node,
            {
                "type": "snapshot_answer",
                "term": self._term,
                "last_index": snapshot.last_index,
                "wanted": wanted,
                "done": done,
                "damaged": damaged,
            },
        )

    def load_snapshot(self) -> None:
        """A little of the work of taking over a snapshot that is here in whole. Called at the
        start of a turn, when the last bytes are on disk."""
        loading = self.loading
        if loading is None:
            return
        snapshot = loading.snapshot
        try:
            if not loading.step():
                return
        except (SnapshotDamaged, Unreadable) as error:
            logger.error("snapshot.unusable index=%d error=%s", snapshot.last_index, error)
            self._log.receive_part(snapshot, 0, b"")  # from the beginning, then
            self.loading = self.receiving = None
            if self._leader is not None:
                self._answer_snapshot(self._leader, snapshot, wanted=0, damaged=True)
            return
        self.loading = self.receiving = None
        if snapshot.last_index > self._last_applied:
            self._install(snapshot, loading.loader)
        if self._leader is not None:
            self._answer_snapshot(self._leader, snapshot, wanted=0, done=True)

    def _install(self, snapshot: Snapshot, loader: StateLoader) -> None:
        index, term = snapshot.last_entry
        first, last = self._log[0][1], self._log[-1][1]
        if first <= index <= min(last, self._commit_index) and self._log[index - first][2] != term:
            raise Fatal(f"the snapshot at {index} disagrees with a committed entry")
        self._log.install(snapshot)
        self._commit_index = max(self._commit_index, index)
        self._last_applied = index
        self.host.install(loader)
        logger.info("snapshot.installed index=%d", index)
