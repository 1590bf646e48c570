"""The engine as the rest of a node sees it: a replica with its sockets, its disk and its timers.

The only place where a replica meets the event loop. Decides when a turn runs, and keeps the two
rules that `replica.py` states: no turn while a batch is being written, and nothing held is sent
before it is durable.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from goblin_raft import errors
from goblin_raft.config import Config
from goblin_raft.consensus.answers import call_back
from goblin_raft.consensus.errors import StartRefused
from goblin_raft.consensus.log import Log
from goblin_raft.consensus.replica import Replica, Sent
from goblin_raft.consensus.snapshot_writer import SnapshotWriter
from goblin_raft.consensus.storage import Batch
from goblin_raft.consensus.transport import Network
from goblin_raft.consensus.writer import Writer
from goblin_raft.node_view import NodeStatus, PeerStatus, SnapshotStatus
from goblin_raft.reply import Failure, Reply
from goblin_raft.state_machine import StateMachine

logger = logging.getLogger(__name__)

FATAL_EXIT_CODE = 70  # EX_SOFTWARE
# A timer that rings a little early would find nothing to do, and be set again.
DEADLINE_SLACK_S = 0.0005


def steady_ms() -> float:
    """A clock that nobody sets and that goes on while the machine sleeps, where there is one."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock) * 1000


def wall_ms() -> int:
    """The wall clock: for the stamps' companion, and for a start without a leader."""
    return time.time_ns() // 1_000_000


