"""SLOWLOG, LATENCY, DEBUG: looking into a node that runs; answered by the node itself, at once."""

from __future__ import annotations

import logging

from goblin_raft import errors, errors_node
from goblin_raft.arguments import optional, repeated, string
from goblin_raft.counters import SlowEntry
from goblin_raft.errors import StoreError
from goblin_raft.limits import Limits
from goblin_raft.node_view import NodeView
from goblin_raft.readers import read_integer
from goblin_raft.reply import OK, Failure, Map, Reply, Verbatim
from goblin_raft.spec import Family

logger = logging.getLogger(__name__)

family = Family("server")

# What an entry of the slow log shows of a command, as in Redis.
ARGUMENTS_MAX = 32
ARGUMENT_BYTES_MAX = 128
ENTRIES_BY_DEFAULT = 10

# ---- SLOWLOG -------------------------------------------------------------------------------------

family.container("SLOWLOG", "Show commands that took long on this node.")


@family.node("SLOWLOG GET", optional(string("count")))
def slowlog_get(node: NodeView, count: bytes | None) -> Reply:
    """Show the newest slow commands: id, time, microseconds, words, client, its name.

    The time runs from a command's turn on its connection to its answer, so it has the wait for a
    majority in it. Commands of one pipeline that were served together are one entry.
    """
    wanted = ENTRIES_BY_DEFAULT if count is None else read_count(count)
    entries = list(node.metrics.slow_log.entries)
    return [show(entry) for entry in (entries if wanted < 0 else entries[:wanted])]


def read_count(word: bytes) -> int:
    """-1 or more. Raises StoreError."""
    try:
        count = read_integer(word, Limits(), "slowlog|get")
    except StoreError:
        count = -2
    if count < -1:
        raise errors_node.BAD_SLOWLOG_COUNT.refusal()
    return count


def show(entry: SlowEntry) -> Reply:
    """An entry as Redis's tools read it."""
    words: list[Reply] = [shortened(word) for word in entry.argv[:ARGUMENTS_MAX]]
    if len(entry.argv) > ARGUMENTS_MAX:
        more = len(entry.argv) - ARGUMENTS_MAX + 1
        words[-1] = b"... (%d more arguments)" % more
    if entry.more:
        words.append(b"... (%d more commands)" % entry.more)
    shown: list[Reply] = [entry.id, entry.wall_s, entry.took_us, words]
    return [*shown, entry.address.encode(), entry.name]


def shortened(word: bytes) -> bytes:
    """A word, or its beginning."""
    more = len(word) - ARGUMENT_BYTES_MAX
    return word if more <= 0 else word[:ARGUMENT_BYTES_MAX] + b"... (%d more bytes)" % more


@family.node("SLOWLOG LEN")
def slowlog_len(node: NodeView) -> Reply:
    """Count the entries of the slow log."""
    return len(node.metrics.slow_log.entries)


@family.node("SLOWLOG RESET")
def slowlog_reset(node: NodeView) -> Reply:
    """Forget the slow log."""
    node.metrics.slow_log.entries.clear()
    return OK


# ---- LATENCY -------------------------------------------------------------------------------------

family.container("LATENCY", "Answer what Redis answers while its latency monitor is off.")


@family.node("LATENCY LATEST")
def latency_latest(node: NodeView) -> Reply:
    """Show no events: see SLOWLOG and INFO commandstats instead."""
    return []


@family.node("LATENCY HISTORY", string("event"))
def latency_history(node: NodeView, event: bytes) -> Reply:
    """Show no samples."""
    return []


@family.node("LATENCY RESET", repeated(string("event"), least=0))
def latency_reset(node: NodeView, events: list[bytes]) -> Reply:
    """Answer 0: there are no events to forget."""
    return 0


@family.node("LATENCY HISTOGRAM", repeated(string("command"), least=0))
def latency_histogram(node: NodeView, commands: list[bytes]) -> Reply:
    """Show no distributions."""
    return Map({})


@family.node("LATENCY GRAPH", string("event"))
def latency_graph(node: NodeView, event: bytes) -> Reply:
    """Refuse: there are no samples to draw."""
    return errors_node.NO_LATENCY_SAMPLES.failure(name=errors.quoted(event))


@family.node("LATENCY DOCTOR")
def latency_doctor(node: NodeView) -> Reply:
    """Say where to look instead."""
    return Verbatim(
        b"Events are not sampled here. SLOWLOG GET has the slowest commands, and "
        b"INFO commandstats how long each command takes on average.\n"
    )


# ---- DEBUG ---------------------------------------------------------------------------------------

family.container("DEBUG", "Help with tests; nothing here changes data or stops the node.")


@family.node("DEBUG LOG", string("message"))
def debug_log(node: NodeView, message: bytes) -> Reply:
    """Write a line to the node's log, so that it can be found there."""
    logger.info("debug.log text=%s", ascii(errors.quoted(message)))
    return OK


@family.node("DEBUG ERROR", string("message"))
def debug_error(node: NodeView, message: bytes) -> Reply:
    """Answer with this error line, to try what a client does with it."""
    return Failure(errors.quoted(message, len(message)))
