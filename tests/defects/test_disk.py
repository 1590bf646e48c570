"""What stock pysyncobj loses when a process ends at a bad moment, or a file is damaged: D3, D4, D7,
D8, D10, D11, D12. Kills of real processes: tests/test_log.py and its neighbours; here the files are
looked at as they are at one moment, which is what a kill leaves behind."""

from __future__ import annotations

import os
import shutil
import struct

import pytest
from pysyncobj.journal import FileJournal

from goblin_raft.consensus.errors import StartRefused
from goblin_raft.consensus.log import Log
from goblin_raft.consensus.snapshots import Snapshot, write_snapshot


def test_d3_entries_after_a_snapshot_outlive_a_kill(clusters):
    """Killed when the dump has its name and the journal is not cut yet."""

    def scenario(c, begin_snapshot):
        c.elect("A")
        c.append("A", *[f"x{number}" for number in range(5)])
        for _ in range(3):
            c.tick("A")
        c.submit("A", "late")
        begin_snapshot(c)
        c.tick("A")
        assert c.told["late"] == ["done"]
        c.restart("A")
        c.elect("A")
        for _ in range(3):
            c.tick("A")
        return sorted(c.state("A"))

    def stock_begins(c):
        """The dump is written in this tick; the next one, which answers the client, would cut the
        journal at its end."""
        c.nodes["A"].forceLogCompaction()
        c.tick("A")
        c.nodes["A"].set("tryLogCompaction", lambda: None)

    def we_begin(c):
        """The file has its name, its record is not written."""
        c.tick("A")
        node = c.nodes["A"]
        index, term = c.log("A")[-2]
        draft = node.log.snapshot_files.draft_path(index, term)
        snapshot = Snapshot(index, term, *write_snapshot(draft, node.replica.machine.state()))
        node.log.snapshot_files.publish(draft, snapshot)

    everything = ["late", *[f"x{number}" for number in range(5)]]
    assert scenario(clusters.stock(files=True, ids="A"), stock_begins) != everything
    assert scenario(clusters.ours(ids="A"), we_begin) == everything


def test_d4_a_compaction_cut_short_loses_nothing(tmp_path):
    class Killed(BaseException):
        pass

    journal = FileJournal(str(tmp_path / "journal"))
    for index in range(1, 21):
        journal.add(b"\0entry", index, 1)
    add, added = journal.add, []

    def dying_add(*entry):
        if len(added) == 4:
            raise Killed
        added.append(entry)
        add(*entry)

    journal.add = dying_add
    with pytest.raises(Killed):
        journal.deleteEntriesTo(9)
    assert [entry[1] for entry in FileJournal(str(tmp_path / "journal"))[:]] == [10, 11, 12, 13]

    log = Log(tmp_path / "n1", node_id="n1", cluster_name="goblin")
    for index in range(2, 21):
        log.add(b"\0entry", index, 1)
    write(log)
    draft = log.snapshot_files.draft_path(12, 1)
    log.publish(draft, Snapshot(12, 1, *write_snapshot(draft, [b"state"])))
    write(log)
    log.compact(12)
    log.add(b"\0entry", 21, 1)
    left_behind = []

    def copy(statement):
        left_behind.append(tmp_path / f"copy{len(left_behind)}")
        shutil.copytree(tmp_path / "n1", left_behind[-1])

    database_of(log).set_trace_callback(copy)
    write(log)
    log.close()
    left_behind.append(tmp_path / "n1")
    assert len(left_behind) >= 4
    firsts = set()
    for directory in left_behind:
        log = Log(directory, node_id="n1", cluster_name="goblin")
        indexes = [entry[1] for entry in log[:]]
        assert indexes == list(range(indexes[0], indexes[-1] + 1))
        assert indexes[0] <= 12
        assert indexes[-1] >= 20
        firsts.add(indexes[0])
        log.close()
    assert firsts == {1, 12}  # before the commit, and after it


def database_of(log):
    return log._storage._database


def write(log) -> None:
    batch = log.take(clock_ms=1, wall_ms=1)
    log.write(batch)
    log.written(batch)


