"""Damage to a node's files: what is read afterwards is what was written, or the start is refused.

`python -m tests.test_damage` flips a bit in *every* byte; the tests, in a sample of them.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from goblin_raft.consensus.errors import StartRefused
from goblin_raft.consensus.log import Log
from goblin_raft.consensus.snapshots import Snapshot, write_snapshot
from goblin_raft.consensus.storage import Storage
from goblin_raft.consensus.wal import damage_in_wal

SAMPLE = 240  # flipped bytes a file, at most
Files = dict[str, bytes]


def reopen(directory: Path) -> Log:
    return Log(directory, node_id="n1", cluster_name="goblin")


def write(log: Log) -> None:
    batch = log.take(clock_ms=7, wall_ms=9)
    log.write(batch)
    log.written(batch)


def files_in(directory: Path) -> Files:
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}


def put(directory: Path, files: Files) -> None:
    for path in directory.iterdir():
        path.unlink()
    for name, data in files.items():
        (directory / name).write_bytes(data)


def contents(directory: Path) -> object:
    """All that a node would go by."""
    log = reopen(directory)
    try:
        blocks = None if log.snapshot is None else list(log.snapshot_blocks())
        vote = (log.getCurrentTerm(), log.getVotedForNodeId(), log.is_voter)
        return log[:], vote, log.snapshot, blocks, log.stored_clock, log.durable_index
    finally:
        log.close()


def script(log: Log) -> None:
    """A bit of everything that a log goes through."""
    log.become_voter()
    write(log)
    for index in range(2, 40):
        log.add(b"\x00" + b"entry-%d " % index * (index % 9), index, 1)
        if index % 3 == 0:
            write(log)
    draft = log.snapshot_files.draft_path(20, 1)
    size, crc = write_snapshot(draft, [b"head", b"state " * 200, b"end"])
    log.publish(draft, Snapshot(20, 1, size, crc))
    write(log)
    log.compact(15)
    write(log)
    log.setCurrentTerm(3, "n2")
    write(log)
    log.deleteEntriesFrom(len(log) - 6)
    for _ in range(4):
        log.add(b"\x00" + b"large" * 3000, log[-1][1] + 1, 3)
        write(log)
    log.receive_part(Snapshot(90, 3, 1000, 5), 0, b"a part " * 20)
    write(log)


def closed_and_killed() -> Iterator[tuple[str, Files]]:
    with tempfile.TemporaryDirectory() as name:
        log = reopen(Path(name))
        script(log)
        yield "killed", files_in(Path(name))  # nothing was done about it: as after kill -9
        log.close()
        yield "closed", files_in(Path(name))


DIRECTORIES = dict(closed_and_killed())
# Reading the write-ahead file takes time, so what has nothing to do with it is tried without.
DAMAGED = [
    ("killed" if name == "raft.db-wal" else "closed", name)
    for name, data in DIRECTORIES["killed"].items()
    if data
] + [("killed", "raft.db")]


@pytest.fixture
def place():
    base = "/dev/shm" if Path("/dev/shm").is_dir() else None
    directory = Path(tempfile.mkdtemp(prefix="goblin-damage-", dir=base))
    yield directory
    shutil.rmtree(directory)


def try_with(place: Path, files: Files, expected: object, what: str) -> bool:
    """Whether the damaged files were refused; else they must read as the whole ones."""
    put(place, files)
    try:
        found = contents(place)
    except StartRefused as refusal:
        sentence = str(refusal)
        assert len(sentence) > 30
        assert "\n" not in sentence
        return True
    assert found == expected, what
    return False


def flips(place: Path, state: str, name: str, positions: list[int]) -> int:
    files = DIRECTORIES[state]
    put(place, files)
    expected = contents(place)
    refused = 0
    for position in positions:
        data = bytearray(files[name])
        data[position] ^= 1 << (position % 8)
        what = f"a flipped bit at {position} of {name} of a node that was {state}"
        refused += try_with(place, {**files, name: bytes(data)}, expected, what)
    return refused


def sampled(size: int) -> list[int]:
    if size <= SAMPLE:
        return list(range(size))
    # Heads of pages and frames are where the structure is; and a sample of all the rest.
    rest = random.Random(size).sample(range(size), SAMPLE // 2)
    return sorted({*range(min(size, SAMPLE // 4)), *rest, *range(size - SAMPLE // 4, size)})


def test_the_files_are_those_that_a_node_has():
    assert set(DIRECTORIES["killed"]) == {
        "identity.json", "lock", "mark", "raft.db", "raft.db-wal", "snapshot-20-1",
        "snapshot-90-3-1000-5.part",
    }  # fmt: skip
    assert len(DIRECTORIES["killed"]["raft.db-wal"]) > 100_000


@pytest.mark.parametrize(("state", "name"), DAMAGED)
def test_a_flipped_bit_changes_nothing_or_is_refused(place, state, name):
    positions = sampled(len(DIRECTORIES[state][name]))
    refused = flips(place, state, name, positions)
    if name in ("raft.db-wal", "mark", "snapshot-20-1"):
        assert refused > 0.9 * len(positions)


@pytest.mark.parametrize(("state", "name"), DAMAGED)
def test_a_file_that_is_cut_short_or_zeroed_or_gone(place, state, name):
    files = DIRECTORIES[state]
    put(place, files)
    expected = contents(place)
    data = files[name]
    for keep in {*range(0, len(data), max(1, len(data) // 60)), len(data) - 1}:
        cut = {**files, name: data[:keep]}
        try_with(place, cut, expected, f"{name} cut at {keep}")
    for sector in range(0, len(data), max(512, len(data) // 60 // 512 * 512)):
        zeroed = data[:sector] + b"\0" * min(512, len(data) - sector) + data[sector + 512 :]
        try_with(place, {**files, name: zeroed}, expected, f"{name}: sector at {sector}")
    gone = {other: data for other, data in files.items() if other != name}
    refused = try_with(place, gone, expected, f"{name} is gone")
    assert refused == (not name.endswith(".part"))


def test_an_older_copy_of_the_database_is_noticed(tmp_path):
    log = reopen(tmp_path)
    log.add(b"\x00one", 2, 1)
    write(log)
    log.close()
    older = (tmp_path / "raft.db").read_bytes()
    log = reopen(tmp_path)
    log.add(b"\x00two", 3, 1)
    write(log)
    log.close()
    (tmp_path / "raft.db").write_bytes(older)
    with pytest.raises(StartRefused, match="ends at entry 2, and held 3 before"):
        reopen(tmp_path)


def test_what_an_unfinished_transaction_left_is_no_damage(place):
    """Killed inside a write: whatever part of its last transaction is there goes, no more."""
    files = DIRECTORIES["killed"]
    put(place, files)
    log = reopen(place)
    before = (log[:], log.getCurrentTerm())
    begun = files_in(place)
    log.add(b"\x00" + b"x" * 30_000, log[-1][1] + 1, 3)
    write(log)
    after = (log[:], log.getCurrentTerm())
    ended = files_in(place)
    log.close()
    wal = ended["raft.db-wal"]
    assert len(wal) > 7 * 4096
    for keep in range(0, len(wal), 1000):
        put(place, {**begun, "raft.db-wal": wal[:keep]})
        log = reopen(place)
        assert (log[:], log.getCurrentTerm()) == before
        log.close()
    put(place, {**begun, "raft.db-wal": wal})  # all of it is there, and the mark does not know yet
    log = reopen(place)
    assert (log[:], log.getCurrentTerm()) == after
    log.close()


def test_damage_before_the_last_transaction_is_found_without_the_mark(place, monkeypatch):
    """After a loss of power the mark may be old."""
    monkeypatch.setattr(Storage, "_compare_with_mark", lambda self, contents: None)
    files = DIRECTORIES["killed"]
    wal = bytearray(files["raft.db-wal"])
    wal[10_000] ^= 1
    put(place, {**files, "raft.db-wal": bytes(wal)})
    with pytest.raises(StartRefused, match=r"raft.db-wal is damaged \(frame 3 of"):
        reopen(place)


def test_the_tail_of_the_write_ahead_file_is_found_by_the_mark_alone(place, monkeypatch):
    """It looks like a write that was cut short."""
    files = DIRECTORIES["killed"]
    wal = bytearray(files["raft.db-wal"])
    wal[-1] ^= 1
    put(place, {**files, "raft.db-wal": bytes(wal)})
    assert damage_in_wal(place / "raft.db-wal") is None


def main() -> None:
    directory = Path(tempfile.mkdtemp(prefix="goblin-damage-"))
    for state, name in DAMAGED:
        size = len(DIRECTORIES[state][name])
        refused = flips(directory, state, name, list(range(size)))
        print(f"{state} {name}: {size} flips, {refused} refused, none served", flush=True)
    shutil.rmtree(directory)


if __name__ == "__main__":
    main()
