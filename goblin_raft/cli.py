"""The command line: reads words, calls the part that does the work, returns an exit code.

Exit codes: 0 done; 1 refused or not so (`status` without a leader); 2 the command line or a
setting is wrong, and nothing was opened. It must not know how any of the parts works.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn, TypeAlias

from goblin_raft import __version__
from goblin_raft.config import (
    AUTH_VARIABLE,
    GROUPS,
    BadSetting,
    Config,
    flag_of,
    load,
    parse_address,
    render_config,
    unknown_variables,
    variable_of,
)
from goblin_raft.users import DEFAULT_USER, BadUsers, Users

# Those that `cluster` works out itself, for each node.
NODE_SETTINGS = ("node_id", "resp", "raft", "peers", "dir")
LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s %(message)s"

EXAMPLES = """\
examples:
  goblin-raft cluster --dir /tmp/goblin --resp-port 7001    three nodes on this machine
  goblin-raft status --resp 127.0.0.1:7001                  who leads, who lags
  goblin-raft serve --dir ./data                            one node on its own, on port 7001
  redis-cli -p 7001 GOBLIN.CLAIM claim:1 result:1 me 30     claim a piece of work
"""


class Parser(argparse.ArgumentParser):
    """argparse, but what is wrong is said in one line instead of below a page of usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (`{self.prog} --help` shows what there is)\n")


