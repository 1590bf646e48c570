"""pysyncobj 0.3.17 as it is installed, under the controls of clusters.py."""

from __future__ import annotations

from pysyncobj import FAIL_REASON, SyncObj, SyncObjConf, replicated
from pysyncobj.node import Node
from pysyncobj.transport import Transport

from goblin_raft.consensus.stock import FOLLOWER
from tests.defects.clusters import IDS, Cluster

UNKNOWN = (FAIL_REASON.UNKNOWN_OUTCOME, FAIL_REASON.LEADER_CHANGED)


class _Wire(Transport):
    """Stock's transport, into a cluster of the test's."""

    cluster: Cluster

    def __init__(self, owner, self_node, other_nodes) -> None:
        super().__init__(owner, self_node, other_nodes)
        self.id = self_node.id
        self.peers = {node.id: node for node in other_nodes}

    def send(self, node, message) -> bool:
        return self.cluster.send(self.id, node.id, dict(message))


class StockNode(SyncObj):
    """Applies names to a list: what was done twice, or never, shows."""

    def __init__(self, node, others, conf, wire) -> None:
        super().__init__(
            Node(node), [Node(other) for other in others], conf=conf, transportClass=wire
        )
        self.done: list[str] = []

    @replicated
    def put(self, name):
        self.done.append(name)
        return name

    def get(self, name):
        """One of pysyncobj's private attributes."""
        return getattr(self, f"_SyncObj__{name}")

    def set(self, name, value) -> None:
        setattr(self, f"_SyncObj__{name}", value)


class StockCluster(Cluster):
    """pysyncobj 0.3.17 as it is installed. With `files` it keeps journal and dump."""

    def __init__(self, clock, directory, *, files=False, ids=IDS, node_class=StockNode, **conf):
        self.files, self.conf, self.node_class = files, conf, node_class
        self.nodes: dict[str, StockNode] = {}
        self.wire = type("Wire", (_Wire,), {"cluster": self})
        super().__init__(clock, directory, ids)

    def start(self, node) -> None:
        conf = {
            "autoTick": False,
            "raftMinTimeout": 1000,
            "raftMaxTimeout": 2000,
            "appendEntriesPeriod": 300,
            "connectionTimeout": 5000,
            "leaderFallbackTimeout": 5000,
            "logCompactionMinEntries": 10**9,
            "logCompactionMinTime": 10**9,
            "useFork": False,
            **self.conf,
        }
        if self.files:
            conf["journalFile"] = str(self.directory / f"{node}.journal")
            conf["fullDumpFile"] = str(self.directory / f"{node}.dump")
        others = [other for other in self.ids if other != node]
        self.nodes[node] = self.node_class(node, others, SyncObjConf(**conf), self.wire)
        self.up.add(node)
        self.nodes[node].doTick()

    def close(self, node) -> None:
        self.nodes[node]._doDestroy()

    def stop(self) -> None:
        for node in self.up:
            self.close(node)

    def link_changed(self, node, other, *, up) -> None:
        wire = self.nodes[node].get("transport")
        change = wire._onNodeConnected if up else wire._onNodeDisconnected
        change(wire.peers[other])

    def arrive(self, source, target, message) -> None:
        wire = self.nodes[target].get("transport")
        wire._onMessageReceived(wire.peers[source], message)

    def after_delivery(self, node) -> None:
        """Stock handles a message when it comes; the rest waits for a tick."""

    def tick(self, node) -> None:
        self.nodes[node].doTick()

    def beat(self, node) -> None:
        self.nodes[node].set("newAppendEntriesTime", 0)
        self.nodes[node].doTick()

    def time_out(self, node) -> None:
        if not self.is_leader(node):
            self.nodes[node].set("raftElectionDeadline", 0)

    def depose(self, node) -> None:
        """leaderFallbackTimeout has passed."""
        self.nodes[node].set("raftState", FOLLOWER)

    def submit(self, node, name) -> None:
        def told(result, error) -> None:
            kind = "refused"
            if error == FAIL_REASON.SUCCESS:
                kind = "done" if result == name else f"done, with the result of {result}"
            elif error in UNKNOWN:
                kind = "unknown"
            self.told[name].append(kind)

        self.nodes[node].put(name, callback=told)

    def snapshot(self, node) -> None:
        """The state into a dump, and the log before it gone."""
        self.nodes[node].forceLogCompaction()
        self.tick(node)
        self.tick(node)

    def is_leader(self, node) -> bool:
        return self.nodes[node]._isLeader()

    def term(self, node) -> int:
        return self.nodes[node].raftCurrentTerm

    def commit_index(self, node) -> int:
        return self.nodes[node].raftCommitIndex

    def log(self, node) -> list[tuple[int, int]]:
        return [(index, term) for _, index, term in self.nodes[node].get("raftLog")[:]]

    def match_index(self, node, follower) -> int:
        found = {peer.id: index for peer, index in self.nodes[node].get("raftMatchIndex").items()}
        return found[follower]

    def state(self, node) -> dict[str, int]:
        """How often each command was executed."""
        done = self.nodes[node].done
        return {name: done.count(name) for name in sorted(done)}