class RaftEngine:
    """See the module. All methods belong to the event loop's thread."""

    def __init__(self, config: Config, log: Log) -> None:
        self._loop = asyncio.get_running_loop()
        self.machine = StateMachine()
        self._config = config
        self._log = log
        self._replica = Replica(
            config,
            boot=secrets.randbits(62),
            log=log,
            machine=self.machine,
            steady_ms=steady_ms,
            wall_ms=wall_ms,
            rng=random.Random(secrets.randbits(64)),
        )
        self._network = Network(config, on_message=self._on_message, on_link=self._on_link)
        self._writer = Writer(
            self._loop, log, failed=self._step_back, fatal=lambda error: self._end("write", error)
        )
        self._snapshot_writer = SnapshotWriter(self._loop)
        self._snapshot_saved_s = time.time()  # as Redis: what was loaded counts as saved
        self._scheduled = False
        self._closed = False
        self._timer_s = config.heartbeat_ms / 2000
        self._timer: asyncio.TimerHandle | None = None
        self._deadline_timer: asyncio.TimerHandle | None = None
        self._role: tuple[str, int, str | None] | None = None

    @classmethod
    async def open(cls, config: Config) -> RaftEngine:
        """Open the log, then the peer port, then begin. StartRefused says why not."""
        log = Log(Path(config.dir), node_id=config.node_id, cluster_name=config.cluster_name)
        engine = cls(config, log)
        if config.peer_addresses:
            try:
                await engine._network.listen()
            except OSError as error:
                log.close()
                msg = f"cannot listen for peers on {config.raft}: {error.strerror or error}"
                raise StartRefused(msg) from error
            engine._network.dial()
        engine._tick()
        return engine

    # ---- what the frontend asks ----------------------------------------------------------------

    def propose(
        self, commands: list[list[Any]], size_bytes: int, settle: Callable[[list[Reply]], None]
    ) -> None:
        """See dispatch.Engine."""
        if self._writer.problem:
            replies: list[Reply] = [errors.DISK_FAILED.failure()] * len(commands)
            call_back(settle, replies)
            return
        self._replica.propose(commands, size_bytes, settle)
        self._schedule()

    def read(self, ready: Callable[[Failure | None], None]) -> None:
        """See dispatch.Engine."""
        if self._writer.problem:
            call_back(ready, errors.DISK_FAILED.failure())
            return
        self._replica.read(ready)
        self._schedule()

    def cluster_now_ms(self) -> int:
        """See dispatch.Engine."""
        return self._replica.clock_ms()

    def status(self) -> NodeStatus:
        """See dispatch.Engine."""
        node = self._replica.node
        return NodeStatus(
            node_id=self._config.node_id,
            cluster=self._config.cluster_name,
            role=node.role,
            leader_id=node.leader_id,
            term=node.term,
            commit_index=node.commit_index,
            applied_index=node.last_applied,
            last_log_index=self._log[-1][1],
            log_bytes=self._log.bytes,
            log_first_index=self._log[0][1],
            state=self._state(),
            problem=self._writer.problem,
            disk_bytes=self._log.disk_bytes(),
            snapshot=self._snapshot_status(),
            clock_ms=self._replica.clock_ms(),
            peers=tuple(
                PeerStatus(
                    node_id=peer_id,
                    raft_address=str(address),
                    resp_address=self._network.resp_addresses.get(peer_id, ""),
                    connected=node.is_connected(peer_id),
                    match_index=node.match_index(peer_id),
                    is_voter=node.peer_is_voter(peer_id),
                    losses=node.losses(peer_id),
                )
                for peer_id, address in sorted(self._config.peer_addresses.items())
            ),
        )

    def _state(self) -> str:
        node = self._replica.node
        if self._writer.problem:
            return "disk-failed"
        return "up" if node.is_voter else "new" if node.is_blank else "learner"

    def _snapshot_status(self) -> SnapshotStatus:
        snapshot, policy = self._log.snapshot, self._replica.snapshots
        return SnapshotStatus(
            last_index=0 if snapshot is None else snapshot.last_index,
            bytes=0 if snapshot is None else snapshot.size,
            saved_s=int(self._snapshot_saved_s),
            in_progress=policy.under_way is not None,
            last_failed=policy.last_failed,
            loading=self._replica.node.loading is not None,
        )

    def take_snapshot(self) -> bool:
        """Begin a snapshot of this node; False when one is being taken already."""
        begun = self._replica.snapshots.request()
        self._schedule()
        return begun

    async def hand_over(self, wait_s: float = 1.0) -> None:
        """If this node leads, let another node lead; gives up after `wait_s` seconds."""
        if not self._replica.node.is_leader or not self._config.peer_addresses:
            return
        logger.info("leadership.hand_over")
        self._replica.hand_over()
        give_up_s = self._loop.time() + wait_s
        while self._replica.node.leader_id in (None, self._config.node_id):
            if self._loop.time() >= give_up_s:
                logger.warning("leadership.not_handed_over")
                return
            await asyncio.sleep(0.005)

    async def close(self) -> None:
        """Stop; what is not on disk yet was not acknowledged."""
        self._closed = True
        for timer in (self._timer, self._deadline_timer):
            if timer is not None:
                timer.cancel()
        await self._network.close()
        self._snapshot_writer.stop()
        self._writer.close(1.0)
        self._log.close()

    # ---- turns ----------------------------------------------------------------------------------

    def _on_message(self, peer_id: str, message: Any) -> None:
        self._replica.receive(peer_id, message)
        self._schedule()

    def _on_link(self, peer_id: str, up: bool) -> None:
        self._replica.link_changed(peer_id, up=up)
        self._schedule()

    def _schedule(self) -> None:
        """A turn after the events that are ready now, so that they share it."""
        if not self._scheduled and not self._writer.busy:
            self._scheduled = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._scheduled = False
        if self._writer.busy or self._closed:
            return
        try:
            turn = self._replica.turn()
        except BaseException as error:
            # Whatever it is, going on could break a promise. Nobody was answered for this turn.
            self._end("turn", error)
        if turn.now:
            self._network.send(turn.now)
        if turn.snapshot is not None:
            self._write_snapshot(*turn.snapshot)
        if turn.batch is not None:
            self._write(turn.batch, turn.held)
        elif self._replica.wants_turn:
            self._schedule()
        self._set_deadline_timer()
        self._log_role()

    def _end(self, during: str, error: BaseException) -> NoReturn:
        logger.critical("fatal node=%s in=%s", self._config.node_id, during, exc_info=error)
        os._exit(FATAL_EXIT_CODE)

    def _write(self, batch: Batch, held: list[Sent]) -> None:
        def written(at_once: bool) -> None:
            if self._closed:
                return
            self._log.written(batch)
            if at_once:
                self._network.send(held)
            else:  # those whom it was for have given this node up meanwhile
                self._network.resume()
            self._turn()

        self._writer.write(batch, written)

    def _step_back(self) -> None:
        """The disk fails: leave the work to the others, who notice at once because the sessions
        end. No turn runs, so nothing is voted, acknowledged or applied until it works again."""
        self._replica.node.stand_down()
        self._network.pause()
        self._log_role()

    def _write_snapshot(self, last_index: int, last_term: int) -> None:
        """Of the state as it is now: no other turn may run before the fork."""
        draft = self._log.snapshot_files.draft_path(last_index, last_term)
        started_s = self._loop.time()
        policy = self._replica.snapshots

        def done(size: int, crc: int) -> None:
            took_s = self._loop.time() - started_s
            logger.info("snapshot.done index=%d bytes=%d seconds=%.1f", last_index, size, took_s)
            self._snapshot_saved_s = time.time()
            policy.taken(draft, size, crc)
            self._schedule()

        def failed(why: str) -> None:
            logger.error("snapshot.failed index=%d error=%s", last_index, why)
            draft.unlink(missing_ok=True)
            policy.failed()

        self._snapshot_writer.start(draft, self.machine.blocks, done, failed)
        logger.info(
            "snapshot.start index=%d fork_ms=%.1f",
            last_index, (self._loop.time() - started_s) * 1000,
        )  # fmt: skip

    def _tick(self) -> None:
        """The regular turn: elections, heartbeats, deadlines of those who wait."""
        self._timer = self._loop.call_later(self._timer_s, self._tick)
        if self._writer.busy:
            self._replica.expire()
        else:
            self._schedule()

    def _set_deadline_timer(self) -> None:
        """On the leader, a turn right when the nearest lease is over, or the commit index due."""
        wait_s = self._replica.next_deadline_s()
        if wait_s >= self._timer_s:
            return
        at_s = self._loop.time() + wait_s
        timer = self._deadline_timer
        if timer is not None and not timer.cancelled():
            if self._loop.time() < timer.when() <= at_s + DEADLINE_SLACK_S:
                return
            timer.cancel()
        self._deadline_timer = self._loop.call_at(at_s + DEADLINE_SLACK_S, self._schedule)

    def _log_role(self) -> None:
        node = self._replica.node
        role = (node.role, node.term, node.leader_id)
        if role != self._role:
            self._role = role
            logger.info(
                "role node=%s role=%s term=%d leader=%s", self._config.node_id, role[0], role[1],
                role[2] or "-",
            )  # fmt: skip
