"""Every setting, once: name, unit, default, limits and meaning; it must not know who uses it.

A setting is a field of `Config`. The flag (`--heartbeat-ms`), the variable
(`GOBLIN_RAFT_HEARTBEAT_MS`), the checks and docs/config.md are all read from that field.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from goblin_raft.users import BadUsers, Users

VARIABLE_PREFIX = "GOBLIN_RAFT_"
# Not a setting of a node: how `goblin-raft status` logs in.
AUTH_VARIABLE = VARIABLE_PREFIX + "AUTH"

# A name goes into log lines, INFO fields and the peer list, where `,` `=` `:` and blanks separate.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
HOST = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,252})")
IPV6_HOST = re.compile(r"[0-9A-Fa-f:.]+(%[A-Za-z0-9_.-]+)?")
PORT_MAX = 65_535
LOG_LEVELS = ("debug", "info", "warning", "error")
GROUPS = {
    "node": "Who this node is and who the others are.",
    "time": "How long things may take. The election settings should be the same on every node.",
    "limits": "What one request and one node may use.",
}


class Address(NamedTuple):
    """A host and a port; `str()` gives back the HOST:PORT that it was read from."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


class BadSetting(Exception):
    """A setting that cannot be used; its text is one sentence for the operator."""


def setting(
    default: int | str,
    group: str,
    help: str,
    *,
    unit: str = "",
    least: int | None = None,
    most: int | None = None,
) -> Any:
    """Declare one setting. `Any`, as with dataclasses.field: the annotation gives the type."""
    meaning = {"group": group, "help": help, "unit": unit, "min": least, "max": most}
    return field(default=default, metadata=meaning)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The settings of one node. Constructing it checks them, so a `Config` is always usable."""

    node_id: str = setting("n1", "node", "Name of this node, unique in its cluster.", unit="name")
    cluster_name: str = setting(
        "goblin", "node", "Name of the cluster. Nodes of another cluster are refused.", unit="name"
    )
    resp: str = setting(
        "127.0.0.1:7001",
        "node",
        "Where clients connect (Redis protocol). Other nodes pass this address on to "
        "`goblin-raft status`, so use one that can be reached. Port 0 takes any free port.",
        unit="HOST:PORT",
    )
    raft: str = setting(
        "127.0.0.1:7101",
        "node",
        "Where the other nodes connect. There is no password on it: keep it on a private network.",
        unit="HOST:PORT",
    )
    peers: str = setting(
        "",
        "node",
        "The raft addresses of the other nodes. Every node must list the same members; its own "
        "entry may be in the list and is ignored. Empty: a store of one node.",
        unit="ID=HOST:PORT,...",
    )
    users: str = setting(
        "",
        "node",
        "Who may connect as a client; `sha256:` and 64 hexadecimal digits stand for a password. "
        "`AUTH PASSWORD` means the user `default`. Rather a variable than a flag, which every "
        "user of the machine can see. Empty: everybody may connect.",
        unit="NAME=PASSWORD,...",
    )
    dir: str = setting(
        "./goblin-raft-data",
        "node",
        "Directory for the log of this node. It is made when missing and belongs to one node.",
        unit="path",
    )
    log_level: str = setting(
        "info",
        "node",
        f"How much is logged on standard error: {', '.join(LOG_LEVELS)}.",
        unit="level",
    )

    heartbeat_ms: int = setting(
        50, "time", "How often the leader is heard when idle.", unit="ms", least=5, most=10_000
    )
    election_min_ms: int = setting(
        500,
        "time",
        "Shortest silence of the leader after which a node stands for election. More than three "
        "heartbeats, so that one lost heartbeat starts nothing.",
        unit="ms",
        least=50,
        most=60_000,
    )
    election_max_ms: int = setting(
        1_000,
        "time",
        "Longest such silence. It must be above election_min_ms: the spread keeps two nodes from "
        "standing at the same moment again and again.",
        unit="ms",
        least=51,
        most=120_000,
    )
    quorum_timeout_ms: int = setting(
        1_000,
        "time",
        "A leader that has not heard from a majority for so long steps down.",
        unit="ms",
        least=50,
        most=120_000,
    )
    leader_wait_ms: int = setting(
        1_500,
        "time",
        "How long a command waits for a leader before CLUSTERDOWN. 0 answers at once.",
        unit="ms",
        least=0,
        most=60_000,
    )
    commit_timeout_ms: int = setting(
        2_000,
        "time",
        "How long a proposed command waits for its outcome before UNCERTAIN.",
        unit="ms",
        least=100,
        most=600_000,
    )
    clock_rate_error_ppm: int = setting(
        500,
        "time",
        "How much the steady clocks of two nodes may differ in rate. Leases are kept longer by "
        "this much, never shorter.",
        unit="parts per million",
        least=0,
        most=100_000,
    )

    key_bytes_max: int = setting(
        65_536, "limits", "Longest key.", unit="bytes", least=16, most=16_777_216
    )
    value_bytes_max: int = setting(
        1_048_576, "limits", "Longest value.", unit="bytes", least=16, most=134_217_728
    )
    entry_bytes_max: int = setting(
        4_194_304,
        "limits",
        "Most bytes of commands in one log entry. It must hold one key and two values.",
        unit="bytes",
        least=1_024,
        most=536_870_912,
    )
    snapshot_log_bytes: int = setting(
        67_108_864,
        "limits",
        "Bytes of log entries after which a node writes a snapshot of its state and drops the log "
        "before it; the size of the last snapshot, if that is more.",
        unit="bytes",
        least=4_096,
        most=17_179_869_184,
    )
    waiting_bytes_max: int = setting(
        67_108_864,
        "limits",
        "Most bytes of commands that wait on this node. Beyond it the answer is TRYAGAIN.",
        unit="bytes",
        least=1_024,
        most=17_179_869_184,
    )
    maxclients: int = setting(
        10_000,
        "limits",
        "Most client connections at once.",
        unit="connections",
        least=1,
        most=10**6,
    )

    def __post_init__(self) -> None:
        for item in dataclasses.fields(self):
            check_kind_and_range(item, getattr(self, item.name))
        check_names(self)
        check_addresses(self)
        check_against_each_other(self)

    @property
    def resp_address(self) -> Address:
        """Where this node listens for clients."""
        return parse_address("resp", self.resp)

    @property
    def raft_address(self) -> Address:
        """Where this node listens for its peers."""
        return parse_address("raft", self.raft)

    @property
    def peer_addresses(self) -> dict[str, Address]:
        """The raft addresses of the other nodes by node id, without this node's own entry."""
        peers = parse_peers(self.peers)
        peers.pop(self.node_id, None)
        return peers


