"""INFO: a node in sections, under Redis's field names and our own; answered at once."""

from __future__ import annotations

import hashlib
import os
import platform
import resource
import struct

from goblin_raft import __version__
from goblin_raft.arguments import repeated, string
from goblin_raft.commands.connection import REDIS_VERSION
from goblin_raft.node_view import NodeView
from goblin_raft.reply import Reply, Verbatim
from goblin_raft.spec import Family

family = Family("server")

Fields = list[tuple[str, object]]


@family.node("INFO", repeated(string("section"), least=0))
def info(node: NodeView, sections: list[bytes]) -> Reply:
    """Tell about this node and its part in the cluster, as text in sections.

    Without a section, the usual ones; `all` or `everything` has commandstats as well.
    """
    wanted = {word.decode("utf-8", "replace").lower() for word in sections} or {"default"}
    if "default" in wanted:
        wanted |= set(SECTIONS) - NOT_BY_DEFAULT
    if wanted & {"all", "everything"}:
        wanted |= set(SECTIONS)
    parts = []
    for section, fields in SECTIONS.items():
        if section in wanted:
            # Exporters compare the headings, in just this case.
            lines = [f"# {'CPU' if section == 'cpu' else section.capitalize()}"]
            lines += [f"{name}:{value}" for name, value in fields(node)]
            parts.append("\r\n".join(lines) + "\r\n")
    return Verbatim("\r\n".join(parts).encode())


