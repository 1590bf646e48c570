"""Acknowledged commands that stock pysyncobj loses, repeats or never had: D1, D2, D5, D6, D9 and
votes counted twice. Each scenario is played on both; docs/consensus.md explains the names."""

from __future__ import annotations

import asyncio
import contextlib

from goblin_raft.config import Config
from goblin_raft.consensus.engine import FATAL_EXIT_CODE, RaftEngine
from goblin_raft.consensus.log import Log
from tests.defects.stock_cluster import StockNode, replicated


def test_d1_part_of_a_snapshot_commits_nothing(clusters):
    """A leader that was cut off with a command of its own gets one chunk of its successor's
    snapshot."""

    def scenario(c):
        c.healthy()
        c.isolate("A")
        c.append("A", "lost")
        c.elect("B", "C")
        c.append("B", "good1", "good2", "good3")
        c.settle("B", "C")
        c.snapshot("B")
        c.settle("B", "C")
        c.connect("A", "B")
        c.beat("B")
        chunks = 0
        while not chunks:  # what comes before it are a heartbeat and an empty offer, at most
            c.deliver("A", "B")
            chunks += is_chunk(c.wires["B", "A"][0])
            c.deliver("B", "A", 1)
        c.tick("A")
        told = list(c.told["lost"])
        c.crash("B")
        c.connect("A", "C")
        c.elect("C", "A")
        c.append("C", "after")
        c.settle("C", "A")
        return told, c.state("A") == c.state("C")

    assert scenario(clusters.small("stock")) == (["done"], False)
    assert scenario(clusters.small("ours")) == ([], True)


def is_chunk(message) -> bool:
    return bool(message.get("serialized") or message.get("data"))


def test_d2_an_acknowledgement_makes_nobody_forget_entries(clusters):
    """A success sent the leader back, and what it sent again made the follower drop what it had
    acknowledged; the leader dies in that gap."""
    names = [f"w{number:02}" for number in range(14)]

    def scenario(c):
        c.healthy()
        c.append("A", *names)
        c.beat("A")
        c.deliver("A", "C", 2)
        c.cut("A", "C")
        c.deliver("A", "B")
        c.deliver("B", "A", 1)
        c.beat("A")
        c.deliver("B", "A")
        c.tick("A")
        acknowledged = [name for name in names if c.told[name] == ["done"]]
        assert acknowledged
        c.deliver("A", "B", 1)
        c.crash("A")
        try:
            c.elect("C", "B")
            leader, other = "C", "B"
        except AssertionError:
            c.elect("B", "C")
            leader, other = "B", "C"
        c.settle(leader, other)
        return [name for name in acknowledged if name not in c.state(leader)]

    assert scenario(clusters.small("stock")) != []
    assert scenario(clusters.small("ours")) == []


def test_d2_an_old_message_once_more_makes_nobody_forget_entries(clusters):
    """As when the connection that it came on was replaced, and its bytes are read after all. The
    follower has acknowledged all, and does not know yet that it is committed."""

    def scenario(c):
        c.healthy()
        c.append("A", "one")
        c.beat("A")
        old = next(message for message in c.wires["A", "B"] if message.get("entries"))
        c.deliver("A", "B")
        c.append("A", "two", "three")
        c.beat("A")
        c.deliver("A", "B")
        before = c.log("B")
        c.wires["A", "B"].append(old)
        c.deliver("A", "B")
        return len(before) - len(c.log("B"))

    assert scenario(clusters.stock()) > 0
    assert scenario(clusters.ours()) == 0


