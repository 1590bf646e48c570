"""redis-py's own tests on a follower and on the leader; redis_py.py runs them by hand."""

from __future__ import annotations

import subprocess

import pytest

from tests.suites import redis_py
from tests.test_cluster import Cluster

pytestmark = pytest.mark.cluster

WITHIN_S = 400


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    try:
        redis_py.set_up()
    except subprocess.CalledProcessError as error:
        pytest.skip(f"redis-py's tests cannot be had: {error}")
    it = Cluster(tmp_path_factory.mktemp("cluster"))
    yield it
    it.stop()


def ports(cluster) -> tuple[int, int]:
    """Of the leader and of a follower."""
    leader = cluster.leader()
    follower = next(node for node in (1, 2, 3) if node != leader)
    return cluster.base + leader - 1, cluster.base + follower - 1


@pytest.mark.parametrize(
    ("files", "protocol", "on_leader"),
    [
        (redis_py.FILES, 2, False),
        (["test_pipeline", "test_encoding", "test_lock", "test_pubsub"], 3, True),
    ],
)
def test_what_fails_is_what_is_expected(cluster, files, protocol, on_leader):
    leader, follower = ports(cluster)
    outcomes = redis_py.run(leader if on_leader else follower, protocol, files, WITHIN_S)
    assert len(outcomes) > 100
    assert redis_py.differences(outcomes) == []
