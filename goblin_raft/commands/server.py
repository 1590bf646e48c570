"""Commands about the node: INFO, COMMAND, CONFIG GET; answered by the node itself, at once."""

from __future__ import annotations

import fnmatch
import os
import resource
import sys

from goblin_raft import __version__, errors
from goblin_raft.arguments import repeated, string
from goblin_raft.commands.connection import REDIS_VERSION
from goblin_raft.node_view import NodeView
from goblin_raft.reply import Failure, Map, Reply, Status
from goblin_raft.spec import Command, Family

family = Family("server")

# Redis's own words for BGSAVE.
SNAPSHOT_STARTED = Status(b"Background saving started")

_DEFAULT_SECTIONS = (
    "server",
    "clients",
    "memory",
    "persistence",
    "stats",
    "replication",
    "cpu",
    "raft",
    "cluster",
    "keyspace",
)


def _table() -> dict[bytes, Command]:
    # The table is made of the families, this one included, so it cannot be imported at the top.
    from goblin_raft.commands import TABLE

    return {name: command for name, command in sorted(TABLE.items()) if b" " not in name}


@family.node("COMMAND")
def command(node: NodeView) -> Reply:
    """List all commands: name, arity, flags and where the keys lie."""
    return [each.row() for each in _table().values()]


@family.node("COMMAND COUNT")
def command_count(node: NodeView) -> Reply:
    """Count the commands."""
    return len(_table())


@family.node("COMMAND LIST")
def command_list(node: NodeView) -> Reply:
    """List the names of all commands."""
    return [name.lower() for name in _table()]


@family.node("COMMAND INFO", repeated(string("name"), least=0))
def command_info(node: NodeView, names: list[bytes]) -> Reply:
    """List some commands as COMMAND does, with nil for those that do not exist."""
    table = _table()
    wanted = [name.upper() for name in names] or list(table)
    return [table[name].row() if name in table else None for name in wanted]


@family.node("COMMAND DOCS", repeated(string("name"), least=0))
def command_docs(node: NodeView, names: list[bytes]) -> Reply:
    """Describe commands: summary, group, arguments."""
    table = _table()
    wanted = [name.upper() for name in names] or list(table)
    return Map({name.lower(): table[name].docs() for name in wanted if name in table})


@family.node("CONFIG", string("subcommand"))
def config(node: NodeView, subcommand: bytes) -> Reply:
    """Read settings."""
    return errors.SYNTAX_ERROR.failure()  # dispatch looks for the second word first


@family.node("CONFIG GET", repeated(string("pattern")))
def config_get(node: NodeView, patterns: list[bytes]) -> Reply:
    """Read the settings that match a pattern, by the names that Redis's tools ask for."""
    setting = node.config
    known = {
        "appendfsync": "always",
        "appendonly": "yes",
        "bind": setting.resp_address.host,
        "databases": "16",
        "maxclients": str(setting.maxclients),
        "maxmemory": "0",
        "maxmemory-policy": "noeviction",
        "port": str(setting.resp_address.port),
        "proto-max-bulk-len": str(setting.value_bytes_max),
        "save": "",
        "timeout": "0",
    }
    wanted = [pattern.decode("utf-8", "replace").lower() for pattern in patterns]
    return Map(
        {
            name.encode(): value.encode()
            for name, value in known.items()
            if any(fnmatch.fnmatchcase(name, pattern) for pattern in wanted)
        }
    )


@family.node("CLUSTER", repeated(string("argument")))
def cluster(node: NodeView, words: list[bytes]) -> Reply:
    """Refuse: every node takes every command, so there are no slots to learn."""
    return Failure("ERR This instance has cluster support disabled")


@family.node("GOBLIN.SNAPSHOT")
def goblin_snapshot(node: NodeView) -> Reply:
    """Write a snapshot of this node's state now, and then drop the log before it."""
    return (
        SNAPSHOT_STARTED
        if node.take_snapshot()
        else Failure("ERR Background save already in progress")
    )


@family.node("BGSAVE", repeated(string("option"), least=0))
def bgsave(node: NodeView, options: list[bytes]) -> Reply:
    """Redis's name for GOBLIN.SNAPSHOT."""
    if [option.upper() for option in options] not in ([], [b"SCHEDULE"]):
        return errors.SYNTAX_ERROR.failure()
    return goblin_snapshot(node)


@family.node("GOBLIN.DIGEST")
def goblin_digest(node: NodeView) -> Reply:
    """Tell what this node holds as one number, to compare nodes with.

    Replies the index of the last entry that this node has applied, and the SHA-256 of its whole
    state: nodes that answer with the same index answer with the same digest. The node reads all
    that it holds for this and serves nobody meanwhile: some two seconds for each million keys.
    """
    return [node.status().applied_index, node.state_digest().encode()]


@family.node("LASTSAVE")
def lastsave(node: NodeView) -> Reply:
    """When this process last wrote a snapshot, in seconds of its wall clock; 0 if it has not."""
    return node.status().snapshot.saved_s