def flag_of(name: str) -> str:
    """The command line flag of a setting."""
    return "--" + name.replace("_", "-")


def variable_of(name: str) -> str:
    """The environment variable of a setting."""
    return VARIABLE_PREFIX + name.upper()


def load(flags: Mapping[str, str], environ: Mapping[str, str]) -> Config:
    """Make a Config: a flag wins over its variable, and that wins over the default.

    An empty variable counts as not set, because compose files write `${NAME:-}`.
    """
    given: dict[str, int | str] = {}
    for item in dataclasses.fields(Config):
        source, text = flag_of(item.name), flags.get(item.name)
        if text is None:
            source, text = variable_of(item.name), environ.get(variable_of(item.name)) or None
        if text is None:
            continue
        given[item.name] = text if isinstance(item.default, str) else parse_number(source, text)
    return Config(**given)  # type: ignore[arg-type]  # checked field by field in __post_init__


def unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """Variables with our prefix that are no setting: probably misspelt, so worth a warning."""
    known = {variable_of(item.name) for item in dataclasses.fields(Config)} | {AUTH_VARIABLE}
    return sorted(n for n in environ if n.startswith(VARIABLE_PREFIX) and n not in known)


def parse_number(source: str, text: str) -> int:
    """Read a whole number; `source` is the flag or variable that it came from."""
    if not re.fullmatch(r"-?[0-9]{1,18}", text):
        raise BadSetting(f"{source} must be a whole number, not {text!r}.")
    return int(text)


def parse_address(name: str, text: str) -> Address:
    """Read HOST:PORT, or [HOST]:PORT for an IPv6 address."""
    host, colon, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if bracketed:
        host = host[1:-1]
    shape = IPV6_HOST if bracketed else HOST
    if not colon or not shape.fullmatch(host) or not re.fullmatch(r"[0-9]{1,5}", port):
        raise BadSetting(f"{name} must be HOST:PORT, such as 127.0.0.1:7001, not {text!r}.")
    if int(port) > PORT_MAX:
        raise BadSetting(f"{name} has port {port}, and the highest port is {PORT_MAX}.")
    return Address(host, int(port))