def test_d7_r13_a_snapshot_with_a_hole_is_not_acknowledged(clusters):
    """A has a long tail that nobody else has; one chunk of B's snapshot is lost; B is then alone
    with A."""

    def scenario(c):
        c.healthy()
        c.isolate("A")
        c.append("A", *[f"stale{number}" for number in range(30)])
        c.elect("B", "C")
        c.append("B", *[f"good{number}" for number in range(6)])
        c.settle("B", "C")
        c.snapshot("B")
        c.settle("B", "C")
        c.connect("A", "B")
        c.beat("B")
        lost = False
        for _ in range(20):
            wire = c.wires["B", "A"]
            chunks = [message for message in wire if is_chunk(message)]
            if chunks and not lost:
                wire.remove(chunks[len(chunks) // 2])
                lost = True
            if c.deliver("B", "A") + c.deliver("A", "B") == 0:
                break
        assert lost
        c.cut("B", "C")
        c.append("B", "lonely")
        c.tick("B")
        return c.match_index("B", "A") > len(c.log("B")) + 10, c.told["lonely"]

    assert scenario(clusters.small("stock")) == (True, ["done"])
    assert scenario(clusters.small("ours")) == (False, [])


def is_chunk(message) -> bool:
    return bool(message.get("serialized") or message.get("data"))


def test_d8_a_node_whose_snapshot_is_damaged_does_not_start(clusters):
    def prepare(c):
        c.healthy()
        c.append("A", *[f"x{number}" for number in range(4)])
        c.settle("A", "B", "C")
        c.snapshot("B")
        c.settle("A", "B", "C")
        c.crash("B")

    def flip(path):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 0xFF
        path.write_bytes(data)

    c = clusters.stock(files=True)
    prepare(c)
    flip(c.directory / "B.dump")
    c.start("B")
    c.connect("A", "B")
    c.connect("B", "C")
    c.settle("A", "B", "C")
    c.crash("A")
    c.elect("B", "C")
    c.append("B", "more")
    c.settle("B", "C")
    assert c.is_leader("B")
    assert (c.commit_index("B") > 4, c.state("B"), c.told["more"]) == (True, {}, [])

    c = clusters.ours()
    prepare(c)
    log = c.nodes["B"].log
    flip(log.snapshot_files.path(*log.snapshot.last_entry))
    with pytest.raises(StartRefused, match="damaged"):
        c.start("B")


def test_d10_an_older_dump_never_replaces_a_newer_one(clusters):
    """A follower's own dump is finished after it has taken over its leader's. In stock a child
    process gives the dump its name whenever it is ready."""

    def scenario(c, own_dump, finish_own_dump):
        c.healthy()
        c.append("A", "x1", "x2", "x3")
        c.settle("A", "B", "C")
        finish = own_dump(c)
        c.isolate("B")
        names = [f"y{number}" for number in range(6)]
        c.append("A", *names)
        c.settle("A", "C")
        c.snapshot("A")
        c.settle("A", "C")
        c.connect("A", "B")
        c.settle("A", "B", rounds=12)
        c.append("A", "last")
        c.settle("A", "B", "C")
        assert "last" in c.state("B")
        finish_own_dump(c, finish)
        before = c.log("B")[-1]
        c.restart("B")
        return c.log("B")[-1] == before

    def stock_dumps(c):
        c.nodes["B"].forceLogCompaction()
        c.nodes["B"].doTick()
        return (c.directory / "B.dump").read_bytes()

    def stock_child_ends(c, dump):
        (c.directory / "B.dump").write_bytes(dump)

    def we_dump(c):
        node = c.nodes["B"]
        node.replica.snapshots.request()
        turn = c.begin_turn("B")
        assert turn.snapshot is not None
        return turn.snapshot, list(node.replica.machine.state())

    def our_child_ends(c, begun):
        node = c.nodes["B"]
        installed = node.log.snapshot
        draft = node.log.snapshot_files.draft_path(*begun[0])
        node.replica.snapshots.taken(draft, *write_snapshot(draft, begun[1]))
        c.settle("A", "B", "C")
        assert node.log.snapshot == installed

    assert scenario(clusters.stock(files=True), stock_dumps, stock_child_ends) is False
    assert scenario(clusters.ours(), we_dump, our_child_ends) is True


def test_d11_r19_a_vote_is_not_forgotten(clusters):
    """The power fails after C has voted for A. Stock has synced nothing, so the file that holds its
    vote may be empty, and C votes for B in the same term."""

    def scenario(c, power_fails):
        c.nobody_leads()
        c.connect("A", "C")
        c.connect("B", "C")
        votes = []
        for candidate in ("A", "B"):
            c.time_out(candidate)
            for _ in range(3):
                c.tick(candidate)
                c.deliver(candidate, "C")
                c.tick("C")
                votes += [
                    candidate
                    for message in c.wires["C", candidate]
                    if message["type"] == "response_vote"
                    or (message["type"] == "vote_answer" and message["granted"])
                ]
                if votes[-1:] == [candidate]:
                    break
                c.deliver("C", candidate)
            if candidate == "A":
                c.crash("C")
                power_fails(c)
                c.start("C")
                c.connect("B", "C")
        return votes

    def empty_meta(c):
        open(c.directory / "C.journal.meta", "wb").close()

    assert scenario(clusters.stock(files=True), empty_meta) == ["A", "B"]
    ours = clusters.ours()
    # C heard no leader of that term, so nothing but its vote keeps it from voting again.
    assert scenario(ours, lambda c: None) == ["A"]
    assert ours.nodes["C"].log.getVotedForNodeId() == "A"


def test_d11_r19_a_vote_is_sent_when_it_is_on_disk(clusters):
    c = clusters.ours()
    c.nobody_leads()
    c.connect("A", "C")
    c.time_out("A")
    for _ in range(2):
        c.tick("A")
        if any(message["type"] == "request_vote" for message in c.wires["A", "C"]):
            break
        c.deliver("A", "C")
        c.deliver("C", "A")
    for message in c.wires["A", "C"]:
        c.arrive("A", "C", message)
    turn = c.begin_turn("C")
    assert turn.batch.vote[:2] == (2, "A")
    assert [message["type"] for _, message in turn.now] == []
    assert [message["type"] for _, message in turn.held] == ["vote_answer"]
    c.end_turn("C", turn)
    database = database_of(c.nodes["C"].log)
    assert database.execute("SELECT term, voted_for FROM vote").fetchone() == (2, "A")
    assert database.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL: fsync
    assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_d11_stock_never_syncs(clusters, monkeypatch):
    def never(*_):
        raise AssertionError("it syncs")

    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, never)
    c = clusters.stock(files=True)
    c.healthy()
    c.append("A", "x")
    c.settle("A", "B", "C")
    c.snapshot("A")
    assert c.told["x"] == ["done"]


def test_d11_r19_a_log_that_was_emptied_or_torn_is_refused(tmp_path):
    log = Log(tmp_path, node_id="n1", cluster_name="goblin")
    for index in range(2, 200):
        log.add(b"\0" + bytes(500), index, 1)
    log.setCurrentTerm(7, "n2")
    write(log)
    log.close()
    path = tmp_path / "raft.db"
    whole = path.read_bytes()
    for torn in (b"", whole[: len(whole) // 2]):
        path.write_bytes(torn)
        with pytest.raises(StartRefused, match="damaged"):
            Log(tmp_path, node_id="n1", cluster_name="goblin")


def test_d12_a_log_may_grow_beyond_four_gigabytes(tmp_path):
    """Stock's offsets have 32 bits, and the entry is in its memory before it finds that out."""
    journal = FileJournal(str(tmp_path / "journal"))
    journal._FileJournal__currentOffset = 2**32 - 10
    journal._FileJournal__journalFile = type("File", (), {"write": lambda *_: None})()
    with pytest.raises(struct.error):
        journal.add(b"\0" + bytes(100), 1, 1)
    assert len(journal) == 1

    log = Log(tmp_path / "n1", node_id="n1", cluster_name="goblin")
    (page_bytes,) = database_of(log).execute("PRAGMA page_size").fetchone()
    (pages_max,) = database_of(log).execute("PRAGMA max_page_count").fetchone()
    assert page_bytes * pages_max > 2**40
    log._bytes = 2**33
    log.add(b"\0" + bytes(100), 2**33, 1)
    batch = log.take(clock_ms=2**62, wall_ms=2**62)
    log.write(batch)
    log.close()
