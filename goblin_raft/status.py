"""`goblin-raft status`: asks one node for the cluster's members and each of them how it is.

It knows INFO's field names and nothing of how a node works; it only reads.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from goblin_raft.config import Address, BadSetting, parse_address
from goblin_raft.resp_client import RespClient, RespError, parse_info

WILDCARD_HOSTS = ("0.0.0.0", "::", "*")  # noqa: S104 recognised, not bound
HEADINGS = ("id", "resp", "role", "term", "commit", "applied", "log bytes", "lag")

Fields = dict[str, str]
# Asks the node at an address for INFO raft; raises OSError or RespError. A seam for tests.
Ask = Callable[[Address], Fields]


@dataclass(frozen=True, slots=True)
class NodeRow:
    """What is known of one node. `error` is empty when the node itself answered."""

    id: str
    resp: str
    raft: str = ""
    role: str = ""
    leader: str = ""
    state: str = ""
    term: int | None = None
    commit_index: int | None = None
    applied_index: int | None = None
    log_bytes: int | None = None
    lag: int | None = None
    error: str = ""

    @property
    def reachable(self) -> bool:
        return not self.error


def ask_node(address: Address, login: tuple[str, str] | None = None) -> Fields:
    """INFO raft of one node, as a dictionary."""
    with RespClient(address.host, address.port, login=login) as client:
        return parse_info(client.call("INFO", "raft"))


def collect(asked: Address, ask: Ask = ask_node) -> list[NodeRow]:
    """One row for each member, by id; the members are those which the asked node knows."""
    try:
        fields = ask(asked)
    except (OSError, RespError) as error:
        return [NodeRow(id="?", resp=str(asked), error=sentence(error))]
    rows = [row_of(fields, str(asked))]
    rows += [row_of_peer(peer, ask) for peer in peers_of(fields)]
    return with_lag(sorted(rows, key=lambda row: row.id))


def row_of_peer(peer: Fields, ask: Ask) -> NodeRow:
    """Ask one peer; without an answer the row says why and what the asked node knows of it."""
    node_id, raft = peer.get("id", "?"), peer.get("raft", "")
    unknown = NodeRow(id=node_id, resp="", raft=raft, error="its RESP address is not known")
    try:
        address = parse_address("resp", peer.get("resp", ""))
        raft_host = parse_address("raft", raft).host
    except BadSetting:
        return unknown
    # A node that listens everywhere announces no host; its peers do reach it at its raft host.
    if address.host in WILDCARD_HOSTS:
        address = Address(raft_host, address.port)
    try:
        return row_of(ask(address), str(address), raft=raft)
    except (OSError, RespError) as error:
        return NodeRow(id=node_id, resp=str(address), raft=raft, error=sentence(error))


def peers_of(fields: Fields) -> list[Fields]:
    """The raft_peerN lines, each `id=n2,raft=HOST:PORT,resp=HOST:PORT,...`, as dictionaries."""
    peers: list[Fields] = []
    while (line := fields.get(f"raft_peer{len(peers)}")) is not None:
        pairs = (part.partition("=") for part in line.split(","))
        peers.append({name: value for name, _, value in pairs})
    return peers


def row_of(fields: Fields, resp: str, raft: str = "") -> NodeRow:
    """What a node said of itself."""
    return NodeRow(
        id=fields.get("raft_node_id", "?"),
        resp=resp,
        raft=raft or fields.get("raft_address", ""),
        role=fields.get("raft_role", "?"),
        leader=fields.get("raft_leader", ""),
        state=fields.get("raft_state", "?"),
        term=number(fields.get("raft_term")),
        commit_index=number(fields.get("raft_commit_index")),
        applied_index=number(fields.get("raft_applied_index")),
        log_bytes=number(fields.get("raft_log_bytes")),
    )


def number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


def sentence(error: Exception) -> str:
    """The reason in a few words: a timeout of the system has no text of its own."""
    return str(getattr(error, "strerror", None) or error or "no answer in time")


def leader_of(rows: list[NodeRow]) -> str | None:
    """The leader's id: who says so in the highest term, else whom the others name.

    A leader that was cut off believes in itself for a while, hence the highest term. A leader may
    also be out of reach from here and still lead, hence the others.
    """
    leaders = [row for row in rows if row.role == "leader"]
    if leaders:
        return max(leaders, key=lambda row: row.term or 0).id
    named = [row for row in rows if row.reachable and row.leader]
    return max(named, key=lambda row: row.term or 0).leader if named else None


def with_lag(rows: list[NodeRow]) -> list[NodeRow]:
    """Fill in how many entries each node is behind the highest commit index seen."""
    commit = max((row.commit_index or 0 for row in rows), default=0)
    return [
        replace(row, lag=max(0, commit - row.applied_index))
        if row.applied_index is not None
        else row
        for row in rows
    ]


def render_table(rows: list[NodeRow]) -> str:
    """One line a node, numbers to the right; a node out of reach shows the reason."""
    cells = [HEADINGS, *(cells_of(row) for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(HEADINGS))]
    lines = []
    for line in cells:
        words = [
            cell.ljust(width) if column < 3 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        lines.append("  ".join(words).rstrip())
    lines += [f"{row.id} at {row.resp or '?'}: {row.error}" for row in rows if not row.reachable]
    leader = leader_of(rows)
    lines.append(f"leader: {leader}" if leader else "no leader")
    return "\n".join(lines)


def cells_of(row: NodeRow) -> tuple[str, ...]:
    role = row.role if row.reachable else "unreachable"
    if row.reachable and row.state != "up":
        role = f"{role} ({row.state})"
    numbers = (row.term, row.commit_index, row.applied_index, row.log_bytes, row.lag)
    return (row.id, row.resp or "?", role, *("-" if n is None else str(n) for n in numbers))


def render_json(asked: Address, rows: list[NodeRow]) -> str:
    """The same for programs; the names are those of NodeRow and stay."""
    nodes: list[dict[str, Any]] = [{**asdict(row), "reachable": row.reachable} for row in rows]
    answer = {"asked": str(asked), "leader": leader_of(rows), "nodes": nodes}
    return json.dumps(answer, indent=2)


def run(asked: Address, *, as_json: bool, ask: Ask = ask_node) -> int:
    """Print the status; the exit code is 0 if there is a leader, else 1."""
    rows = collect(asked, ask)
    print(render_json(asked, rows) if as_json else render_table(rows))
    return 0 if leader_of(rows) else 1
