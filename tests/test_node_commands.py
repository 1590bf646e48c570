"""What a node answers by itself, as far as a story cannot show it: logins, clients, INFO, help."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import subprocess

import hiredis
import pytest

from goblin_raft.commands.info import SECTIONS
from goblin_raft.config import Config
from goblin_raft.node_view import NodeStatus, PeerStatus
from goblin_raft.reply import OK, Failure, Map, Verbatim
from goblin_raft.users import Users
from tests.socket_node import SocketNode, receive, receive_all, wait_until

PASSWORD = "correct-horse"
WRONGPASS = b"-WRONGPASS invalid username-password pair or user is disabled.\r\n"
NOAUTH = b"-NOAUTH Authentication required.\r\n"


def pack(*words):
    return hiredis.pack_command(words)


@pytest.fixture
def socket_node():
    with SocketNode() as started:
        yield started


@pytest.fixture
def locked():
    with SocketNode(users=f"default={PASSWORD},app=two") as started:
        yield started


def lines(node, *sections):
    reply = node.call("INFO", *sections)
    assert isinstance(reply, Verbatim)
    return reply.text.decode().split("\r\n")


# ---- who is there --------------------------------------------------------------------------------


def test_before_auth_only_what_leads_to_it_is_served(locked):
    wire = pack(b"GET", b"k") + pack(b"PING") + pack(b"INFO") + pack(b"SET", b"k", b"v")
    assert locked.exchange(wire) == NOAUTH * 4
    assert locked.engine.proposed == []
    assert locked.exchange(pack(b"RESET") + pack(b"QUIT")) == b"+RESET\r\n+OK\r\n"
    # As in Redis, what cannot be a command is said first.
    assert locked.exchange(pack(b"GET") + pack(b"NOSUCH")) == (
        b"-ERR wrong number of arguments for 'get' command\r\n"
        b"-ERR unknown command 'NOSUCH', with args beginning with: \r\n"
    )


def test_auth_is_true_for_what_follows_and_reset_ends_it(locked):
    wire = pack(b"AUTH", PASSWORD) + pack(b"SET", b"k", b"v") + pack(b"AUTH", b"nope")
    wire += pack(b"GET", b"k") + pack(b"RESET") + pack(b"GET", b"k")
    wire += pack(b"AUTH", b"app", b"two") + pack(b"ACL", b"WHOAMI")
    assert locked.exchange(wire) == (
        b"+OK\r\n+OK\r\n" + WRONGPASS + b"$1\r\nv\r\n+RESET\r\n" + NOAUTH + b"+OK\r\n$3\r\napp\r\n"
    )


def test_hello_logs_in_or_changes_nothing(locked):
    assert locked.exchange(pack(b"HELLO", b"3")).startswith(b"-NOAUTH HELLO must be called with")
    answer = locked.exchange(pack(b"HELLO", b"3", b"AUTH", b"app", b"one") + pack(b"GET", b"k"))
    assert answer == WRONGPASS + NOAUTH
    wire = pack(b"HELLO", b"3", b"SETNAME", b"me", b"AUTH", b"app", b"two") + pack(b"GET", b"k")
    answer = locked.exchange(wire + pack(b"CLIENT", b"GETNAME"))
    assert answer.startswith(b"%7\r\n")
    assert answer.endswith(b"_\r\n$2\r\nme\r\n")


def test_what_an_unknown_client_sends_is_bounded(locked):
    eleven = pack(b"AUTH", *[b"x"] * 10)
    large = pack(b"AUTH", b"x" * 16_385)
    refused = b"-ERR Protocol error: unauthenticated %b length\r\n"
    assert locked.exchange(eleven, half_close=False) == refused % b"multibulk"
    assert locked.exchange(large, half_close=False) == refused % b"bulk"
    # What came before is answered; and behind a wrong password the limit still holds.
    wire = pack(b"PING") + pack(b"AUTH", b"wrong") + eleven + pack(b"PING")
    assert locked.exchange(wire, half_close=False) == NOAUTH + WRONGPASS + refused % b"multibulk"


@pytest.mark.parametrize("cut", [None, 1, 40, 5000])
def test_a_large_request_right_behind_auth_is_served(locked, cut):
    wire = pack(b"AUTH", PASSWORD) + pack(b"SET", b"k", b"x" * 20_000)
    wire += pack(b"EXISTS", *[b"k"] * 11) + pack(b"STRLEN", b"k", b"k")
    chunks = [wire] if cut is None else [wire[i : i + cut] for i in range(0, len(wire), cut)]
    with locked.connect() as client:
        for chunk in chunks:
            client.sendall(chunk)
        assert receive(client, 15) == b"+OK\r\n+OK\r\n:11\r\n"


def test_the_right_password_without_a_need_for_one(node):
    assert node.call("AUTH", "x").text.startswith("ERR AUTH <password> called without any password")
    assert node.call("AUTH", "default", "anything") == OK
    assert node.call("AUTH", "app", "x").code == "WRONGPASS"


def test_no_password_is_ever_shown(node):
    config = Config(users=f"default={PASSWORD}")
    object.__setattr__(node.view, "config", config)
    object.__setattr__(node.view, "users", Users(config.users))
    for words in (["CONFIG", "GET", "*"], ["INFO", "everything"], ["ACL", "LIST"]):
        assert PASSWORD not in repr(node.call(*words))
    assert node.call("CONFIG", "GET", "users") == Map({})


# ---- CLIENT --------------------------------------------------------------------------------------


def fields_of(line):
    return dict(pair.partition("=")[::2] for pair in line.split(" "))


def test_client_list_shows_who_is_connected(socket_node):
    with socket_node.connect() as one, socket_node.connect() as two:
        one.sendall(pack(b"CLIENT", b"SETNAME", b"first") + pack(b"SELECT", b"3"))
        assert receive(one, 10) == b"+OK\r\n+OK\r\n"
        two.sendall(pack(b"HELLO", b"3") + pack(b"CLIENT", b"LIST") + pack(b"QUIT"))
        answer = receive_all(two).decode()
        listed = [fields_of(line) for line in re.findall(r"id=.*", answer)]
        assert [each["name"] for each in listed] == ["first", ""]
        assert (listed[0]["db"], listed[0]["cmd"], listed[0]["resp"]) == ("3", "select", "2")
        assert (listed[1]["cmd"], listed[1]["resp"]) == ("client|list", "3")
        assert listed[0]["addr"] == "{}:{}".format(*one.getsockname())
        assert listed[0]["laddr"] == "{}:{}".format(*socket_node.address)
        assert re.search(r"=\d+\r\ntxt:id=", answer)


def test_client_kill_ends_others_at_once_and_oneself_after_the_answer(socket_node):
    with socket_node.connect() as victim, socket_node.connect() as killer:
        victim.sendall(pack(b"CLIENT", b"ID"))
        number = victim.recv(100)[1:-2]
        killer.sendall(pack(b"CLIENT", b"KILL", b"ID", number))
        assert receive(killer, 4) == b":1\r\n"
        with contextlib.suppress(ConnectionResetError):
            assert victim.recv(100) == b""
        killer.sendall(pack(b"CLIENT", b"KILL", b"TYPE", b"normal"))
        assert receive(killer, 4) == b":0\r\n"
        killer.sendall(pack(b"CLIENT", b"KILL", b"TYPE", b"normal", b"SKIPME", b"no"))
        assert receive_all(killer) == b":1\r\n"
    wait_until(lambda: not socket_node.frontend.connections)


def test_client_kill_by_address(socket_node):
    with socket_node.connect() as victim, socket_node.connect() as killer:
        victim.sendall(b"PING\r\n")
        receive(victim, 7)
        address = "{}:{}".format(*victim.getsockname()).encode()
        killer.sendall(pack(b"CLIENT", b"KILL", address) + pack(b"CLIENT", b"KILL", address))
        # Closed is not gone: the second sees it leave, or not any more.
        assert receive(killer, 5) == b"+OK\r\n"
        wait_until(lambda: len(socket_node.frontend.connections) == 1)


# ---- CONFIG --------------------------------------------------------------------------------------


def test_maxclients_can_be_changed_while_the_node_runs(socket_node):
    with socket_node.connect() as first:
        first.sendall(pack(b"CONFIG", b"SET", b"maxclients", b"1"))
        assert receive(first, 5) == b"+OK\r\n"
        with socket_node.connect() as second:
            assert receive_all(second) == b"-ERR max number of clients reached\r\n"


def test_config_set_changes_all_or_nothing(node):
    reply = node.call("CONFIG", "SET", "slowlog-max-len", 5, "maxclients", "x")
    assert isinstance(reply, Failure)
    assert node.call("CONFIG", "GET", "slowlog-max-len") == Map({b"slowlog-max-len": b"128"})


def test_every_setting_but_the_secret_ones_can_be_read(node):
    shown = node.call("CONFIG", "GET", "*").items
    for item in dataclasses.fields(Config):
        name = item.name.replace("_", "-").encode()
        assert (name in shown) == (item.name != "users")
        if name in shown and name != b"databases":
            assert shown[name] == str(getattr(Config(), item.name)).encode()


# ---- INFO ----------------------------------------------------------------------------------------

# What clients and tools are known to read.
READ_BY_SOMEBODY = """
redis_version redis_mode os arch_bits tcp_port run_id process_id uptime_in_seconds uptime_in_days
connected_clients blocked_clients maxclients used_memory used_memory_human used_memory_rss
used_memory_peak maxmemory maxmemory_policy mem_fragmentation_ratio loading rdb_bgsave_in_progress
rdb_last_save_time rdb_last_bgsave_status aof_enabled aof_rewrite_in_progress
total_connections_received total_commands_processed instantaneous_ops_per_sec total_net_input_bytes
total_net_output_bytes instantaneous_input_kbps instantaneous_output_kbps rejected_connections
expired_keys evicted_keys keyspace_hits keyspace_misses total_error_replies pubsub_channels role
connected_slaves master_repl_offset master_replid used_cpu_sys used_cpu_user cluster_enabled
raft_role raft_node_id raft_leader raft_term raft_commit_index raft_applied_index raft_state
"""


def test_info_has_what_tools_read(node):
    names = {line.partition(":")[0] for line in lines(node)}
    assert set(READ_BY_SOMEBODY.split()) <= names


def test_the_sections_of_info_and_their_headings(node):
    headings = [line[2:] for line in lines(node, "all") if line.startswith("# ")]
    assert [heading.lower() for heading in headings] == list(SECTIONS)
    assert "CPU" in headings
    default = [line[2:].lower() for line in lines(node) if line.startswith("# ")]
    assert default == [name for name in SECTIONS if name != "commandstats"]
    assert [line for line in lines(node, "cpu", "CLUSTER") if line.startswith("# ")] == [
        "# CPU", "# Cluster",
    ]  # fmt: skip
    assert lines(node, "nosuch") == [""]
    # redis-cli looks for the version behind a line end.
    assert "\r\nredis_version:" in "\r\n".join(lines(node, "server"))


def test_info_counts_commands_and_errors(node):
    node.call("SET", "k", "v")
    node.call("GET", "k")
    node.call("GET", "nothing")
    node.call("GET")
    node.call("HGET", "k", "f")
    (get,) = (line for line in lines(node, "commandstats") if line.startswith("cmdstat_get:"))
    assert re.fullmatch(
        r"cmdstat_get:calls=2,usec=\d+,usec_per_call=\d+\.\d\d,rejected_calls=1,failed_calls=0", get
    )
    (hget,) = (line for line in lines(node, "commandstats") if line.startswith("cmdstat_hget:"))
    assert hget.endswith("rejected_calls=0,failed_calls=1")
    assert any(line.startswith("cmdstat_info:") for line in lines(node, "commandstats"))
    assert node.call("CONFIG", "RESETSTAT") == OK
    assert not any(line.startswith("cmdstat_get:") for line in lines(node, "commandstats"))


def test_errorstats_and_rates_through_a_socket(socket_node):
    socket_node.exchange(pack(b"GET") + pack(b"NOSUCH"))
    answer = socket_node.exchange(pack(b"INFO", b"errorstats") + pack(b"INFO", b"stats"))
    assert b"errorstat_ERR:count=2\r\n" in answer
    assert b"total_error_replies:2\r\n" in answer
    assert b"instantaneous_ops_per_sec:" in answer


def status_of_a_leader(**more):
    peers = tuple(
        PeerStatus(f"n{number}", f"h:{number}", f"10.0.0.{number}:7001", connected, match)
        for number, connected, match in ((2, True, 7), (3, True, 6), (4, False, 7), (5, True, 7))
    )
    return dataclasses.replace(
        NodeStatus("n1", "c", "leader", "n1", 1, 7, 7, 7, 0, 0, peers=peers), **more
    )


def test_the_leader_lists_its_followers_and_counts_who_holds_the_log(node):
    object.__setattr__(node.view, "status", status_of_a_leader)
    followers = [[b"10.0.0.2", b"7001", b"7"], [b"10.0.0.3", b"7001", b"6"]]
    followers.append([b"10.0.0.5", b"7001", b"7"])
    assert node.call("ROLE") == [b"master", 7, followers]
    assert "slave0:ip=10.0.0.2,port=7001,state=online,offset=7,lag=0" in lines(node, "replication")
    assert node.call("WAIT", 2, 0) == 3  # n4 has it, too, though it cannot be heard now
    object.__setattr__(node.view, "status", lambda: status_of_a_leader(role="follower"))
    assert node.call("ROLE") == [b"master", 7, []]


def test_a_follower_is_certain_of_a_majority(node):
    peers = tuple(PeerStatus(f"n{n}", "", "", True, None) for n in range(4))
    status = status_of_a_leader(role="follower", peers=peers)
    object.__setattr__(node.view, "status", lambda: status)
    assert node.call("WAIT", 1, 100) == 2  # of five nodes, three with this one
    assert node.call("WAITAOF", 1, 1, 0) == [1, 2]


# ---- SLOWLOG -------------------------------------------------------------------------------------


def test_slow_commands_are_kept_with_their_words_and_their_pipeline(socket_node):
    socket_node.engine.holding = True
    with socket_node.connect() as client:
        client.sendall(pack(b"CONFIG", b"SET", b"slowlog-log-slower-than", b"0"))
        assert receive(client, 5) == b"+OK\r\n"
        # In one segment: they are served together.
        client.sendall(pack(b"CLIENT", b"SETNAME", b"me") + pack(b"SET", b"k", b"x" * 200) * 3)
        wait_until(lambda: socket_node.engine.held)
        socket_node.call(socket_node.engine.release)
        assert receive(client, 20) == b"+OK\r\n" * 4
        client.sendall(pack(b"SLOWLOG", b"GET", b"-1"))
        answer = client.recv(65536)
        address = "{}:{}".format(*client.getsockname()).encode()
    assert b"$3\r\nSET\r\n$1\r\nk\r\n" in answer
    assert b"x" * 128 + b"... (72 more bytes)" in answer
    assert b"... (2 more commands)" in answer
    assert address in answer
    assert answer.endswith(b"$2\r\nme\r\n")


def test_an_entry_of_the_slow_log_shows_a_bounded_number_of_words(node):
    node.call("CONFIG", "SET", "slowlog-log-slower-than", 0)
    node.call("EXISTS", *range(50))
    ((_, _, _, words, _, _),) = node.call("SLOWLOG", "GET")
    assert len(words) == 32
    assert words[-1] == b"... (20 more arguments)"
    node.call("CONFIG", "SET", "slowlog-log-slower-than", -1)
    node.call("EXISTS", "k")
    assert node.call("SLOWLOG", "LEN") == 1


# ---- COMMAND -------------------------------------------------------------------------------------


def test_command_list_and_getkeys(node):
    names = node.call("COMMAND", "LIST")
    assert b"goblin.claim" in names
    assert len(names) == node.call("COMMAND", "COUNT") == len(node.call("COMMAND"))
    assert node.call("COMMAND", "LIST", "FILTERBY", "PATTERN", "GOBLIN.CL*") == [b"goblin.claim"]
    assert b"set" in node.call("COMMAND", "LIST", "FILTERBY", "ACLCAT", "STRING")
    assert node.call("ACL", "CAT", "string") == node.call(
        "COMMAND", "LIST", "FILTERBY", "ACLCAT", "string"
    )
    assert b"string" in node.call("ACL", "CAT")
    assert node.call("COMMAND", "LIST", "FILTERBY", "MODULE", "x") == []
    claim = ["goblin.claim", "a", "b", "token", 30]
    assert node.call("COMMAND", "GETKEYS", *claim) == [b"a", b"b"]
    assert node.call("COMMAND", "GETKEYS", "del", "a", "b", "c") == [b"a", b"b", b"c"]


def redis_cli(port, words, stdin=""):
    command = ["redis-cli", "-p", str(port), *words]
    done = subprocess.run(
        command, input=stdin, capture_output=True, text=True, timeout=20, check=False
    )
    assert done.returncode == 0, done.stderr
    return re.sub(r"\x1b\[\d*m", "", done.stdout)


def test_redis_cli_shows_help_for_our_commands(socket_node, redis_port):
    _, port = socket_node.address
    stdin = "help goblin.claim\nhelp @connection\nhelp @idempotency\n"
    shown = redis_cli(port, [], stdin)
    assert "GOBLIN.CLAIM claim_key result_key token seconds" in shown
    assert "summary: Claim" in shown
    assert "since: 0.1.0" in shown


def test_redis_cli_in_its_other_modes(socket_node, redis_port):
    _, port = socket_node.address
    for number in range(20):
        socket_node.exchange(pack(b"SET", b"k%d" % number, b"v"))
    pipe = "".join(f"SET pipe{n} v\r\n" for n in range(1000))
    assert "errors: 0, replies: 1000" in redis_cli(port, ["--pipe"], pipe)
    assert redis_cli(port, ["-3", "PING"]) == "PONG\n"
    assert redis_cli(port, ["-n", "7", "DBSIZE"]) == "0\n"
    assert "redis_version" in redis_cli(port, ["INFO", "server"])
    assert "cluster support disabled" in redis_cli(port, ["CLUSTER", "INFO"])
    assert "unknown command 'SENTINEL'" in redis_cli(port, ["SENTINEL", "MASTERS"])