def test_d5_a_caller_that_fails_at_its_answer_does_not_repeat_the_entry(clusters):
    def fails(*_):
        raise asyncio.InvalidStateError("the client has gone")

    def scenario(c, submit):
        c.healthy()
        submit(c.nodes["A"])
        for _ in range(8):
            for node in "ABC":
                try:
                    c.beat(node) if node == "A" else c.tick(node)
                except asyncio.InvalidStateError:
                    continue
            c.exchange()
        return c.state("A")["pay"], c.state("B")["pay"]

    assert scenario(clusters.stock(), lambda node: node.put("pay", callback=fails)) == (2, 1)

    def submit(node):
        commands = [["SET", 0, b"pay", b"0", "NX", False, None]]
        commands += [["GOBLIN.CAS", 0, b"pay", b"1", b"2"], ["GOBLIN.CAS", 0, b"pay", b"0", b"1"]]
        node.replica.propose(commands, 20, fails)

    assert scenario(clusters.ours(), submit) == (1, 1)


class Poisoned(StockNode):
    """A replicated method with a bug."""

    @replicated
    def put(self, name):
        self.done.append(name)
        raise ValueError("a bug")


def test_d5_an_entry_that_cannot_be_applied_wedges_stock(clusters):
    """It is executed in every tick for ever, and no heartbeat is sent any more."""
    c = clusters.stock(node_class=Poisoned)
    c.healthy()
    c.submit("A", "pay")
    for _ in range(5):
        with contextlib.suppress(ValueError):
            c.beat("A")
        c.exchange("A", "B")
    assert c.state("A")["pay"] > 1


def test_d5_an_entry_that_cannot_be_applied_ends_the_process(tmp_path, monkeypatch):
    """What is in memory cannot be trusted, and nobody was answered. (The machine itself answers
    with an error when a command has a bug: tests/test_state_machine.py.)"""
    ended = []

    def end(status):
        ended.append(status)
        raise RuntimeError("the process is gone")

    def poisoned(entry):
        raise ValueError("a bug")

    async def story():
        config = Config(dir=str(tmp_path), resp="127.0.0.1:0", raft="127.0.0.1:0", heartbeat_ms=5)
        engine = await RaftEngine.open(config)
        engine.machine.apply = poisoned
        monkeypatch.setattr("os._exit", end)
        replies = []
        engine.propose([["SET", 0, b"pay", b"0", "NX", False, None]], 10, replies.append)
        while not ended:  # noqa: ASYNC110 nothing can signal the end of a process
            await asyncio.sleep(0.001)
        await engine.close()
        return replies

    assert asyncio.run(asyncio.wait_for(story(), 10)) == []
    assert ended[0] == FATAL_EXIT_CODE


def test_d6_an_acknowledgement_of_an_earlier_term_counts_for_nothing(clusters):
    """A's entries reach C in one of its terms, are replaced by B's, and C's old acknowledgement
    arrives when A leads again, alone."""

    def scenario(c):
        c.connect_all()
        c.elect("A", "B", "C")
        c.settle("A", "B", "C")
        c.isolate("A")
        c.append("A", *[f"old{number:02}" for number in range(14)])
        c.elect("B", "C", heard=False)
        c.cut("B", "C")
        c.depose("A")
        c.connect("A", "C")
        c.elect("A", "C", heard=False)
        send_everything(c, "A", "C", first=3)
        c.wires["A", "C"].clear()
        stale = list(c.wires["C", "A"])
        assert stale
        c.cut("A", "C")
        c.depose("B")
        c.connect("B", "C")
        while c.term("B") <= c.term("A"):
            c.depose("B")
            c.elect("B", "C", heard=False)
        for _ in range(20):
            c.settle("B", "C")
        c.connect("A", "B")
        for _ in range(20):
            c.settle("B", "A", "C")
        assert c.log("A") == c.log("B") == c.log("C")
        c.crash("B")
        c.connect("A", "C")
        c.elect("A", "C", heard=False)
        c.cut("A", "C")
        c.append("A", "new")
        acknowledged = max(m.get("next_index") or m.get("next_node_idx", 0) for m in stale) - 1
        assert acknowledged >= c.log("A")[-1][0] == c.log("B")[-1][0] + 2
        for message in stale:
            c.arrive("C", "A", message)
        c.tick("A")
        return c.told["new"], "new" in c.state("A")

    assert scenario(clusters.small("stock")) == (["done"], True)
    assert scenario(clusters.small("ours")) == ([], False)