def _server(node: NodeView) -> Fields:
    up_s = max(0, int(node.now_s() - node.metrics.started_s))
    return [
        # redis-cli looks for redis_version after a line end, so it must not be the first line.
        ("goblin_raft_version", __version__),
        ("redis_version", REDIS_VERSION.decode()),
        ("redis_git_sha1", "00000000"),
        ("redis_git_dirty", 0),
        ("redis_build_id", "0"),
        ("redis_mode", "standalone"),
        ("os", f"{platform.system()} {platform.release()} {platform.machine()}"),
        ("arch_bits", 8 * struct.calcsize("P")),
        ("multiplexing_api", "epoll"),
        ("process_id", os.getpid()),
        ("run_id", node.metrics.run_id),
        ("tcp_port", node.config.resp_address.port),
        ("server_time_usec", int(node.now_s() * 1_000_000)),
        ("uptime_in_seconds", up_s),
        ("uptime_in_days", up_s // 86_400),
        ("hz", 10),
        ("executable", ""),
        ("config_file", ""),
    ]


def _clients(node: NodeView) -> Fields:
    return [
        ("connected_clients", node.metrics.connections),
        ("cluster_connections", 0),
        ("maxclients", node.changeable.maxclients),
        ("blocked_clients", 0),
        ("tracking_clients", 0),
    ]


def _memory(node: NodeView) -> Fields:
    with open("/proc/self/statm", encoding="ascii") as file:
        resident = int(file.read().split()[1]) * resource.getpagesize()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return [
        ("used_memory", resident),
        ("used_memory_human", _human(resident)),
        ("used_memory_rss", resident),
        ("used_memory_rss_human", _human(resident)),
        ("used_memory_peak", peak),
        ("used_memory_peak_human", _human(peak)),
        ("used_memory_lua", 0),
        ("maxmemory", 0),
        ("maxmemory_human", "0B"),
        ("maxmemory_policy", "noeviction"),
        ("mem_fragmentation_ratio", "1.00"),
        ("mem_allocator", "libc"),
    ]


def _human(size: int) -> str:
    return f"{size / 1_048_576:.2f}M"


def _persistence(node: NodeView) -> Fields:
    snapshot = node.status().snapshot
    return [
        ("loading", 0),
        ("rdb_changes_since_last_save", 0),
        ("rdb_bgsave_in_progress", int(snapshot.in_progress)),
        ("rdb_last_save_time", snapshot.saved_s),
        ("rdb_last_bgsave_status", "err" if snapshot.last_failed else "ok"),
        ("aof_enabled", 1),
        ("aof_rewrite_in_progress", 0),
        ("aof_rewrite_scheduled", 0),
        ("aof_last_bgrewrite_status", "ok"),
        ("aof_last_write_status", "ok"),
    ]


def _stats(node: NodeView) -> Fields:
    metrics = node.metrics
    commands, received, sent = metrics.rates.per_second or (0.0, 0.0, 0.0)
    return [
        ("total_connections_received", metrics.connections_total),
        ("total_commands_processed", metrics.commands),
        ("instantaneous_ops_per_sec", int(commands)),
        ("total_net_input_bytes", metrics.input_bytes),
        ("total_net_output_bytes", metrics.output_bytes),
        ("instantaneous_input_kbps", f"{received / 1024:.2f}"),
        ("instantaneous_output_kbps", f"{sent / 1024:.2f}"),
        ("rejected_connections", metrics.connections_rejected),
        ("expired_keys", node.expired_keys()),
        ("evicted_keys", 0),
        ("keyspace_hits", metrics.hits),
        ("keyspace_misses", metrics.misses),
        ("pubsub_channels", len(node.session.subscriber.hub.channels)),
        ("pubsub_patterns", len(node.session.subscriber.hub.patterns)),
        ("latest_fork_usec", 0),
        ("total_error_replies", sum(metrics.errors.values())),
    ]


def _replication(node: NodeView) -> Fields:
    """Every node takes writes, so each calls itself a master; raft_role says who leads.

    The leader lists its followers; an offset is a position in the log.
    """
    status = node.status()
    followers = status.followers()
    # The same on every node of a cluster, and another one for another cluster.
    history = hashlib.sha256(status.cluster.encode()).hexdigest()[:40]
    return [
        ("role", "master"),
        ("connected_slaves", len(followers)),
        *[
            (f"slave{n}", f"ip={host},port={port},state=online,offset={index},lag=0")
            for n, (host, port, index) in enumerate(followers)
        ],
        ("master_failover_state", "no-failover"),
        ("master_replid", history),
        ("master_replid2", "0" * 40),
        ("master_repl_offset", status.commit_index),
        ("second_repl_offset", -1),
        ("repl_backlog_active", 0),
        ("repl_backlog_size", 0),
        ("repl_backlog_first_byte_offset", 0),
        ("repl_backlog_histlen", 0),
    ]


def _cpu(node: NodeView) -> Fields:
    own = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return [
        ("used_cpu_sys", f"{own.ru_stime:.6f}"),
        ("used_cpu_user", f"{own.ru_utime:.6f}"),
        ("used_cpu_sys_children", f"{children.ru_stime:.6f}"),
        ("used_cpu_user_children", f"{children.ru_utime:.6f}"),
    ]


def _raft(node: NodeView) -> Fields:
    status = node.status()
    peers = [
        (
            f"raft_peer{number}",
            f"id={peer.node_id},raft={peer.raft_address},resp={peer.resp_address},"
            f"connected={int(peer.connected)},"
            f"match_index={'' if peer.match_index is None else peer.match_index},"
            f"voter={'' if peer.is_voter is None else int(peer.is_voter)},"
            f"lost_entries={peer.losses}",
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
        ("raft_state", status.state),
        ("raft_problem", status.problem),
        *peers,
    ]


def _modules(node: NodeView) -> Fields:
    return []


def _commandstats(node: NodeView) -> Fields:
    lines: Fields = []
    for name, count in sorted(node.metrics.commands_stats.items()):
        each_us = count.took_us / count.calls if count.calls else 0.0
        lines.append(
            (
                "cmdstat_" + name.lower().replace(" ", "|"),
                f"calls={count.calls},usec={count.took_us},usec_per_call={each_us:.2f},"
                f"rejected_calls={count.rejected},failed_calls={count.failed}",
            )
        )
    return lines


def _errorstats(node: NodeView) -> Fields:
    found = sorted(node.metrics.errors.items())
    return [(f"errorstat_{code}", f"count={count}") for code, count in found]


def _cluster(node: NodeView) -> Fields:
    return [("cluster_enabled", 0)]


def _keyspace(node: NodeView) -> Fields:
    return [
        (f"db{number}", f"keys={keys},expires={expires},avg_ttl=0")
        for number, (keys, expires) in enumerate(node.keys_by_database())
        if keys
    ]


SECTIONS = {
    "server": _server,
    "clients": _clients,
    "memory": _memory,
    "persistence": _persistence,
    "stats": _stats,
    "replication": _replication,
    "cpu": _cpu,
    "modules": _modules,
    "commandstats": _commandstats,
    "errorstats": _errorstats,
    "raft": _raft,
    "cluster": _cluster,
    "keyspace": _keyspace,
}
NOT_BY_DEFAULT = {"commandstats"}