def parse_peers(text: str) -> dict[str, Address]:
    """Read ID=HOST:PORT,ID=HOST:PORT,... into addresses by node id."""
    peers: dict[str, Address] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        node_id, equals, address = entry.partition("=")
        if not equals or not NAME.fullmatch(node_id):
            raise BadSetting(f"peers must be a list of ID=HOST:PORT, and {entry!r} is not that.")
        if node_id in peers:
            raise BadSetting(f"peers names the node {node_id} twice.")
        peers[node_id] = parse_address(f"peers, node {node_id},", address)
    return peers


def check_kind_and_range(item: dataclasses.Field[Any], value: object) -> None:
    """A number is a number and lies within its limits; a text is a text."""
    kind = type(item.default)
    if type(value) is not kind:
        raise BadSetting(f"{item.name} must be of type {kind.__name__}, not {value!r}.")
    if not isinstance(value, int):
        return
    least, most, unit = item.metadata["min"], item.metadata["max"], item.metadata["unit"]
    if not least <= value <= most:
        raise BadSetting(
            f"{item.name} is {value}, and it must lie between {least} and {most} ({unit})."
        )


def check_names(config: Config) -> None:
    """Names can stand in a list, a log line and an INFO field."""
    for name in ("node_id", "cluster_name"):
        value = getattr(config, name)
        if not NAME.fullmatch(value):
            raise BadSetting(
                f"{name} must be 1 to 64 letters, digits, '_', '.' or '-', starting with a letter "
                f"or digit, not {value!r}."
            )
    if config.log_level not in LOG_LEVELS:
        choices = ", ".join(LOG_LEVELS)
        raise BadSetting(f"log_level must be one of {choices}, not {config.log_level!r}.")
    if not config.dir or "\0" in config.dir:
        raise BadSetting("dir must name a directory.")
    try:
        Users(config.users)
    except BadUsers as error:
        raise BadSetting(str(error)) from None


def check_addresses(config: Config) -> None:
    """No two members share an address, and members can be reached."""
    resp, raft, peers = config.resp_address, config.raft_address, config.peer_addresses
    if resp == raft and resp.port:
        raise BadSetting(f"resp and raft are both {resp}, and they must differ.")
    if peers and not raft.port:
        raise BadSetting("raft needs a port other than 0 when there are peers.")
    members = {raft: config.node_id}
    for node_id, address in peers.items():
        if not address.port:
            raise BadSetting(f"peers, node {node_id}, needs a port other than 0.")
        if address in members:
            raise BadSetting(f"the nodes {members[address]} and {node_id} are both at {address}.")
        members[address] = node_id


def check_against_each_other(config: Config) -> None:
    """Settings that only make sense together."""
    rules = (
        ("election_min_ms", 3 * config.heartbeat_ms + 1, "more than three times heartbeat_ms"),
        ("election_max_ms", config.election_min_ms + 1, "above election_min_ms"),
        ("quorum_timeout_ms", 3 * config.heartbeat_ms, "three times heartbeat_ms"),
        (
            "entry_bytes_max",
            2 * config.value_bytes_max + config.key_bytes_max,
            "room for one key and two values",
        ),
        ("waiting_bytes_max", config.entry_bytes_max, "room for one log entry"),
    )
    for name, least, why in rules:
        if getattr(config, name) < least:
            value = getattr(config, name)
            raise BadSetting(f"{name} is {value}, and it must be at least {least} ({why}).")


def render_config() -> str:
    """docs/config.md, from the fields of Config."""
    lines = [
        "# Settings",
        "",
        "This page is generated from `goblin_raft/config.py` by `goblin-raft docs`.",
        "",
        "A setting can be given as a flag of `goblin-raft serve` or as an environment variable.",
        "The flag wins over the variable, and an empty variable counts as not set.",
        "A bad setting is refused with one sentence and exit code 2, before anything is opened.",
    ]
    for group, meaning in GROUPS.items():
        lines += ["", f"## {group.capitalize()}", "", meaning, ""]
        lines += ["| flag and variable | unit | default | limits | meaning |"]
        lines += ["|---|---|---|---|---|"]
        for item in dataclasses.fields(Config):
            if item.metadata["group"] == group:
                lines.append(render_row(item))
    return "\n".join(lines) + "\n"


def render_row(item: dataclasses.Field[Any]) -> str:
    """One setting as a row of the table; `|` separates the cells, so it is escaped."""
    least, most = item.metadata["min"], item.metadata["max"]
    cells = (
        f"`{flag_of(item.name)}` `{variable_of(item.name)}`",
        item.metadata["unit"],
        f"`{item.default}`" if item.default != "" else "empty",
        f"{least} to {most}" if least is not None else "",
        item.metadata["help"],
    )
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
