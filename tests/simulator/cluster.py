"""Nodes, links and time of a simulated cluster: what engine, sockets and threads are otherwise.

Everything happens in the order of one queue. The engine's two rules (consensus/replica.py) are
kept here as there: no turn while a batch is being written, and what is held leaves when it is on
disk. What goes wrong, and when, is decided elsewhere (faults.py).
"""

from __future__ import annotations

import heapq
import itertools
import random
import shutil
import tempfile
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path
from typing import Any

from pysyncobj import syncobj

from goblin_raft.config import Config
from goblin_raft.consensus import snapshot_policy
from goblin_raft.consensus.codec import HEADER, decode_body, encode_frame
from goblin_raft.consensus.replica import Replica
from goblin_raft.consensus.snapshots import write_snapshot
from goblin_raft.state_machine import StateMachine
from tests.simulator.disk import Disk
from tests.simulator.invariants import Invariants
from tests.simulator.plan import LEADER, Plan

BASE = "/dev/shm" if Path("/dev/shm").is_dir() else None
REAL_CLOCK = syncobj.monotonicTime
REAL_KEEP_SHARE = snapshot_policy.KEEP_SHARE
START_S = 1000.0
WALL_MS = 1e12
FOREVER = float("inf")


class Node:
    """One member: its disk and clocks, and its process while there is one."""

    def __init__(self, name: str, disk: Disk, rate: float, wall_ms: float, start_ms: float) -> None:
        self.name = name
        self.disk = disk
        self.life = 0  # grows at every start and end: what an earlier life began comes to nothing
        self.replica: Replica | None = None
        self.log: Any = None
        self.up = False
        self.rate = rate
        self.steady_base = (start_ms, start_ms)  # (true time, reading) when the rate last changed
        self.wall_skew_ms = wall_ms
        self.wall_forward_ms = 0.0  # all that its wall clock ever jumped ahead,
        self.wall_back_ms = 0.0  # and back
        self.scheduled = False
        self.writing: Any = None  # the batch
        self.paused = False
        self.missed: list[Callable[[], None]] = []  # what happened while it was paused
        self.slow = 1.0
        self.stuck_until_s = 0.0
        self.problem = False  # its disk fails
        self.remembers = True  # all that it ever promised: it was not wiped, or filled up since
        self.votes = False  # for certain: it is on disk
        self.doom: tuple[str, float, float] | None = None  # (step, down for, fate)
        self.snapshot_s = 0.001  # how long its next snapshot takes
        self.snapshot_fails = False
        self.deadline_s = 0.0
        self.oldest_sent_s = FOREVER  # of the messages for its next turn

    def steady_ms(self, now_ms: float) -> float:
        since_ms, reading_ms = self.steady_base
        return reading_ms + (now_ms - since_ms) * self.rate


class Link:
    """What one node sends to another: one session after the other."""

    __slots__ = ("arrives_s", "blocked", "held", "session", "up")

    def __init__(self) -> None:
        self.session = 0
        self.up = False
        self.blocked = 0
        self.held: list[Any] | None = None  # a black hole for now: neither arrives nor fails
        self.arrives_s = 0.0


