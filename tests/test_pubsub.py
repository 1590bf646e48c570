"""Messages and events: who gets them, how they look, and that a slow reader holds nobody up."""

from __future__ import annotations

import contextlib
import random
import socket

import hiredis
import pytest

from goblin_raft import messages, resp_frontend
from goblin_raft.commands import TABLE, UNNAMED
from goblin_raft.notifications import EVENTS, EVENTS_OF_GONE, MAY_EXPIRE
from goblin_raft.pubsub import Hub, Subscriber
from goblin_raft.spec import Verb
from tests.conftest import Connection
from tests.socket_node import SocketNode, wait_until


@pytest.fixture
def node():
    with SocketNode() as running:
        yield running


class Client:
    """Sends requests and takes whatever comes, as a list of replies."""

    def __init__(self, sock, *, resp3=False):
        self.socket = sock
        self.reader = hiredis.Reader()
        if resp3:
            self.ask(b"HELLO 3")

    def send(self, line):
        words = line.split()
        frame = b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(w), w) for w in words)
        self.socket.sendall(frame)

    def take(self):
        while (reply := self.reader.gets()) is False:
            data = self.socket.recv(65536)
            assert data, "the connection ended"
            self.reader.feed(data)
        return reply

    def ask(self, line):
        self.send(line)
        return self.take()


@contextlib.contextmanager
def client(node, **how):
    with node.connect() as sock:
        yield Client(sock, **how)


# ---- the hub -------------------------------------------------------------------------------------


def test_a_message_reaches_channels_first_and_then_patterns():
    hub, got = Hub(), []
    one = Subscriber(hub, lambda push: got.append(("one", push.items)))
    two = Subscriber(hub, lambda push: got.append(("two", push.items)))
    assert [two.psubscribe(b"a*"), one.subscribe(b"ab"), two.subscribe(b"ab")] == [1, 1, 2]
    assert hub.publish(b"ab", b"m") == 3
    assert hub.publish(b"b", b"m") == 0
    assert got == [
        ("one", [b"message", b"ab", b"m"]),
        ("two", [b"message", b"ab", b"m"]),
        ("two", [b"pmessage", b"a*", b"ab", b"m"]),
    ]
    for subscriber in (one, two):
        subscriber.leave()
    assert hub.publish(b"ab", b"m") == 0
    assert (hub.channels, hub.patterns) == ({}, {})


def test_subscribing_twice_is_subscribing_once():
    hub, got = Hub(), []
    subscriber = Subscriber(hub, got.append)
    assert [subscriber.subscribe(b"a"), subscriber.subscribe(b"a")] == [1, 1]
    assert hub.publish(b"a", b"m") == 1
    assert [subscriber.unsubscribe(b"a"), subscriber.unsubscribe(b"a")] == [0, 0]


@pytest.mark.parametrize(
    "kind, name, wants",
    [
        ("subscribe", b"__keyspace@0__:k", True),
        ("subscribe", b"news", False),
        ("psubscribe", b"*", True),
        ("psubscribe", b"__key*", True),
        ("psubscribe", b"[_]_key*", True),
        ("psubscribe", b"n*", False),
    ],
)
def test_changes_are_looked_for_only_while_somebody_listens(kind, name, wants):
    hub = Hub()
    subscriber = Subscriber(hub, lambda push: None)
    getattr(subscriber, kind)(name)
    assert hub.wants_changes == wants
    getattr(subscriber, kind.replace("sub", "unsub"))(name)
    assert not hub.wants_changes


# ---- connections ---------------------------------------------------------------------------------


def test_resp2_has_arrays_and_few_commands_meanwhile(node):
    with client(node) as listener, client(node) as other:
        listener.send(b"SUBSCRIBE a b")
        assert listener.take() == [b"subscribe", b"a", 1]
        assert listener.take() == [b"subscribe", b"b", 2]
        assert listener.ask(b"PSUBSCRIBE c*") == [b"psubscribe", b"c*", 3]
        assert other.ask(b"PUBLISH a hello") == 1
        assert listener.take() == [b"message", b"a", b"hello"]
        assert other.ask(b"PUBLISH cd hello") == 1
        assert listener.take() == [b"pmessage", b"c*", b"cd", b"hello"]
        assert "only (P|S)SUBSCRIBE" in str(listener.ask(b"GET a"))
        assert "only (P|S)SUBSCRIBE" in str(listener.ask(b"MULTI"))
        assert "wrong number" in str(listener.ask(b"GET"))
        assert listener.ask(b"PING") == [b"pong", b""]
        assert listener.ask(b"PING x") == [b"pong", b"x"]
        listener.send(b"UNSUBSCRIBE")
        assert [listener.take(), listener.take()] == [
            [b"unsubscribe", b"a", 2],
            [b"unsubscribe", b"b", 1],
        ]
        assert listener.ask(b"UNSUBSCRIBE") == [b"unsubscribe", None, 1]
        assert listener.ask(b"PUNSUBSCRIBE c*") == [b"punsubscribe", b"c*", 0]
        assert listener.ask(b"PING") == b"PONG"


