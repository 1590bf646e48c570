"""Settings: each exists once, and a bad one is refused with a sentence."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from goblin_raft.config import (
    GROUPS,
    Address,
    BadSetting,
    Config,
    load,
    parse_address,
    render_config,
    unknown_variables,
)

FIELDS = dataclasses.fields(Config)


def test_defaults_are_a_store_of_one_node():
    config = Config()
    assert config.peer_addresses == {}
    assert config.resp_address == ("127.0.0.1", 7001)
    assert config.raft_address == ("127.0.0.1", 7101)


def test_a_flag_wins_over_its_variable_and_that_over_the_default():
    environ = {"GOBLIN_RAFT_HEARTBEAT_MS": "60", "GOBLIN_RAFT_NODE_ID": "n7"}
    config = load({"heartbeat_ms": "70"}, environ)
    assert (config.heartbeat_ms, config.node_id, config.leader_wait_ms) == (70, "n7", 1500)


def test_an_empty_variable_counts_as_not_set():
    assert load({}, {"GOBLIN_RAFT_HEARTBEAT_MS": "", "GOBLIN_RAFT_DIR": ""}) == Config()


def test_a_misspelt_variable_is_noticed():
    environ = {"GOBLIN_RAFT_HARTBEAT_MS": "60", "GOBLIN_RAFT_DIR": "x", "HOME": "y"}
    assert unknown_variables(environ) == ["GOBLIN_RAFT_HARTBEAT_MS"]


def test_the_own_entry_in_peers_is_ignored():
    config = Config(node_id="n2", peers="n1=a:1, n2=b:2,n3=[::1]:3,")
    assert config.peer_addresses == {"n1": Address("a", 1), "n3": Address("::1", 3)}


@pytest.mark.parametrize(
    "text", ["127.0.0.1:1", "[::1]:65535", "n1.example:7101", "[fe80::1%eth0]:9"]
)
def test_an_address_prints_as_it_was_read(text):
    assert str(parse_address("resp", text)) == text


@pytest.mark.parametrize(
    "text", ["", "7001", ":7001", "host:", "host:x", "host:-1", "::1:70", "a b:1", "[x]:1", "h:1:2"]
)
def test_what_is_no_address_is_refused(text):
    with pytest.raises(BadSetting, match="resp must be HOST:PORT"):
        Config(resp=text)


@pytest.mark.parametrize("text", ["abc", "1.5", "", " 5", "+5", "0x10", "9" * 19, "٣"])
def test_a_number_is_a_whole_number_in_plain_digits(text):
    with pytest.raises(BadSetting, match=r"^--heartbeat-ms must be a whole number"):
        load({"heartbeat_ms": text}, {})


def test_a_bad_variable_is_named_as_such():
    with pytest.raises(BadSetting, match=r"^GOBLIN_RAFT_MAXCLIENTS must be a whole number"):
        load({}, {"GOBLIN_RAFT_MAXCLIENTS": "many"})


@pytest.mark.parametrize(
    "item", [f for f in FIELDS if isinstance(f.default, int)], ids=lambda f: f.name
)
def test_a_number_outside_its_limits_is_refused(item):
    for value in (item.metadata["min"] - 1, item.metadata["max"] + 1):
        with pytest.raises(BadSetting, match=f"{item.name} is {value}, and it must lie between"):
            Config(**{item.name: value})


@pytest.mark.parametrize(
    "given, sentence",
    [
        ({"node_id": "a,b"}, "node_id must be 1 to 64 letters"),
        ({"node_id": ""}, "node_id must be 1 to 64 letters"),
        ({"cluster_name": "-x"}, "cluster_name must be 1 to 64 letters"),
        ({"log_level": "loud"}, "log_level must be one of debug, info"),
        ({"dir": ""}, "dir must name a directory"),
        ({"resp": "h:70000"}, "resp has port 70000"),
        ({"resp": "127.0.0.1:7101"}, "resp and raft are both 127.0.0.1:7101"),
        ({"peers": "n2"}, "peers must be a list of ID=HOST:PORT, and 'n2'"),
        ({"peers": "n2=h:1,n2=h:2"}, "names the node n2 twice"),
        ({"peers": "n2=h:1,n3=h:1"}, "n2 and n3 are both at h:1"),
        ({"peers": "n2=127.0.0.1:7101"}, "n1 and n2 are both at"),
        ({"peers": "n2=h:0"}, "node n2, needs a port other than 0"),
        ({"peers": "n2=h:1", "raft": "h:0"}, "raft needs a port other than 0"),
        ({"heartbeat_ms": 200}, "election_min_ms is 500, and it must be at least 601"),
        ({"election_max_ms": 500}, "election_max_ms is 500, and it must be at least 501"),
        ({"value_bytes_max": 2_097_152}, "entry_bytes_max is 4194304, and it must be at least"),
        ({"waiting_bytes_max": 4_000_000}, "waiting_bytes_max is 4000000, and it must be at least"),
        ({"heartbeat_ms": "50"}, "heartbeat_ms must be of type int"),
        ({"heartbeat_ms": True}, "heartbeat_ms must be of type int"),
    ],
)
def test_a_bad_setting_is_refused_with_one_sentence(given, sentence):
    with pytest.raises(BadSetting) as caught:
        Config(**given)
    text = str(caught.value)
    assert sentence in text
    assert text.endswith(".")
    assert "\n" not in text


@pytest.mark.parametrize("item", FIELDS, ids=lambda f: f.name)
def test_each_setting_says_what_it_is(item):
    meaning = item.metadata
    assert meaning["group"] in GROUPS
    assert meaning["help"].endswith(".")
    assert meaning["unit"]
    assert (meaning["min"] is None) == isinstance(item.default, str)


def test_config_page_is_current():
    page = Path(__file__).parent.parent / "docs" / "config.md"
    assert page.read_text() == render_config()
