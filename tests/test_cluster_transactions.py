"""Transactions, locks and messages on three real nodes, with redis-py, while leaders are killed."""

from __future__ import annotations

import contextlib
import signal
import threading
import time

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.test_cluster import Cluster

pytestmark = pytest.mark.cluster

NODES = (1, 2, 3)
NOT_EXECUTED = (redis.exceptions.ClusterDownError, redis.exceptions.TryAgainError)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    it = Cluster(tmp_path_factory.mktemp("cluster"))
    yield it
    it.stop()


@pytest.fixture
def clients(cluster):
    """A client for each node, which repeats nothing by itself."""
    found = {node: client_of(cluster, node) for node in NODES}
    cluster.wait_for(lambda: all(client.set("ready", "1") for client in found.values()))
    found[1].flushall()
    yield found
    for client in found.values():
        client.close()


def client_of(cluster, node, **how):
    port = cluster.base + node - 1
    return redis.Redis(
        port=port, retry=Retry(NoBackoff(), 0), socket_timeout=5, decode_responses=True, **how
    )


@contextlib.contextmanager
def running(stop, function, arguments):
    """A thread for each argument, until the end of the block, also when it fails."""
    threads = [threading.Thread(target=function, args=(each,)) for each in arguments]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_a_watch_holds_across_nodes(clients):
    for watcher in NODES:
        for other in NODES:
            with clients[watcher].pipeline(transaction=True) as pipe:
                pipe.watch("k")
                clients[other].set("k", "theirs")
                pipe.multi()
                pipe.set("k", "ours")
                with pytest.raises(redis.WatchError):
                    pipe.execute()
    assert [client.get("k") for client in clients.values()] == ["theirs"] * 3


def test_a_transaction_is_seen_as_a_whole_on_every_node(clients):
    stop = threading.Event()
    torn = []

    def look(client):
        while not stop.is_set():
            with client.pipeline(transaction=True) as pipe:
                one, two = pipe.get("a").get("b").execute()
            if one != two:
                torn.append((one, two))

    with running(stop, look, clients.values()):
        for number in range(150):
            with clients[number % 3 + 1].pipeline(transaction=True) as pipe:
                replies = pipe.set("a", number).get("b").set("b", number).execute()
                assert replies[::2] == [True, True]
    assert not torn


def test_counting_with_watch_is_exact_while_leaders_are_killed(cluster, clients):
    """Each node's client adds one by WATCH, GET, MULTI, SET, EXEC; nobody's addition is lost, and
    none counts twice."""
    clients[1].set("n", "0")
    stop, lock = threading.Event(), threading.Lock()
    counts = {"done": 0, "unknown": 0, "nil": 0}

    def count(name):
        with lock:
            counts[name] = counts.get(name, 0) + 1

    def add(node):
        client = client_of(cluster, node)
        while not stop.is_set():
            with client.pipeline(transaction=True) as pipe:
                executing = False
                try:
                    pipe.watch("n")
                    value = int(pipe.get("n"))
                    pipe.multi()
                    pipe.set("n", value + 1)
                    executing = True
                    pipe.execute()
                    count("done")
                except redis.WatchError as error:
                    # redis-py says so of a lost connection as well, and then it may have happened.
                    lost = executing and "occurred while watching" in str(error)
                    count("unknown" if lost else "nil")
                except NOT_EXECUTED:
                    pass
                except redis.ResponseError as error:
                    count("unknown" if str(error).startswith("UNCERTAIN") else str(error))
                except (redis.ConnectionError, redis.TimeoutError):
                    if executing:
                        count("unknown")
                    time.sleep(0.02)
        client.close()

    with running(stop, add, NODES):
        for _ in range(2):
            before = counts["done"]
            cluster.wait_for(lambda: counts["done"] > before + 60)  # noqa: B023
            leader = cluster.leader()
            cluster.kill(leader)
            cluster.restart(leader)
        before = counts["done"]
        cluster.wait_for(lambda: counts["done"] > before + 60)
    for node in NODES:
        assert (
            counts["done"]
            <= int(cluster.insist(node, "GET", "n"))
            <= (counts["done"] + counts["unknown"])
        ), counts
    assert counts["nil"] > 0, "they never raced"
    assert set(counts) == {"done", "unknown", "nil"}


@pytest.mark.parametrize("changed", [False, True])
def test_a_watch_survives_the_leader_and_sees_what_its_successor_takes(cluster, clients, changed):
    leader = cluster.leader()
    watcher, other = sorted(set(NODES) - {leader})
    clients[watcher].set("k", "before")
    with clients[watcher].pipeline(transaction=True) as pipe:
        pipe.watch("k")
        cluster.kill(leader)
        if changed:
            assert cluster.insist(other, "SET", "k", "theirs") == b"OK"
        else:
            assert cluster.insist(other, "SET", "other", "theirs") == b"OK"
        pipe.multi()
        pipe.set("k", "ours")
        if changed:
            with pytest.raises(redis.WatchError):
                pipe.execute()
        else:
            assert pipe.execute() == [True]
    cluster.restart(leader)
    for node in NODES:
        assert cluster.insist(node, "GET", "k") == (b"theirs" if changed else b"ours")