def test_resp3_has_pushes_and_all_commands_meanwhile(node):
    with node.connect() as sock, client(node) as other:
        listener = Client(sock, resp3=True)
        listener.send(b"SUBSCRIBE a")
        push = listener.take()
        assert type(push).__name__ == "PushNotification"
        assert push == [b"subscribe", b"a", 1]
        assert listener.ask(b"SET k v") == b"OK"
        assert other.ask(b"PUBLISH a hello") == 1
        assert listener.take() == [b"message", b"a", b"hello"]
        assert listener.ask(b"PUBLISH a own") == 1
        assert listener.take() == [b"message", b"a", b"own"]


def test_reset_and_leaving_end_subscriptions(node):
    with client(node) as listener, client(node) as other:
        listener.ask(b"SUBSCRIBE a")
        assert other.ask(b"PUBSUB CHANNELS") == [b"a"]
        assert b"psub=0" in other.ask(b"CLIENT LIST TYPE pubsub")
        assert b"flags=P" in other.ask(b"CLIENT LIST TYPE pubsub")
        assert listener.ask(b"RESET") == b"RESET"
        assert other.ask(b"PUBSUB NUMSUB a") == [b"a", 0]
        listener.ask(b"PSUBSCRIBE a")
        assert other.ask(b"PUBSUB NUMPAT") == 1
    wait_until(lambda: not node.frontend.hub.patterns)


def test_a_message_inside_a_transaction_is_sent_when_it_is_executed(node):
    with client(node) as listener, client(node) as other:
        listener.ask(b"SUBSCRIBE a")
        for line in (b"MULTI", b"SET k v", b"PUBLISH a one", b"DISCARD"):
            other.ask(line)
        for line in (b"MULTI", b"PUBLISH a two", b"SUBSCRIBE x"):
            last = other.ask(line)
        assert "not allowed inside a transaction" in str(last)
        assert "EXECABORT" in str(other.ask(b"EXEC"))
        for line in (b"MULTI", b"SET k v", b"PUBLISH a three"):
            other.ask(line)
        assert other.ask(b"EXEC") == [b"OK", 1]
        assert listener.take() == [b"message", b"a", b"three"]


def test_who_does_not_read_is_disconnected_and_holds_nobody_up(node, monkeypatch):
    monkeypatch.setattr(messages, "UNREAD_BYTES_MAX", 4_000_000)
    message = b"x" * 200_000
    with client(node) as slow, client(node) as quick, client(node) as other:
        slow.ask(b"SUBSCRIBE a")
        quick.ask(b"SUBSCRIBE a")
        for _ in range(200):
            if other.ask(b"PUBLISH a " + message) == 1:
                break
            assert quick.take() == [b"message", b"a", message]
        else:
            pytest.fail("it is still connected")
        assert quick.take() == [b"message", b"a", message]
        with contextlib.suppress(AssertionError, ConnectionError):  # what was under way still comes
            for _ in range(1000):
                assert slow.take() == [b"message", b"a", message]
            pytest.fail("it never ends")


def test_who_reads_too_little_for_too_long_is_disconnected(node, monkeypatch):
    monkeypatch.setattr(messages, "SLOW_BYTES", 100_000)
    monkeypatch.setattr(messages, "SLOW_S", 0.05)
    message = b"x" * 200_000
    with client(node) as slow, client(node) as other:
        slow.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.ask(b"SUBSCRIBE a")
        wait_until(lambda: other.ask(b"PUBLISH a " + message) == 0)


def test_a_message_does_not_come_in_the_middle_of_a_reply(node, monkeypatch):
    """The replies to a pipeline wait for a reader that is slow; messages wait with them."""
    monkeypatch.setattr(resp_frontend, "OUTPUT_BYTES_HIGH", 100_000)
    with node.connect() as sock, client(node) as other:
        listener = Client(sock, resp3=True)
        listener.ask(b"SUBSCRIBE a")
        assert listener.ask(b"SET k " + b"x" * 200_000) == b"OK"
        listener.send(b"MGET" + b" k" * 100)
        for number in range(50):
            assert other.ask(b"PUBLISH a m%d" % number) == 1
        replies = [listener.take() for _ in range(51)]
        (values,) = [reply for reply in replies if len(reply) == 100]
        messages = [reply[2] for reply in replies if len(reply) == 3]
        assert values == [b"x" * 200_000] * 100
        assert messages == [b"m%d" % number for number in range(50)]


