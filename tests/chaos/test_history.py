"""A history survives its file, also a file that was cut off."""

from __future__ import annotations

from chaos.history import Event, History, Operation, parse, read, write

EARLY = Operation(1, "n1", "claim", "c", ("r", "t", 30), 1.5, 2.5, "ok", "CLAIMED")
LATE = Operation(2, "n2", "set", "k", ("\u00e9",), 4.0, None, "unknown", error="closed")
LIST = Operation(3, "n3", "txn", "k", (["GET", "k"],), 6.0, 7.0, "ok", ["x", None, 1])
FAULT = Event(3.0, "fault", "kill leader", ("n1",))


def test_a_history_is_read_as_it_was_written(tmp_path):
    path = tmp_path / "history.jsonl"
    history = History({"workload": "claims", "seed": 7}, [EARLY, LATE, LIST], [FAULT])
    write(path, history)
    assert read(path) == history


def test_operations_and_events_are_sorted_by_time(tmp_path):
    path = tmp_path / "history.jsonl"
    later = Event(9.0, "phase", "final")
    write(path, History({}, [LIST, LATE, EARLY], [later, FAULT]))
    assert read(path).operations == [EARLY, LATE, LIST]
    assert read(path).events == [FAULT, later]
    assert read(path).phase_ms("final") == 9.0
    assert read(path).phase_ms("quiet") is None


def test_a_line_that_was_cut_off_is_left_out(tmp_path):
    path = tmp_path / "history.jsonl"
    write(path, History({"seed": 1}, [EARLY, LATE]))
    lines = path.read_text().splitlines(keepends=True)
    assert parse([*lines[:-1], lines[-1][:-9]]).operations == [EARLY]


def test_an_operation_reads_as_a_sentence():
    assert str(EARLY) == "1.5..2.5 client 1 @n1: claim c r t 30 -> 'CLAIMED'"
    assert str(LATE).endswith("-> unknown (closed)")
