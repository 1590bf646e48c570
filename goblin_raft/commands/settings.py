"""CONFIG: a node's settings under the names that Redis's tools ask for, and under our own."""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Callable

from goblin_raft import errors, errors_node
from goblin_raft.arguments import repeated, string
from goblin_raft.config import Config
from goblin_raft.errors import StoreError
from goblin_raft.limits import Limits
from goblin_raft.node_view import NodeView
from goblin_raft.readers import read_integer
from goblin_raft.reply import OK, Map, Reply
from goblin_raft.spec import Family

family = Family("server")

family.container("CONFIG", "Read settings, and change some while the node runs.")

NOT_AN_INTEGER = "argument couldn't be parsed into an integer"
# All events that there are, in Redis's letters: always on, so who asks for some has them already.
EVENTS = frozenset(b"AKEg$lshzxetd")
# Nobody reads passwords back.
SECRET = {"users"}

# Redis's names, where a tool asks for one. Those that are not numbers of ours say how we behave.
OF_REDIS: dict[str, Callable[[NodeView], object]] = {
    "appendfsync": lambda node: "always",
    "appendonly": lambda node: "yes",
    "bind": lambda node: node.config.resp_address.host,
    "cluster-enabled": lambda node: "no",
    "databases": lambda node: Limits().databases,
    "dir": lambda node: node.config.dir,
    "latency-monitor-threshold": lambda node: 0,
    "maxclients": lambda node: node.changeable.maxclients,
    "maxmemory": lambda node: 0,
    "maxmemory-policy": lambda node: "noeviction",
    "notify-keyspace-events": lambda node: "AKE",
    "port": lambda node: node.config.resp_address.port,
    "proto-max-bulk-len": lambda node: node.config.value_bytes_max,
    "replica-read-only": lambda node: "no",
    "save": lambda node: "",
    "slave-read-only": lambda node: "no",
    "slowlog-log-slower-than": lambda node: node.metrics.slow_log.slower_than_us,
    "slowlog-max-len": lambda node: node.metrics.slow_log.length_max,
    "tcp-keepalive": lambda node: 300,
    "timeout": lambda node: 0,
}


def of_ours(name: str) -> Callable[[NodeView], object]:
    """Reads one of our settings."""
    return lambda node: getattr(node.config, name)


KNOWN: dict[str, Callable[[NodeView], object]] = {
    **{
        item.name.replace("_", "-"): of_ours(item.name)
        for item in dataclasses.fields(Config)
        if item.name not in SECRET
    },
    **OF_REDIS,
}


def set_maxclients(node: NodeView, number: int) -> None:
    node.changeable.maxclients = number


def set_slower_than(node: NodeView, number: int) -> None:
    node.metrics.slow_log.slower_than_us = number


def set_slow_log_length(node: NodeView, number: int) -> None:
    node.metrics.slow_log.length_max = number


# (least, most, what to do): all of them numbers.
CHANGEABLE: dict[str, tuple[int, int, Callable[[NodeView, int], None]]] = {
    "maxclients": (1, 10**6, set_maxclients),
    "slowlog-log-slower-than": (-1, 10**12, set_slower_than),
    "slowlog-max-len": (0, 10**5, set_slow_log_length),
}


@family.node("CONFIG GET", repeated(string("pattern")))
def config_get(node: NodeView, patterns: list[bytes]) -> Reply:
    """Read the settings that match a pattern."""
    wanted = [pattern.decode("utf-8", "replace").lower() for pattern in patterns]
    return Map(
        {
            name.encode(): str(read(node)).encode()
            for name, read in sorted(KNOWN.items())
            if any(fnmatch.fnmatchcase(name, pattern) for pattern in wanted)
        }
    )


@family.node("CONFIG SET", repeated(string("parameter"), string("value")))
def config_set(node: NodeView, words: list[bytes]) -> Reply:
    """Change settings of this node until it ends: maxclients, slowlog-*; all of them or none.

    Any other setting may be "changed" to the value that it has; notify-keyspace-events, which is
    always on, to any choice of events.
    """
    changes: dict[str, Callable[[], None]] = {}
    for word, value in zip(words[::2], words[1::2], strict=True):
        name = word.decode("utf-8", "replace").lower()
        if name not in KNOWN:
            return errors_node.UNKNOWN_PARAMETER.failure(name=errors.quoted(word))
        if name in changes:
            raise failed(name, "duplicate parameter")
        changes[name] = change_of(node, name, value)
    for change in changes.values():
        change()
    return OK


def change_of(node: NodeView, name: str, value: bytes) -> Callable[[], None]:
    """What to do for one parameter. Raises StoreError when it cannot be done."""
    if name not in CHANGEABLE:
        is_on = name == "notify-keyspace-events" and value and EVENTS.issuperset(value)
        if str(KNOWN[name](node)).encode() != value and not is_on:
            raise failed(name, "can't set immutable config")
        return lambda: None
    least, most, change = CHANGEABLE[name]
    try:
        number = read_integer(value, Limits(), "config|set")
    except StoreError:
        raise failed(name, NOT_AN_INTEGER) from None
    if not least <= number <= most:
        raise failed(name, f"argument must be between {least} and {most} inclusive")
    return lambda: change(node, number)


def failed(name: str, why: str) -> StoreError:
    """In Redis's words."""
    return errors_node.CONFIG_SET_FAILED.refusal(name=name, why=why)


@family.node("CONFIG RESETSTAT")
def config_resetstat(node: NodeView) -> Reply:
    """Begin to count anew what INFO stats, commandstats and errorstats show."""
    node.metrics.reset()
    return OK


@family.node("CONFIG REWRITE")
def config_rewrite(node: NodeView) -> Reply:
    """Refuse: settings are given by flags and variables, and no file holds them."""
    return errors_node.NO_CONFIG_FILE.failure()
