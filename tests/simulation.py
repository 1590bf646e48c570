"""A small cluster that a test holds still and moves step by step, to bring about one situation.

Everything but sockets and threads is the real thing, SQLite included. A crash loses what was not
written yet; a cut link loses what was under way. Random schedules are tests/simulator's work.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections import defaultdict, deque
from pathlib import Path

from pysyncobj import syncobj

from goblin_raft.config import Config
from goblin_raft.consensus.codec import HEADER, decode_body, encode_frame
from goblin_raft.consensus.log import Log
from goblin_raft.consensus.replica import Replica
from goblin_raft.consensus.snapshots import write_snapshot
from goblin_raft.reply import OK, Failure
from goblin_raft.state_machine import StateMachine

NODES = ("n1", "n2", "n3")
PEERS = ",".join(f"{node}=127.0.0.1:{7101 + i}" for i, node in enumerate(NODES))


class Node:
    """A replica and what its engine would hold."""

    def __init__(self, replica, log):
        self.replica = replica
        self.log = log
        self.writing = None  # (batch, held, done at)
        self.snapshot = None  # (last entry, blocks, done at)


class World:
    """The cluster, its links and its time."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now_s = 1000.0
        syncobj.monotonicTime = lambda: self.now_s
        base = "/dev/shm" if Path("/dev/shm").is_dir() else None
        self.directory = Path(tempfile.mkdtemp(prefix="goblin-sim-", dir=base))
        self.nodes: dict[str, Node] = {}
        self.links: set[tuple[str, str]] = set()
        self.wires: dict[tuple[str, str], deque] = defaultdict(deque)
        self.skew_ms = {node: self.random.uniform(-3e6, 3e6) for node in NODES}
        self.rate = {node: 1 + self.random.uniform(-2e-4, 2e-4) for node in NODES}
        self.boots = 0
        self.disk_s = self.random.choice((0.002, 0.02))
        self.outcomes: dict[bytes, list] = defaultdict(list)
        self.reads: list[str] = []
        self.acknowledged = 0
        self.snapshots = 0
        for node in NODES:
            self.start(node)
        for node in NODES:
            for other in NODES:
                if node < other:
                    self.connect(node, other)

    # ---- faults --------------------------------------------------------------------------------

    def start(self, node: str) -> None:
        self.boots += 1
        config = Config(
            node_id=node,
            peers=PEERS,
            raft=f"127.0.0.1:{7101 + NODES.index(node)}",
            resp=f"127.0.0.1:{7001 + NODES.index(node)}",
            value_bytes_max=1000,
            key_bytes_max=100,
            entry_bytes_max=2100,
            waiting_bytes_max=100_000,
            snapshot_log_bytes=self.random.choice((4096, 16384, 10**9)),
        )
        log = Log(self.directory / node, node_id=node, cluster_name="goblin")
        replica = Replica(
            config,
            boot=self.boots,
            log=log,
            machine=StateMachine(),
            steady_ms=lambda: self.now_s * 1000 * self.rate[node],
            wall_ms=lambda: int(self.now_s * 1000 + self.skew_ms[node] + 1e12),
            rng=random.Random(self.random.random()),
        )
        self.nodes[node] = Node(replica, log)

    def crash(self, node: str) -> None:
        dead = self.nodes.pop(node)
        for other in NODES:
            if other != node:
                self.cut(node, other)
        if dead.writing is not None and self.random.random() < 0.5:
            dead.log.write(dead.writing[0])
        dead.log.close()

    def wipe(self, node: str) -> None:
        """Its disk is replaced."""
        if node in self.nodes:
            self.crash(node)
        shutil.rmtree(self.directory / node)
        self.start(node)

    def connect(self, one: str, other: str) -> None:
        for a, b in ((one, other), (other, one)):
            if a in self.nodes and b in self.nodes and (a, b) not in self.links:
                self.links.add((a, b))
                self.nodes[a].replica.link_changed(b, up=True)

    def cut(self, one: str, other: str) -> None:
        for a, b in ((one, other), (other, one)):
            if (a, b) in self.links:
                self.links.discard((a, b))
                self.wires[a, b].clear()
                if a in self.nodes:
                    self.nodes[a].replica.link_changed(b, up=False)

    # ---- time ----------------------------------------------------------------------------------

    def step(self) -> None:
        self.now_s += self.random.uniform(0.0005, 0.004)
        for link in sorted(self.wires):
            wire = self.wires[link]
            while wire and wire[0][0] <= self.now_s and link[1] in self.nodes:
                body = wire.popleft()[1]
                self.nodes[link[1]].replica.receive(link[0], decode_body(body))
        for name in sorted(self.nodes):
            self.turn(name)

    def turn(self, name: str) -> None:
        node = self.nodes[name]
        if node.writing is not None:
            batch, held, done_s = node.writing
            if done_s > self.now_s:
                return
            node.log.write(batch)
            node.log.written(batch)
            node.writing = None
            self.send(name, held)
        if self.random.random() < 0.2:
            return
        if node.snapshot is not None and node.snapshot[2] <= self.now_s:
            last_entry, blocks, _ = node.snapshot
            node.snapshot = None
            if self.random.random() < 0.1:
                node.replica.snapshots.failed()
            else:
                draft = node.log.snapshot_files.draft_path(*last_entry)
                node.replica.snapshots.taken(draft, *write_snapshot(draft, blocks))
        turn = node.replica.turn()
        if turn.snapshot is not None:
            self.snapshots += 1
            took_s = self.random.choice((0.001, 0.05, 0.5))
            node.snapshot = (turn.snapshot, node.replica.machine.state(), self.now_s + took_s)
        self.send(name, turn.now)
        if turn.batch is None:
            assert not turn.held
        else:
            slow = 0.3 if self.random.random() < 0.002 else self.disk_s
            node.writing = (turn.batch, turn.held, self.now_s + self.random.uniform(0.0002, slow))

    def send(self, source: str, messages) -> None:
        for target, message in messages:
            if (source, target) in self.links:
                delay = 0.05 if self.random.random() < 0.02 else 0.003
                wire = self.wires[source, target]
                earliest = wire[-1][0] if wire else 0
                at = max(earliest, self.now_s + self.random.uniform(0.0001, delay))
                wire.append((at, encode_frame(message)[HEADER.size :]))

    # ---- clients -------------------------------------------------------------------------------

    def write(self, node: str) -> None:
        """Leave b"1" under a key of its own; the same batch a second time would make it b"2"."""
        key = b"k%d" % len(self.outcomes)
        outcomes = self.outcomes[key]
        commands = [
            ["SET", 0, key, b"0", "NX", False, None],
            ["GOBLIN.CAS", 0, key, b"1", b"2"],
            ["GOBLIN.CAS", 0, key, b"0", b"1"],
        ]

        def settle(replies) -> None:
            outcomes.append(replies[0])
            self.acknowledged += replies[0] == OK

        self.nodes[node].replica.propose(commands, 20, settle)

    def read(self, node: str) -> None:
        """Every key acknowledged before the read began is there."""
        known = [key for key, outcomes in self.outcomes.items() if outcomes == [OK]]
        machine = self.nodes[node].replica.machine

        def ready(failure) -> None:
            if failure is None:
                missing = [key for key in known if key not in machine.keyspaces[0].values]
                if missing:
                    self.reads.append(f"{node} misses {missing[:3]}")

        self.nodes[node].replica.read(ready)

    # ---- how it stands -------------------------------------------------------------------------

    def settled(self) -> bool:
        replicas = [node.replica for node in self.nodes.values()]
        last = {replica.log[-1][1] for replica in replicas}
        return (
            len(last) == 1
            and all(replica.node.last_applied in last for replica in replicas)
            and not any(r.proposals.pending or r.proposals.waiting for r in replicas)
            and sum(replica.node.is_leader for replica in replicas) == 1
        )

    def verdict(self) -> str | None:
        machines = [node.replica.machine for node in self.nodes.values()]
        if len({machine.digest() for machine in machines}) != 1:
            return "diverged"
        present = machines[0].keyspaces[0].values
        for key, outcomes in self.outcomes.items():
            if len(outcomes) > 1:
                return f"{key!r} was answered twice: {outcomes}"
            if outcomes == [OK] and key not in present:
                return f"{key!r} was acknowledged and is lost"
            if outcomes == [None] or present.get(key, b"1") != b"1":
                return f"{key!r} was executed twice"
            refused = outcomes and isinstance(outcomes[0], Failure) and outcomes[0].definite
            if refused and key in present:
                return f"{key!r} was said not to be executed, and was: {outcomes}"
        return self.reads[0] if self.reads else None