# ---- changes of keys -----------------------------------------------------------------------------


def test_set_del_and_expired_reach_who_waits(node):
    with client(node) as waiter, client(node) as other:
        waiter.send(b"SUBSCRIBE __keyspace@0__:k __keyevent@0__:expired")
        waiter.take()
        waiter.take()
        other.ask(b"SET k v PX 500")
        assert waiter.take()[2] == b"set"
        assert waiter.take()[2] == b"expire"
        node.pass_time(500)
        node.call(node.engine.tick)
        assert waiter.take() == [b"message", b"__keyspace@0__:k", b"expired"]
        assert waiter.take() == [b"message", b"__keyevent@0__:expired", b"k"]
        other.ask(b"GOBLIN.CLAIM k r t 1")
        assert [waiter.take()[2], waiter.take()[2]] == [b"set", b"expire"]
        node.pass_time(1000)
        assert other.ask(b"GOBLIN.CLAIM k r t 1") == b"CLAIMED"  # over, and not removed before
        assert [waiter.take()[2] for _ in range(4)] == [b"expired", b"k", b"set", b"expire"]
        other.ask(b"GOBLIN.CAD k t")
        assert waiter.take()[2] == b"del"
        other.ask(b"SELECT 1")
        other.ask(b"SET k v")
        other.ask(b"SELECT 0")
        other.ask(b"MSET k v l v")
        assert waiter.take() == [b"message", b"__keyspace@0__:k", b"set"]


def test_events_cannot_be_switched_off_and_who_switches_them_on_is_content(node):
    with client(node) as admin:
        assert admin.ask(b"CONFIG GET notify-keyspace-events") == [
            b"notify-keyspace-events",
            b"AKE",
        ]
        assert admin.ask(b"CONFIG SET notify-keyspace-events Ex") == b"OK"
        assert "immutable" in str(admin.ask(b"CONFIG SET notify-keyspace-events Em"))


def test_every_event_belongs_to_a_command_that_writes():
    declared = [*TABLE.values(), *UNNAMED.values()]
    writes = {command.name for command in declared if command.verb is Verb.WRITE}
    assert set(EVENTS) | set(EVENTS_OF_GONE) | MAY_EXPIRE <= writes


LINES = """SET k{} v|SET k{} v EX 100|SET k{} v KEEPTTL|SETEX k{} 50 v|DEL k{} k{}|UNLINK k{}
EXPIRE k{} 100|EXPIRE k{} -1|PERSIST k{}|SETNX k{} v|MSET k{} a k{} b|APPEND k{} x|INCR n{}
INCRBY n{} 2|DECR n{}|HSET h{} f v|HDEL h{} f|ZADD z{} 1 m|ZREM z{} m|RENAME k{} k{}|GETDEL k{}
GETEX k{} EX 100|GETEX k{} PERSIST|COPY k{} k{} REPLACE|SETRANGE k{} 1 x|HINCRBY g{} f 1
PEXPIREAT k{} 99999999999999|ZADD y{} 1 m 2 n|ZPOPMIN y{}|ZINCRBY y{} 1 m|GETSET k{} v
MULTI|EXEC|MSETNX k{} v k{} v|INCRBYFLOAT f{} 0.5|FLUSHDB""".replace("\n", "|").split("|")


@pytest.mark.parametrize("seed", range(3))
def test_events_are_those_of_a_real_redis(node, redis_port, seed):
    rng = random.Random(seed)
    redis, listening = Connection(redis_port), Connection(redis_port)
    for words in ("FLUSHALL", "CONFIG SET notify-keyspace-events AKE"):
        assert redis.ask(*words.encode().split()) == "OK"
    listening.ask(b"PSUBSCRIBE", b"__key*__:*")
    theirs = Client(listening.socket)
    with client(node) as ours, client(node) as other:
        ours.ask(b"PSUBSCRIBE __key*__:*")
        for number in range(300):
            line = rng.choice(LINES)
            line = line.format(*rng.sample(range(3), line.count("{}"))).encode()
            end = b"end-%d" % number
            for request in (line, b"SET " + end + b" 1"):
                other.ask(request)
                redis.ask(*request.split())
            if line != b"MULTI":
                for request in (b"EXEC", b"SET " + end + b" 2"):
                    other.ask(request)
                    redis.ask(*request.split())
                assert events_until(end, ours) == events_until(end, theirs), line
    redis.ask(b"CONFIG", b"SET", b"notify-keyspace-events", b"")
    redis.close()
    listening.close()


def events_until(end, connection):
    events = []
    while events[-1:] != [[b"__keyevent@0__:set", end]]:
        events.append(connection.take()[2:])
    return events
