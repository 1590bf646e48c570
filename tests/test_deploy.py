"""docker-compose.yml: three nodes that differ in name only, and agree on their settings."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from goblin_raft.config import load, unknown_variables

CHECKOUT = Path(__file__).parent.parent
COMPOSE = CHECKOUT / "docker-compose.yml"


def services():
    return yaml.safe_load(COMPOSE.read_text())["services"]


def settings_of(service):
    # The one variable of the person who starts it; unset it is the default.
    return {k: v.replace("${GOBLIN_RAFT_LOG_LEVEL:-info}", "info") for k, v in service.items()}


def test_every_node_has_settings_that_are_accepted():
    configs = []
    for name, service in services().items():
        environment = settings_of(service["environment"])
        assert unknown_variables(environment) == []
        config = load({}, environment)
        assert config.node_id == name == service["hostname"]
        assert config.raft_address.host == name
        assert name not in config.peer_addresses
        assert len(config.peer_addresses) == 2
        configs.append(config)
    assert len(configs) == 3
    assert len({c.peers for c in configs}) == len({c.cluster_name for c in configs}) == 1


def test_every_node_keeps_its_data_and_shows_its_health():
    compose = yaml.safe_load(COMPOSE.read_text())
    for name, service in compose["services"].items():
        assert service["volumes"] == [f"{name}:/data"]
        assert name in compose["volumes"]
        assert service["environment"]["GOBLIN_RAFT_DIR"] == "/data"
        assert service["healthcheck"]["test"][-1] == service["environment"]["GOBLIN_RAFT_RESP"]


def test_the_image_is_built_from_files_that_are_there():
    for service in services().values():
        assert (CHECKOUT / service["build"]["dockerfile"]).is_file()
    lines = (CHECKOUT / "cluster" / "Dockerfile").read_text().splitlines()
    for line in lines:
        if line.startswith("COPY"):
            assert all((CHECKOUT / source).exists() for source in line.split()[1:-1])


def compose_tool():
    """The plugin of today, or the program of before, or nothing."""
    for words in (["docker", "compose"], ["docker-compose"]):
        if shutil.which(words[0]):
            done = subprocess.run([*words, "version"], capture_output=True)
            if done.returncode == 0:
                return words
    return None


def test_the_compose_tool_accepts_the_file():
    words = compose_tool()
    if words is None:
        pytest.skip("no docker compose here")
    done = subprocess.run(
        [*words, "-f", str(COMPOSE), "config", "--quiet"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
