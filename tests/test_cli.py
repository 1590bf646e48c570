"""The command line: help that helps, and refusals in one line before anything is opened."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import pytest

from goblin_raft import __version__
from goblin_raft.cli import PAGES, main
from goblin_raft.config import GROUPS, Config, flag_of, variable_of


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch):
    for item in dataclasses.fields(Config):
        monkeypatch.delenv(variable_of(item.name), raising=False)


def output_of(capsys, *words):
    """Run a command that ends the program, as --help does."""
    with pytest.raises(SystemExit) as ended:
        main(words)
    streams = capsys.readouterr()
    return ended.value.code, streams.out, streams.err


def test_help_shows_every_command_and_an_example(capsys):
    code, out, _ = output_of(capsys, "--help")
    assert code == 0
    for word in ("serve", "cluster", "status", "docs", "GOBLIN.CLAIM"):
        assert word in out


def test_help_of_serve_has_every_setting_in_its_group(capsys):
    _, out, _ = output_of(capsys, "serve", "--help")
    for item in dataclasses.fields(Config):
        assert flag_of(item.name) in out
        assert variable_of(item.name) in out
    assert all(f"\n{group}:\n" in out for group in GROUPS)


def test_help_of_cluster_leaves_out_what_it_works_out_itself(capsys):
    _, out, _ = output_of(capsys, "cluster", "--help")
    assert "--resp-port" in out
    assert "--heartbeat-ms" in out
    assert "--peers" not in out


def test_version(capsys):
    assert output_of(capsys, "--version")[:2] == (0, f"goblin-raft {__version__}\n")


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("sing",),
        ("serve", "--no-such-flag"),
        ("serve", "--heart", "50"),
        ("cluster", "--resp-port", "7001"),
        ("cluster", "--dir", "x", "--resp-port", "seven"),
        ("docs",),
        ("docs", "poems"),
        ("docs", "config", "--write", "x"),
    ],
)
def test_a_wrong_command_line_is_refused_in_one_line(capsys, words):
    code, out, err = output_of(capsys, *words)
    assert (code, out) == (2, "")
    assert err.startswith("goblin-raft")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [
        ("serve", "--resp", "nonsense"),
        ("serve", "--heartbeat-ms", "fast"),
        ("serve", "--peers", "n2=h:1,n2=h:2"),
        ("cluster", "--resp-port", "7001", "--nodes", "0"),
        ("cluster", "--resp-port", "7001", "--nodes", "10"),
        ("cluster", "--resp-port", "65500"),
        ("cluster", "--resp-port", "7001", "--leader-wait-ms", "-1"),
    ],
)
def test_a_bad_setting_is_refused_before_anything_is_opened(tmp_path, capsys, words):
    directory = tmp_path / "data"
    assert main([words[0], "--dir", str(directory), *words[1:]]) == 2
    streams = capsys.readouterr()
    assert streams.out == ""
    assert streams.err.startswith("goblin-raft: ")
    assert streams.err.count("\n") == 1
    assert not directory.exists()


def test_a_bad_variable_is_refused_like_a_flag(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("GOBLIN_RAFT_MAXCLIENTS", "0")
    assert main(["serve", "--dir", str(tmp_path / "data")]) == 2
    assert "maxclients is 0, and it must lie between 1" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


def test_status_refuses_what_is_no_address(capsys):
    assert main(["status", "--resp", "7001"]) == 2
    assert "--resp must be HOST:PORT" in capsys.readouterr().err


def test_status_and_docs_need_no_engine():
    """They must work where the node's own packages are broken, and start at once."""
    program = (
        "import sys; from goblin_raft.cli import main; main(['docs', 'config']);"
        "main(['status', '--resp', '127.0.0.1:1']);"
        "sys.exit('pysyncobj' in sys.modules or 'sqlite3' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=30)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", sorted(PAGES))
def test_docs_prints_a_page(capsys, page):
    assert main(["docs", page]) == 0
    assert capsys.readouterr().out.startswith("# ")


def test_docs_check_finds_a_page_that_is_not_current(tmp_path, capsys):
    assert main(["docs", "--write", str(tmp_path)]) == 0
    assert main(["docs", "--check", str(tmp_path)]) == 0
    (tmp_path / "config.md").write_text("old")
    (tmp_path / "errors.md").unlink()
    assert main(["docs", "--check", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert "config.md is not current" in said
    assert "errors.md is not current" in said
    assert "commands.md" not in said
