"""Random transactions on several connections, here and on a real redis-server: the same bytes."""

from __future__ import annotations

import random
import socket

import pytest

from tests.socket_node import SocketNode

DATA = """SET {} 1|SET {} v|GET {}|DEL {} {}|INCR {}|APPEND {} x|HSET {} f v|EXISTS {} {}|SETNX {} 1
EXPIRE {} 1000|PERSIST {}|RENAME {} {}|MSET {} 1 {} 2|GETDEL {}|EXPIRE {} 0|SET {} v NX|ZADD {} 1 m
HDEL {} f|TYPE {}|STRLEN {}|INCRBY {} x|COPY {} {}|GETSET {} v|UNLINK {}|TOUCH {}
PEXPIRE {} 99999999 XX|GETEX {} PERSIST|SETRANGE {} 0 abc""".replace("\n", "|").split("|")
TALK = """MULTI|MULTI|EXEC|EXEC|EXEC|WATCH {}|WATCH {} {}|WATCH {}|PING|ECHO {}|SELECT 1|SELECT 0
DISCARD""".replace("\n", "|").split("|")
RARE = """SELECT 99|EXEC x|MULTI x|DISCARD x|GET|CLIENT GETNAME|UNWATCH|WATCH|FLUSHALL
FLUSHDB|RESET""".replace("\n", "|").split("|")


class Raw:
    """A connection that gives replies as they were sent."""

    def __init__(self, address, protocol: int) -> None:
        self.socket = socket.create_connection(address, 5)
        self.stream = self.socket.makefile("rb")
        if protocol == 3:
            self.ask(b"HELLO", b"3")

    def ask(self, *words: bytes) -> bytes:
        frame = [b"*%d\r\n" % len(words), *(b"$%d\r\n%b\r\n" % (len(w), w) for w in words)]
        self.socket.sendall(b"".join(frame))
        return self.reply()

    def reply(self) -> bytes:
        line = self.stream.readline()
        assert line.endswith(b"\r\n"), line
        kind, rest = line[:1], line[1:-2]
        if kind in b"$=" and rest != b"-1":
            return line + self.stream.read(int(rest) + 2)
        if kind in b"*~>%" and rest != b"-1":
            count = int(rest) * (2 if kind == b"%" else 1)
            return line + b"".join(self.reply() for _ in range(count))
        return line

    def close(self) -> None:
        self.stream.close()
        self.socket.close()


@pytest.fixture
def node():
    with SocketNode() as running:
        yield running


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_the_same_bytes_come_back(node, redis_port, protocol, seed):
    rng = random.Random(seed)
    address = ("127.0.0.1", redis_port)
    pairs = [(Raw(node.address, protocol), Raw(address, protocol)) for _ in range(3)]
    assert pairs[0][1].ask(b"FLUSHALL") == b"+OK\r\n"
    aborted = executed = 0
    for number in range(1500):
        (lines,) = rng.choices([TALK, DATA, RARE], [50, 48, 2])
        line = rng.choice(lines).format(*[f"k{rng.randrange(4)}" for _ in range(2)])
        if line == "RESET" and protocol == 3:
            continue  # it would end the protocol
        which = rng.randrange(3)
        words = line.encode().split()
        ours, theirs = (connection.ask(*words) for connection in pairs[which])
        assert ours == theirs, (number, which, line)
        executed += line == "EXEC" and ours[:1] == b"*" and ours != b"*-1\r\n"
        aborted += line == "EXEC" and ours in (b"*-1\r\n", b"_\r\n")
    assert executed > 8
    assert aborted > 5
    for pair in pairs:
        for connection in pair:
            connection.close()
