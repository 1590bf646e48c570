"""The log on disk: what was written is there again, and what is damaged or foreign is refused."""

from __future__ import annotations

import sqlite3

import pytest

from goblin_raft.consensus.errors import StartRefused
from goblin_raft.consensus.log import Log


def reopen(directory) -> Log:
    return Log(directory, node_id="n1", cluster_name="goblin")


def written(log: Log) -> None:
    batch = log.take(clock_ms=7, wall_ms=9)
    assert batch is not None
    log.write(batch)
    log.written(batch)


@pytest.fixture
def filled(tmp_path):
    log = reopen(tmp_path)
    for index in range(2, 12):
        log.add(b"\x00entry-%d" % index, index, 1)
    log.setCurrentTerm(3, "n2")
    written(log)
    log.close()
    return tmp_path


def test_a_new_log_has_the_entry_that_every_log_begins_with(tmp_path):
    log = reopen(tmp_path)
    assert log[:] == [(b"\x01", 1, 0)]
    assert log.durable_index == 1


def test_entries_term_and_vote_are_there_after_a_restart(filled):
    log = reopen(filled)
    assert log[-1] == (b"\x00entry-11", 11, 1)
    assert (log.getCurrentTerm(), log.getVotedForNodeId()) == (3, "n2")
    assert log.stored_clock == (7, 9)
    assert log.durable_index == 11


def test_what_was_not_written_is_not_there(filled):
    log = reopen(filled)
    log.add(b"\x00lost", 12, 3)
    log.close()
    assert reopen(filled)[-1][1] == 11


def test_a_conflicting_tail_is_replaced_in_one_step(filled):
    log = reopen(filled)
    log.deleteEntriesFrom(5)
    log.add(b"\x00other", 6, 4)
    log.setCurrentTerm(4, None)
    batch = log.take(clock_ms=7, wall_ms=9)
    assert batch.delete_from == 6
    log.write(batch)
    log.written(batch)
    log.close()
    log = reopen(filled)
    assert log[-1] == (b"\x00other", 6, 4)
    assert len(log) == 6


def test_a_tail_that_was_cut_and_not_replaced_is_not_durable(filled):
    log = reopen(filled)
    log.deleteEntriesFrom(5)
    log.take(clock_ms=7, wall_ms=9)
    assert log.durable_index == 5


def test_nothing_changed_is_nothing_to_write(filled):
    assert reopen(filled).take(clock_ms=7, wall_ms=9) is None


def test_one_process_a_directory(filled):
    holder = reopen(filled)
    with pytest.raises(StartRefused, match="in use"):
        reopen(filled)
    holder.close()
    reopen(filled)


@pytest.mark.parametrize(("node", "cluster"), [("n2", "goblin"), ("n1", "other")])
def test_a_directory_of_somebody_else_is_refused(filled, node, cluster):
    before = {path.name: path.read_bytes() for path in filled.iterdir()}
    with pytest.raises(StartRefused, match="belongs to node n1 of cluster goblin"):
        Log(filled, node_id=node, cluster_name=cluster)
    assert {path.name: path.read_bytes() for path in filled.iterdir()} == before


def damage(directory, statement, *values):
    database = sqlite3.connect(directory / "raft.db")
    database.execute(statement, values)
    database.commit()
    database.close()


def test_a_flipped_bit_in_an_entry_is_found(filled):
    damage(filled, "UPDATE entries SET command = ? WHERE idx = 5", b"\x00entry-4")
    with pytest.raises(StartRefused, match=r"damaged \(entry 5 does not match its CRC\)"):
        reopen(filled)


def test_a_missing_entry_is_found(filled):
    damage(filled, "DELETE FROM entries WHERE idx = 5")
    with pytest.raises(StartRefused, match="entry 6 is out of sequence"):
        reopen(filled)


def test_a_term_that_falls_is_found(filled):
    damage(filled, "UPDATE entries SET term = 0 WHERE idx = 5")
    with pytest.raises(StartRefused, match="out of sequence"):
        reopen(filled)


@pytest.mark.parametrize("keep", [0, 100, 5000])
def test_a_truncated_file_is_refused(filled, keep):
    path = filled / "raft.db"
    cut = path.read_bytes()[:keep]
    path.write_bytes(cut)
    with pytest.raises(StartRefused, match="damaged"):
        reopen(filled)
    assert path.read_bytes() == cut


def test_a_log_without_its_identity_is_refused(filled):
    (filled / "identity.json").unlink()
    with pytest.raises(StartRefused, match="damaged"):
        reopen(filled)


def test_an_identity_without_its_log_is_refused(filled):
    (filled / "raft.db").unlink()
    with pytest.raises(StartRefused, match="missing"):
        reopen(filled)


def test_a_start_that_was_cut_short_begins_again(tmp_path):
    reopen(tmp_path).close()
    (tmp_path / "identity.json").rename(tmp_path / "identity.draft")
    assert len(reopen(tmp_path)) == 1