class Cluster:
    """See the module."""

    waits_for_disk = True  # ablations.py sees what that is for

    def __init__(self, plan: Plan, *, trace: bool = False) -> None:
        self.plan = plan
        self.settings = plan.settings
        self.random = random.Random(f"{plan.seed}/{plan.noise}")
        self.now_s = START_S
        syncobj.monotonicTime = lambda: self.now_s
        snapshot_policy.KEEP_SHARE = self.settings.keep_share
        self.trace: list[str] | None = [] if trace else None
        self.queue: list[Any] = []
        self.order = itertools.count()
        self.turns = 0
        self.boots = 0
        self.snapshots_taken = 0
        self.calm = False
        self.raising = False  # the next answer's receiver fails
        self.longest_way_ms = 0.0
        self.on_answer_lost: Callable[[str], None] = lambda name: None
        self.directory = Path(tempfile.mkdtemp(prefix="goblin-sim-", dir=BASE))
        self.names = tuple(f"n{i + 1}" for i in range(plan.nodes))
        self.peers = ",".join(f"{name}=127.0.0.1:{7101 + i}" for i, name in enumerate(self.names))
        self.invariants = Invariants(self)
        self.nodes = {
            name: Node(
                name,
                Disk(self.directory / name, name, real_files=self.settings.real_files),
                self.settings.rates[i],
                self.settings.walls_ms[i],
                START_S * 1000,
            )
            for i, name in enumerate(self.names)
        }
        self.links = {
            (one, other): Link() for one in self.names for other in self.names if one != other
        }
        for name in self.names:
            self.start(name)

    def close(self) -> None:
        """The run is over, whatever its end."""
        syncobj.monotonicTime = REAL_CLOCK
        snapshot_policy.KEEP_SHARE = REAL_KEEP_SHARE
        for node in self.nodes.values():
            if node.up:
                node.log.close()
            node.disk.remove()
        shutil.rmtree(self.directory, ignore_errors=True)

    # ---- time ------------------------------------------------------------------------------------

    @property
    def now_ms(self) -> float:
        return self.now_s * 1000

    def after(self, delay_s: float, what: Callable[..., None], *arguments: Any) -> None:
        heapq.heappush(self.queue, (self.now_s + delay_s, next(self.order), what, arguments))

    def run_until(self, end_s: float) -> None:
        queue, pop = self.queue, heapq.heappop
        while queue and queue[0][0] <= end_s:
            self.now_s, _, what, arguments = pop(queue)
            what(*arguments)
        self.now_s = end_s

    def say(self, text: str) -> None:
        if self.trace is not None:
            self.trace.append(f"{(self.now_s - START_S) * 1000:8.1f} ms  {text}")

    # ---- processes -------------------------------------------------------------------------------

    def name_of(self, target: int) -> str:
        """A node by its number; LEADER is whoever leads in the latest term, else the first."""
        if target != LEADER:
            return self.names[target]
        leaders = [(n.replica.node.term, n.name) for n in self.alive() if n.replica.node.is_leader]
        return max(leaders)[1] if leaders else self.names[0]

    def alive(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.up]

    def start(self, name: str) -> None:
        node = self.nodes[name]
        if node.up:
            return
        self.boots += 1
        node.life += 1
        settings = self.settings
        config = Config(
            node_id=name,
            peers=self.peers,
            raft=f"127.0.0.1:{7101 + self.names.index(name)}",
            resp=f"127.0.0.1:{7001 + self.names.index(name)}",
            value_bytes_max=500,
            key_bytes_max=50,
            waiting_bytes_max=20_000,
            heartbeat_ms=settings.heartbeat_ms,
            election_min_ms=settings.election_min_ms,
            election_max_ms=settings.election_max_ms,
            quorum_timeout_ms=settings.quorum_timeout_ms,
            leader_wait_ms=settings.leader_wait_ms,
            commit_timeout_ms=settings.commit_timeout_ms,
            snapshot_log_bytes=settings.snapshot_log_bytes,
            entry_bytes_max=settings.entry_bytes_max,
        )
        node.log = node.disk.open()
        node.replica = Replica(
            config,
            boot=self.boots,
            log=node.log,
            machine=StateMachine(),
            steady_ms=lambda: node.steady_ms(self.now_s * 1000),
            wall_ms=lambda: int(self.now_s * 1000 + node.wall_skew_ms + WALL_MS),
            rng=random.Random(f"{self.plan.seed}/{name}/{self.boots}"),
        )
        node.up = True
        node.scheduled = node.paused = node.problem = False
        node.writing = None
        node.missed = []
        node.oldest_sent_s = FOREVER
        self.say(f"{name} starts")
        self.invariants.started(node)
        self.after(self.random.uniform(0, self.tick_s), self._tick, node, node.life)
        self.reconnect(name)

    def reconnect(self, name: str) -> None:
        """Both sides dial until they get through."""
        for other in self.names:
            if other != name and self.nodes[other].up:
                for pair in ((name, other), (other, name)):
                    self.after(self.random.uniform(0.0005, 0.02), self.connect, *pair)

    def wipe(self, name: str, down_s: float) -> None:
        """A node comes back with an empty disk; not while another member has not got its vote, or
        not yet again: with too few that may vote the cluster stands still, as it should."""
        others = [other for other in self.nodes.values() if other.name != name]
        if all(other.remembers and other.votes for other in others):
            node = self.nodes[name]
            if node.up:
                self.crash(name, down_s, 1.0)
            node.disk.wipe()
            self.invariants.forget(name)
            node.remembers = node.votes = False
            self.say(f"{name}'s directory is wiped")

    def crash(self, name: str, down_s: float, fate: float) -> None:
        """kill -9, or loss of power: what is not on disk is gone."""
        node = self.nodes[name]
        if not node.up:
            return
        became = node.disk.crash(node.log, node.writing, fate, self.random)
        self.say(f"{name} crashes; {became}")
        self._ended(node)
        self.after(down_s, self.start, name)

    def _ended(self, node: Node) -> None:
        node.up = False
        node.life += 1
        node.doom = None
        node.paused = False
        self.on_answer_lost(node.name)
        for other in self.names:
            if other != node.name:
                self.cut(node.name, other)
                self.cut(other, node.name)

    def doomed(self, node: Node, step: str) -> bool:
        """Whether the node was to crash at this step, and did."""
        if node.doom is None or node.doom[0] != step:
            return False
        _, down_s, fate = node.doom
        self.crash(node.name, down_s, fate)
        return True

    # ---- sessions --------------------------------------------------------------------------------

    def connect(self, one: str, other: str) -> None:
        link, node = self.links[one, other], self.nodes[one]
        if link.up or link.blocked or not node.up or not self.nodes[other].up:
            return
        if node.problem or self.nodes[other].problem:
            return  # it has paused its network
        link.up = True
        link.session += 1
        link.arrives_s = 0.0
        link.held = None
        self._notice(node, other, True)

    def cut(self, one: str, other: str) -> None:
        """What is under way is lost; the sender learns of it a moment later."""
        link, node = self.links[one, other], self.nodes[one]
        if not link.up:
            return
        link.up = False
        link.session += 1
        link.held = None
        if node.up:
            self.after(self.random.uniform(0, 0.003), self._down, node, node.life, other)

    def _down(self, node: Node, life: int, other: str) -> None:
        if node.life == life and not self.links[node.name, other].up:
            self._notice(node, other, False)

    def _notice(self, node: Node, other: str, up: bool) -> None:
        node.replica.link_changed(other, up=up)
        self.wake(node)

    def send(self, node: Node, messages: list[Any]) -> None:
        settings, now_s, rng = self.settings, self.now_s, self.random.random
        for target, message in messages:
            self.invariants.said(node, target, message)
        # Sorted, for one seed to give one run: pysyncobj keeps its peers in a set.
        for target, message in sorted(messages, key=itemgetter(0)):
            link = self.links[node.name, target]
            if not link.up:
                continue
            if settings.encoded:
                message = encode_frame(message)[HEADER.size :]
            if link.held is not None:
                link.held.append((now_s, message))
                continue
            if settings.loss and not self.calm and rng() < settings.loss:
                self.say(f"{node.name} -> {target} lost: {message}")
                continue
            delay_s = settings.delay_ms * (0.1 + 0.9 * rng()) / 1000
            if settings.spike and rng() < settings.spike and not self.calm:
                delay_s *= 20
            link.arrives_s = max(link.arrives_s, now_s + delay_s)
            self._arrive_at(link, node.name, target, now_s, message)

    def _arrive_at(self, link: Link, one: str, other: str, sent_s: float, message: Any) -> None:
        what = (link, link.session, one, other, sent_s, message)
        heapq.heappush(self.queue, (link.arrives_s, next(self.order), self._arrive, what))

    def _arrive(
        self, link: Link, session: int, one: str, other: str, sent_s: float, message: Any
    ) -> None:
        if link.session != session:
            return
        if link.held is not None:
            link.held.append((sent_s, message))
            return
        node = self.nodes[other]
        if node.paused:
            node.missed.append(lambda: self._arrive(link, session, one, other, sent_s, message))
            return
        node.oldest_sent_s = min(node.oldest_sent_s, sent_s)
        if self.settings.encoded:
            message = decode_body(message)
        node.replica.receive(one, message)
        self.wake(node)

    def release_held(self, one: str, other: str) -> None:
        """The black hole is gone: TCP sends again what it kept."""
        link = self.links[one, other]
        held, link.held = link.held or [], None
        for sent_s, message in held:
            link.arrives_s = max(link.arrives_s, self.now_s + self.random.uniform(0.0001, 0.002))
            self._arrive_at(link, one, other, sent_s, message)

    # ---- the engine's part -----------------------------------------------------------------------

    @property
    def tick_s(self) -> float:
        return self.settings.heartbeat_ms * 0.75 / 1000

    def _tick(self, node: Node, life: int) -> None:
        if node.life != life:
            return
        self.after(self.tick_s, self._tick, node, life)
        if node.paused:
            return
        if node.writing is not None and self.waits_for_disk:
            node.replica.expire()
        elif not node.scheduled:
            self._turn(node, life)

    def wake(self, node: Node) -> None:
        """A turn soon, together with what happens until then."""
        if not node.scheduled and node.writing is None and not node.paused:
            node.scheduled = True
            self.after(0.00002 + 0.0001 * self.random.random(), self._turn, node, node.life)

    def _turn(self, node: Node, life: int) -> None:
        if node.life != life:
            return
        node.scheduled = False
        now_s = self.now_s
        if (node.writing is not None and self.waits_for_disk) or node.paused:
            return
        if self.doomed(node, "now"):
            return
        if node.oldest_sent_s < now_s:
            self.longest_way_ms = max(self.longest_way_ms, (now_s - node.oldest_sent_s) * 1000)
            node.oldest_sent_s = FOREVER
        turn = node.replica.turn()
        self.turns += 1
        self.invariants.after_turn(node, turn.batch)
        if node.doom is not None:
            if self.doomed(node, "turn"):
                return
            if node.doom[0] == "sending":
                self.send(node, turn.now[: self.random.randrange(len(turn.now) + 1)])
                node.writing = turn.batch
                self.doomed(node, "sending")
                return
        self.send(node, turn.now)
        if turn.snapshot is not None:
            self._begin_snapshot(node, turn.snapshot)
        if turn.batch is not None:
            self._write(node, turn.batch, turn.held)
        else:
            assert not turn.held
            if node.replica.wants_turn:
                self.wake(node)
        if node.replica.node.is_leader and node.deadline_s <= self.now_s:
            wait_s = node.replica.next_deadline_s()
            if wait_s < self.tick_s:
                node.deadline_s = self.now_s + wait_s + 0.0005
                self.after(wait_s + 0.0005, self._wake_if, node, life)

    def _wake_if(self, node: Node, life: int) -> None:
        if node.life == life:
            self.wake(node)

    def _write(self, node: Node, batch: Any, held: list[Any]) -> None:
        node.writing = batch
        took_s = self.settings.disk_ms * (0.2 + 0.8 * self.random.random()) / 1000 * node.slow
        if node.doom is not None and node.doom[0] == "disk":
            self.after(took_s * self.random.random(), self._crash_if, node, node.life)
        done_s = max(took_s, node.stuck_until_s - self.now_s)
        self.after(done_s, self._written, node, node.life, batch, held)

    def _crash_if(self, node: Node, life: int) -> None:
        if node.life == life:
            self.doomed(node, "disk")

    def _written(self, node: Node, life: int, batch: Any, held: list[Any]) -> None:
        if node.life != life:
            return
        if node.paused:
            node.missed.append(lambda: self._written(node, life, batch, held))
            return
        if node.stuck_until_s > self.now_s:
            self.after(node.stuck_until_s - self.now_s, self._written, node, life, batch, held)
            return
        try:
            node.disk.write(node.log, batch)
        except OSError:
            self._step_back(node, batch)
            return
        node.writing = None
        if self.doomed(node, "written"):
            return
        node.log.written(batch)
        node.votes = node.log.is_voter
        if node.doom is not None and node.doom[0] == "answering":
            self.send(node, held[: self.random.randrange(len(held) + 1)])
            self.doomed(node, "answering")
            return
        self.send(node, held)
        self._turn(node, life)

    def _step_back(self, node: Node, batch: Any) -> None:
        """What the engine does when the disk fails: leave the work to the others, try again."""
        self.say(f"{node.name}'s disk fails")
        node.problem = True
        node.replica.node.stand_down()
        for other in self.names:
            if other != node.name:
                self.cut(node.name, other)
                self.cut(other, node.name)
        self.after(self.random.uniform(0.02, 0.1), self._recover, node, node.life, batch)

    def _recover(self, node: Node, life: int, batch: Any) -> None:
        if node.life != life:
            return
        try:
            node.disk.recover(node.log, batch)
        except OSError:
            self.after(self.random.uniform(0.02, 0.1), self._recover, node, life, batch)
            return
        self.say(f"{node.name}'s disk works again")
        node.problem, node.writing = False, None
        node.log.written(batch)  # what was held back is not said: it was for sessions that ended
        self.reconnect(node.name)
        self._turn(node, life)

    def _begin_snapshot(self, node: Node, last_entry: tuple[int, int]) -> None:
        self.snapshots_taken += 1
        blocks = node.replica.machine.state()
        took_s, node.snapshot_s = node.snapshot_s, 0.001
        self.invariants.snapshot(node, last_entry[0], blocks)
        self.after(took_s, self._snapshot_done, node, node.life, last_entry, blocks)

    def _snapshot_done(
        self, node: Node, life: int, last_entry: tuple[int, int], blocks: list[bytes]
    ) -> None:
        if node.life != life:
            return
        if node.paused:
            node.missed.append(lambda: self._snapshot_done(node, life, last_entry, blocks))
            return
        draft = node.log.snapshot_files.draft_path(*last_entry)
        if node.snapshot_fails:
            node.snapshot_fails = False
            draft.write_bytes(b"half")
            node.replica.snapshots.failed()
        else:
            node.replica.snapshots.taken(draft, *write_snapshot(draft, blocks))
            self.say(f"{node.name} has a snapshot of {last_entry[0]}")
        self.wake(node)

    def resume(self, name: str, life: int) -> None:
        node = self.nodes[name]
        if node.life != life or not node.paused:
            return
        node.paused = False
        self.say(f"{name} goes on")
        missed, node.missed = node.missed, []
        for happened in missed:
            if node.life == life:
                happened()
        if node.life == life:
            self.wake(node)
