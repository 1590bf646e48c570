"""Whole replicas of ours, under the controls of clusters.py."""

from __future__ import annotations

import random

from goblin_raft.config import Config
from goblin_raft.consensus.codec import HEADER, decode_body, encode_frame
from goblin_raft.consensus.log import Log
from goblin_raft.consensus.replica import Replica
from goblin_raft.consensus.snapshots import write_snapshot
from goblin_raft.consensus.stock import FOLLOWER
from goblin_raft.reply import OK
from goblin_raft.state_machine import StateMachine
from tests.defects.clusters import IDS, Cluster


class OurNode:
    """A replica and its log."""

    def __init__(self, replica, log) -> None:
        self.replica = replica
        self.log = log
        self.raft = replica.node


class OurCluster(Cluster):
    """Whole replicas; the disk is as fast as a turn, unless a test takes turns by itself."""

    def __init__(self, clock, directory, *, ids=IDS, message_bytes=None, **settings) -> None:
        self.settings = {"key_bytes_max": 100, "value_bytes_max": 1000, "entry_bytes_max": 2100}
        self.settings.update(settings)
        self.message_bytes = message_bytes
        self.nodes: dict[str, OurNode] = {}
        self.boots = 0
        super().__init__(clock, directory, ids)

    def start(self, node) -> None:
        self.boots += 1
        peers = ",".join(f"{peer}=127.0.0.1:{7101 + i}" for i, peer in enumerate(self.ids))
        config = Config(
            node_id=node,
            raft=f"127.0.0.1:{7101 + self.ids.index(node)}",
            peers=peers,
            snapshot_log_bytes=10**9,
            **self.settings,
        )
        log = Log(self.directory / node, node_id=node, cluster_name=config.cluster_name)
        if not log.is_voter:  # that a new member must learn first: tests/test_membership.py
            log.become_voter()
            batch = log.take(clock_ms=0, wall_ms=0)
            log.write(batch)
            log.written(batch)
        replica = Replica(
            config,
            boot=self.boots,
            log=log,
            machine=StateMachine(),
            steady_ms=lambda: self.clock.now_s * 1000,
            wall_ms=lambda: int(self.clock.now_s * 1000) + 10**12,
            rng=random.Random(self.boots),
        )
        # Snapshots on demand only, and no more than an entry stays behind one.
        replica.snapshots._log_bytes_max = 1
        replica.snapshots.applied = lambda size_bytes: None
        if self.message_bytes is not None:
            replica.node.message_bytes_max = self.message_bytes
        self.nodes[node] = OurNode(replica, log)
        self.up.add(node)

    def close(self, node) -> None:
        self.nodes[node].log.close()

    def stop(self) -> None:
        for node in self.up:
            self.close(node)

    def link_changed(self, node, other, *, up) -> None:
        self.nodes[node].replica.link_changed(other, up=up)

    def arrive(self, source, target, message) -> None:
        body = encode_frame(message)[HEADER.size :]
        self.nodes[target].replica.receive(source, decode_body(body))

    def after_delivery(self, node) -> None:
        self.tick(node)

    def begin_turn(self, node):
        """A turn, and what may leave at once; `end_turn` when its batch is to be on disk."""
        self.clock.now_s += 1e-6  # no two turns are at the same time
        turn = self.nodes[node].replica.turn()
        for target, message in turn.now:
            self.send(node, target, message)
        return turn

    def end_turn(self, node, turn) -> None:
        log, policy = self.nodes[node].log, self.nodes[node].replica.snapshots
        if turn.snapshot is not None:
            draft = log.snapshot_files.draft_path(*turn.snapshot)
            blocks = self.nodes[node].replica.machine.state()
            policy.taken(draft, *write_snapshot(draft, blocks))
        if turn.batch is not None:
            log.write(turn.batch)
            log.written(turn.batch)
        for target, message in turn.held:
            self.send(node, target, message)

    def tick(self, node) -> None:
        """Turns until there is nothing left to do without a message or a timer."""
        for _ in range(1000):
            turn = self.begin_turn(node)
            self.end_turn(node, turn)
            busy = turn.batch or turn.snapshot or self.nodes[node].replica.wants_turn
            if not busy:
                return
        raise AssertionError("it never comes to rest")

    def beat(self, node) -> None:
        self.nodes[node].raft._heartbeat_due_s = 0.0
        self.tick(node)

    def time_out(self, node) -> None:
        for other in self.up:
            self.nodes[other].raft.leader_heard_s = float("-inf")
        if not self.is_leader(node):
            self.nodes[node].raft._election_deadline_s = 0.0

    def depose(self, node) -> None:
        """quorum_timeout has passed."""
        self.nodes[node].raft._leader = None
        self.nodes[node].raft._set_role(FOLLOWER)

    def submit(self, node, name) -> None:
        """Leaves "1" under the name; the same once more would make it "2"."""
        key = name.encode()
        commands = [
            ["SET", 0, key, b"0", "NX", False, None],
            ["GOBLIN.CAS", 0, key, b"1", b"2"],
            ["GOBLIN.CAS", 0, key, b"0", b"1"],
        ]

        def settle(replies) -> None:
            reply = replies[0]
            kind = "done" if reply == OK else "refused" if reply.definite else "unknown"
            self.told[name].append(kind)

        self.nodes[node].replica.propose(commands, 20, settle)

    def snapshot(self, node) -> None:
        self.nodes[node].replica.snapshots.request()
        self.tick(node)
        assert self.nodes[node].log.snapshot.last_index == self.nodes[node].raft.last_applied

    def is_leader(self, node) -> bool:
        return self.nodes[node].raft.is_leader

    def term(self, node) -> int:
        return self.nodes[node].raft.term

    def commit_index(self, node) -> int:
        return self.nodes[node].raft.commit_index

    def log(self, node) -> list[tuple[int, int]]:
        return [(index, term) for _, index, term in self.nodes[node].log[:]]

    def match_index(self, node, follower) -> int:
        return self.nodes[node].raft.match_index(follower)

    def state(self, node) -> dict[str, int]:
        values = self.nodes[node].replica.machine.keyspaces[0].values
        return {key.decode(): int(values[key]) for key in sorted(values)}