@family.node("INFO", repeated(string("section"), least=0))
def info(node: NodeView, sections: list[bytes]) -> Reply:
    """Tell about this node and its part in the cluster, as text in sections."""
    wanted = {word.decode("utf-8", "replace").lower() for word in sections} or {"default"}
    if wanted & {"all", "everything", "default"}:
        wanted |= set(_DEFAULT_SECTIONS)
    parts = []
    for section in _DEFAULT_SECTIONS:
        if section in wanted:
            lines = [f"# {section.capitalize() if section != 'cpu' else 'CPU'}"]
            lines += [f"{name}:{value}" for name, value in _SECTIONS[section](node)]
            parts.append("\r\n".join(lines) + "\r\n")
    return "\r\n".join(parts).encode()


Fields = list[tuple[str, object]]


def _server(node: NodeView) -> Fields:
    up_s = int(node.now_s() - node.metrics.started_s)
    return [
        ("goblin_raft_version", __version__),
        ("redis_version", REDIS_VERSION.decode()),
        ("redis_mode", "standalone"),
        ("os", sys.platform),
        ("arch_bits", 64),
        ("process_id", os.getpid()),
        ("tcp_port", node.config.resp_address.port),
        ("uptime_in_seconds", up_s),
        ("uptime_in_days", up_s // 86_400),
    ]


def _clients(node: NodeView) -> Fields:
    return [
        ("connected_clients", node.metrics.connections),
        ("maxclients", node.config.maxclients),
        ("blocked_clients", 0),
    ]


def _memory(node: NodeView) -> Fields:
    with open("/proc/self/statm", encoding="ascii") as file:
        resident = int(file.read().split()[1]) * resource.getpagesize()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return [
        ("used_memory", resident),
        ("used_memory_human", f"{resident / 1048576:.2f}M"),
        ("used_memory_rss", resident),
        ("used_memory_peak", peak),
        ("maxmemory", 0),
        ("maxmemory_policy", "noeviction"),
        ("mem_fragmentation_ratio", "1.00"),
    ]


def _persistence(node: NodeView) -> Fields:
    snapshot = node.status().snapshot
    return [
        ("loading", 0),
        ("aof_enabled", 1),
        ("rdb_bgsave_in_progress", int(snapshot.in_progress)),
        ("rdb_last_save_time", snapshot.saved_s),
        ("rdb_last_bgsave_status", "err" if snapshot.last_failed else "ok"),
        ("aof_rewrite_in_progress", 0),
    ]


def _stats(node: NodeView) -> Fields:
    metrics = node.metrics
    return [
        ("total_connections_received", metrics.connections_total),
        ("total_commands_processed", metrics.commands),
        ("total_net_input_bytes", metrics.input_bytes),
        ("total_net_output_bytes", metrics.output_bytes),
        ("rejected_connections", metrics.connections_rejected),
        ("expired_keys", node.expired_keys()),
        ("evicted_keys", 0),
        ("total_error_replies", sum(metrics.errors.values())),
        *[(f"errorstat_{code}", f"count={n}") for code, n in sorted(metrics.errors.items())],
    ]


def _replication(node: NodeView) -> Fields:
    # Every node takes writes, so each calls itself a master; raft_role says who leads.
    return [("role", "master"), ("connected_slaves", 0)]


def _cpu(node: NodeView) -> Fields:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return [("used_cpu_sys", f"{usage.ru_stime:.6f}"), ("used_cpu_user", f"{usage.ru_utime:.6f}")]


def _raft(node: NodeView) -> Fields:
    status = node.status()
    peers = [
        (
            f"raft_peer{number}",
            f"id={peer.node_id},raft={peer.raft_address},resp={peer.resp_address},"
            f"connected={int(peer.connected)},"
            f"match_index={'' if peer.match_index is None else peer.match_index}",
        )
        for number, peer in enumerate(status.peers)
    ]
    return [
        ("raft_role", status.role),
        ("raft_node_id", status.node_id),
        ("raft_cluster", status.cluster),
        ("raft_leader", status.leader_id or ""),
        ("raft_term", status.term),
        ("raft_commit_index", status.commit_index),
        ("raft_applied_index", status.applied_index),
        ("raft_last_log_index", status.last_log_index),
        ("raft_log_bytes", status.log_bytes),
        ("raft_log_first_index", status.log_first_index),
        ("raft_snapshot_index", status.snapshot.last_index),
        ("raft_snapshot_bytes", status.snapshot.bytes),
        ("raft_snapshot_loading", int(status.snapshot.loading)),
        ("raft_disk_bytes", status.disk_bytes),
        ("raft_clock_ms", status.clock_ms),
        ("raft_state", "up"),
        *peers,
    ]


def _cluster(node: NodeView) -> Fields:
    return [("cluster_enabled", 0)]


def _keyspace(node: NodeView) -> Fields:
    return [
        (f"db{number}", f"keys={keys},expires={expires},avg_ttl=0")
        for number, (keys, expires) in enumerate(node.keys_by_database())
        if keys
    ]


_SECTIONS = {
    "server": _server,
    "clients": _clients,
    "memory": _memory,
    "persistence": _persistence,
    "stats": _stats,
    "replication": _replication,
    "cpu": _cpu,
    "raft": _raft,
    "cluster": _cluster,
    "keyspace": _keyspace,
}