def send_everything(c, leader, follower, *, first) -> None:
    """As if the leader had just found out that the follower's log ends before `first`; what it
    sends arrives up to entry 8."""
    node = c.nodes[leader]
    if hasattr(node, "raft"):
        peer = node.raft._peer_by_id[follower]
        node.raft._next_index[peer] = first
        node.raft.progress[peer].probing = False
    else:
        node.set("raftNextIndex", dict.fromkeys(node.get("raftNextIndex"), first))
    c.beat(leader)
    last = 0
    while last < 8:
        entries = c.wires[leader, follower][0].get("entries")
        last = entries[-1][1] if entries else last
        c.deliver(leader, follower, 1)


def test_d9_a_leader_alone_acknowledges_nothing(clusters):
    """Its log ends before what it once knew to be committed: the power failed."""

    def scenario(c, lose_the_tail):
        c.healthy()
        c.append("A", *[f"x{number}" for number in range(8)])
        c.settle("A", "B", "C")
        c.crash("A")
        lose_the_tail()
        c.start("A")
        for node in "BC":
            c.restart(node)
        c.connect_all()
        c.time_out("A")
        for node in "BC":  # they lost as much, so A can be elected
            cut_log(c, node)
        c.elect("A", "B", "C", heard=False)
        c.isolate("A")
        c.append("A", "alone")
        c.tick("A")
        return c.told["alone"]

    stock = clusters.stock(files=True)
    journal = stock.directory / "A.journal"

    def stock_loses():
        from pysyncobj.journal import FileJournal

        kept = FileJournal(str(journal))
        term, index = kept.getCurrentTerm(), kept.getRaftCommitIndex()
        assert index > 8
        kept.deleteEntriesFrom(3)
        kept.setCurrentTerm(term, "A")
        kept._destroy()

    def our_log_loses():
        log = Log(ours.directory / "A", node_id="A", cluster_name="goblin")
        log.deleteEntriesFrom(3)
        batch = log.take(clock_ms=0, wall_ms=0)
        log.write(batch)
        log.close()

    ours = clusters.ours()
    store_commit_index(stock)
    assert scenario(stock, stock_loses) == ["done"]
    assert scenario(ours, our_log_loses) == []


def store_commit_index(c) -> None:
    """pysyncobj writes it once a second."""
    for node in c.nodes.values():
        tick = node.doTick

        def tick_and_store(node=node, tick=tick):
            tick()
            node.get("raftLog").onOneSecondTimer()

        node.doTick = tick_and_store


def cut_log(c, node) -> None:
    log = c.nodes[node].log if hasattr(c.nodes[node], "log") else c.nodes[node].get("raftLog")
    if len(log) > 3:
        log.deleteEntriesFrom(3)


def test_a_vote_that_comes_twice_counts_once(clusters):
    """Of five nodes, A can ask B and C, and C's vote is lost."""

    def scenario(c):
        c.nobody_leads()
        c.connect("A", "B")
        c.connect("A", "C")
        c.time_out("A")
        votes = []
        while not votes:
            c.tick("A")
            for voter in "BC":
                c.deliver("A", voter)
            votes = [m for m in c.wires["B", "A"] if m["type"] in ("response_vote", "vote_answer")]
            if not votes:
                for voter in "BC":
                    c.deliver(voter, "A")
        c.cut("A", "C")
        c.wires["B", "A"].clear()
        c.wires["B", "A"].extend(votes * 2)
        c.deliver("B", "A")
        return c.is_leader("A")

    assert scenario(clusters.stock(ids="ABCDE")) is True
    assert scenario(clusters.ours(ids="ABCDE")) is False