def test_transaction_of_redis_py(clients):
    clients[1].set("k", "1")

    def double(pipe):
        value = int(pipe.get("k"))
        if value < 4:  # somebody else is faster, twice
            clients[value % 3 + 1].set("k", value + 1)
        pipe.multi()
        pipe.set("k", value * 2).get("k")

    assert clients[2].transaction(double, "k") == [True, "8"]
    assert clients[3].get("k") == "8"


def test_the_lock_of_redis_py_on_every_node(clients):
    for owner in NODES:
        others = [clients[node] for node in NODES if node != owner]
        lock = clients[owner].lock("lock", timeout=10)
        assert lock.acquire(blocking=False)
        for client in others:
            assert not client.lock("lock", timeout=10).acquire(blocking=False)
        assert lock.owned()
        assert lock.extend(20)
        assert 20 < others[0].ttl("lock") <= 30
        assert lock.reacquire()
        assert others[1].ttl("lock") <= 10
        stranger = others[0].lock("lock", timeout=10)
        stranger.local.token = b"another"
        with pytest.raises(redis.exceptions.LockNotOwnedError):
            stranger.release()
        # What one node took another can release: the lock is the cluster's.
        elsewhere = others[0].lock("lock", timeout=10)
        elsewhere.local.token = lock.local.token
        elsewhere.release()
        assert not lock.owned()


def test_a_message_reaches_the_subscribers_of_all_nodes(clients):
    with contextlib.ExitStack() as stack:
        subscriptions = [
            stack.enter_context(client.pubsub(ignore_subscribe_messages=True))
            for client in clients.values()
        ]
        for subscription in subscriptions:
            subscription.subscribe("news")
            subscription.psubscribe("n*")
            assert subscription.get_message(timeout=5) is None
            assert subscription.get_message(timeout=5) is None
        for node, client in clients.items():
            assert client.publish("news", f"from {node}") == 2
            assert client.publish("nobody's", "x") == 1
        with clients[2].pipeline(transaction=True) as pipe:
            assert pipe.set("k", "v").publish("news", "from EXEC").execute() == [True, 2]
        expected = [
            item
            for text in ["from 1", "x", "from 2", "x", "from 3", "x", "from EXEC"]
            for item in ([("pmessage", text)] if text == "x" else
                         [("message", text), ("pmessage", text)])
        ]  # fmt: skip
        for subscription in subscriptions:
            messages = [subscription.get_message(timeout=5) for _ in expected]
            assert [(each["type"], each["data"]) for each in messages] == expected


def test_who_waits_for_a_result_is_woken_and_finds_it_on_any_node(clients):
    assert clients[1].execute_command("GOBLIN.CLAIM", "claim:9", "result:9", "one", 30) == "CLAIMED"
    assert clients[3].get("claim:9") == "one"  # it has applied that: no message will tell of it
    with clients[3].pubsub(ignore_subscribe_messages=True) as waiting:
        waiting.subscribe("__keyspace@0__:result:9", "__keyspace@0__:claim:9")
        for _ in range(2):
            waiting.get_message(timeout=5)
        assert clients[2].execute_command("GOBLIN.CLAIM", "claim:9", "result:9", "two", 30) is None
        clients[1].set("result:9", "done", ex=100)
        assert waiting.get_message(timeout=5)["data"] == "set"
        assert clients[2].get("result:9") == "done"
        assert waiting.get_message(timeout=5)["data"] == "expire"
        clients[2].delete("result:9")
        assert waiting.get_message(timeout=5)["data"] == "del"
        began_s = time.monotonic()
        clients[1].execute_command("GOBLIN.CAEXPIRE", "claim:9", "one", 400)
        assert waiting.get_message(timeout=5)["data"] == "expire"
        message = waiting.get_message(timeout=5)
        assert (message["channel"], message["data"]) == ("__keyspace@0__:claim:9", "expired")
        assert 0.4 <= time.monotonic() - began_s < 2
        assert clients[2].execute_command("GOBLIN.CLAIM", "claim:9", "result:9", "two", 30) == (
            "CLAIMED"
        )


def test_without_a_majority_the_whole_is_refused(cluster, clients):
    leader = cluster.leader()
    alone, *others = [*sorted(set(NODES) - {leader}), leader]
    client = clients[alone]
    client.set("k", "before")
    for node in others:
        cluster.kill(node, signal.SIGSTOP)
    try:
        with client.pipeline(transaction=True) as pipe:
            with pytest.raises(redis.ResponseError) as first:
                pipe.set("k", "one").set("l", "one").execute()
            assert isinstance(first.value, NOT_EXECUTED) or "UNCERTAIN" in str(first.value)
            with pytest.raises(NOT_EXECUTED):
                pipe.set("k", "two").set("l", "two").execute()
        with pytest.raises(NOT_EXECUTED):
            client.publish("news", "x")
    finally:
        for node in others:
            cluster.kill(node, signal.SIGCONT)
    cluster.wait_for(lambda: client.set("after", "1"))
    assert (client.get("k"), client.get("l")) in (("before", None), ("one", "one"))