def build_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="goblin-raft",
        description="A replicated idempotency store that speaks the Redis protocol.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"goblin-raft {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    add_serve(commands)
    add_cluster(commands)
    add_status(commands)
    add_docs(commands)
    return parser


# argparse keeps the type of what add_subparsers returns to itself.
Commands: TypeAlias = "argparse._SubParsersAction[Parser]"


def add_serve(commands: Commands) -> None:
    parser = commands.add_parser(
        "serve",
        help="run one node",
        description="Run one node in the foreground. Without --peers it is a store of its own. "
        "SIGTERM hands leadership over, answers what is under way and stops. The process id is in "
        "DIR/node.pid.",
        allow_abbrev=False,
    )
    add_settings(parser, exclude=())
    parser.set_defaults(run=run_serve)


def add_cluster(commands: Commands) -> None:
    parser = commands.add_parser(
        "cluster",
        help="run a local cluster as child processes, for trying and testing",
        description="Run a cluster on this machine. Prints one line beginning `ready` when there "
        "is a leader and runs until SIGINT or SIGTERM, which stop the nodes. Started again on the "
        "same directory it goes on with its data. A node that dies is reported and not restarted; "
        "DIR/n1/command is the line that starts n1 again.",
        allow_abbrev=False,
    )
    group = parser.add_argument_group("cluster")
    group.add_argument("--dir", required=True, metavar="DIR", help="one directory a node: DIR/n1")
    group.add_argument(
        "--resp-port",
        required=True,
        type=int,
        metavar="PORT",
        help="clients connect to PORT for n1, PORT+1 for n2, ...; the nodes talk on PORT+100, ...",
    )
    group.add_argument("--nodes", type=int, default=3, metavar="N", help="default: 3")
    add_settings(parser, exclude=NODE_SETTINGS)
    parser.set_defaults(run=run_cluster)


def add_status(commands: Commands) -> None:
    parser = commands.add_parser(
        "status",
        help="show the nodes of a cluster",
        description="Ask one node which members there are, ask each of them how it is, and print "
        "a line for each. The exit code is 0 if there is a leader, else 1.",
        allow_abbrev=False,
    )
    parser.add_argument("--resp", default="127.0.0.1:7001", metavar="HOST:PORT", help="any node")
    parser.add_argument("--json", action="store_true", help="the same, for programs")
    parser.add_argument(
        "--auth",
        metavar="NAME:PASSWORD",
        help=f"where the nodes have users [{AUTH_VARIABLE}; else the first of "
        f"{variable_of('users')} with a plain password]",
    )
    parser.set_defaults(run=run_status)


def add_docs(commands: Commands) -> None:
    parser = commands.add_parser(
        "docs",
        help="print or write the reference pages that are generated from the code",
        description="Print one page, or with --write or --check handle all pages in a directory.",
        allow_abbrev=False,
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("page", nargs="?", choices=sorted(PAGES), help="the page to print")
    what.add_argument("--write", metavar="DIR", help="write every page into DIR")
    what.add_argument("--check", metavar="DIR", help="exit code 1 if a page in DIR is not current")
    parser.set_defaults(run=run_docs)


def add_settings(parser: argparse.ArgumentParser, *, exclude: Sequence[str]) -> None:
    """One flag for each setting, in the groups of config.py. Checking them is config.py's work."""
    for group_name, meaning in GROUPS.items():
        group = parser.add_argument_group(group_name, meaning)
        for item in dataclasses.fields(Config):
            if item.metadata["group"] != group_name or item.name in exclude:
                continue
            about = f"{item.metadata['help']} Default: {item.default or 'empty'}."
            if item.metadata["min"] is not None:
                about += f" {item.metadata['min']} to {item.metadata['max']}."
            group.add_argument(
                flag_of(item.name),
                metavar=item.metadata["unit"].upper().replace(" ", "-"),
                help=f"{about} [{variable_of(item.name)}]".replace("%", "%%"),
            )


def settings_from(arguments: argparse.Namespace, *, exclude: Sequence[str] = ()) -> Config:
    """The Config of these flags and the environment; warns of variables that mean nothing."""
    names = [item.name for item in dataclasses.fields(Config) if item.name not in exclude]
    given = {name: getattr(arguments, name) for name in names}
    flags = {name: text for name, text in given.items() if text is not None}
    skipped = {variable_of(name) for name in exclude}
    config = load(flags, {k: v for k, v in os.environ.items() if k not in skipped})
    for name in unknown_variables(os.environ):
        print(f"goblin-raft: {name} is not a setting and is ignored", file=sys.stderr)
    return config


def run_serve(arguments: argparse.Namespace) -> int:
    config = settings_from(arguments)
    logging.basicConfig(level=config.log_level.upper(), format=LOG_FORMAT, stream=sys.stderr)
    # Imported here, because `status` and `docs` have no need of an engine.
    from goblin_raft.consensus.errors import StartRefused
    from goblin_raft.server import serve

    started = False
    pid_file = Path(config.dir) / "node.pid"

    def ready(*_: object) -> None:
        # Only now: until the directory is known to be ours, nothing in it may be touched.
        nonlocal started
        started = True
        pid_file.write_text(f"{os.getpid()}\n")

    try:
        asyncio.run(serve(config, ready))
    except StartRefused as error:
        return refuse(str(error))
    except OSError as error:
        if started:
            raise
        return refuse(f"cannot start: {error}")
    # A later node in this directory may have written its own by now; that one stays.
    with contextlib.suppress(OSError, ValueError):
        if int(pid_file.read_text()) == os.getpid():
            pid_file.unlink()
    return 0


def run_cluster(arguments: argparse.Namespace) -> int:
    from goblin_raft import local_cluster

    base = settings_from(arguments, exclude=NODE_SETTINGS)
    directory = Path(arguments.dir)
    try:
        return local_cluster.run(directory, arguments.resp_port, arguments.nodes, base, os.environ)
    except local_cluster.CannotStart as error:
        return refuse(str(error))
    except OSError as error:
        return refuse(f"cannot start: {error}")


def run_status(arguments: argparse.Namespace) -> int:
    from goblin_raft import status

    login = login_of(arguments.auth, os.environ)
    return status.run(
        parse_address("--resp", arguments.resp),
        as_json=arguments.json,
        ask=lambda address: status.ask_node(address, login),
    )


def login_of(flag: str | None, environ: Mapping[str, str]) -> tuple[str, str] | None:
    """As whom to ask a node: NAME:PASSWORD, or the node's own setting where it is at hand."""
    text = flag or environ.get(AUTH_VARIABLE)
    if text:
        name, colon, password = text.partition(":")
        return (name, password) if colon else (DEFAULT_USER, name)
    try:
        return Users(environ.get(variable_of("users"), "")).login
    except BadUsers as error:
        raise BadSetting(str(error)) from None


def run_docs(arguments: argparse.Namespace) -> int:
    if arguments.page:
        print(PAGES[arguments.page](), end="")
        return 0
    directory = Path(arguments.write or arguments.check)
    code = 0
    for name, render in PAGES.items():
        path, text = directory / f"{name}.md", render()
        if arguments.write:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            code = refuse(f"{path} is not current: run `goblin-raft docs --write {directory}`.")
    return code


def render_commands() -> str:
    from goblin_raft import docs_pages

    return docs_pages.render_commands()


def render_errors() -> str:
    from goblin_raft import docs_pages

    return docs_pages.render_errors()


PAGES: dict[str, Callable[[], str]] = {
    "commands": render_commands,
    "config": render_config,
    "errors": render_errors,
}


def refuse(sentence: str) -> int:
    print(f"goblin-raft: {sentence}", file=sys.stderr)
    return 1


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    try:
        arguments = build_parser().parse_args(argv)
        code: int = arguments.run(arguments)
    except BadSetting as error:
        print(f"goblin-raft: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # `goblin-raft docs commands | head`: the reader has gone, and that is no error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code
