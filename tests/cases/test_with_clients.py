"""Cases about what client libraries do by themselves, each named after its row in docs/cases.md."""

from __future__ import annotations

import socket
import threading

import pytest
import redis
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as LostConnection
from redis.exceptions import TimeoutError as NoAnswer
from redis.retry import Retry

from tests.socket_node import SocketNode


class Door:
    """Stands before a node, lets requests in, and shuts before some of the replies come out."""

    def __init__(self, target: tuple[str, int]) -> None:
        self.target = target
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.losing = 0  # how many replies to lose
        self.silent = False  # let none out, and stay open
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._pass, args=(client,), daemon=True).start()

    def _pass(self, client: socket.socket) -> None:
        with client, socket.create_connection(self.target) as node:
            while data := client.recv(65536):
                node.sendall(data)
                reply = node.recv(65536)
                if self.silent:
                    continue
                if self.losing and b"CLAIM" in data.upper():
                    self.losing -= 1
                    return
                client.sendall(reply)

    def close(self) -> None:
        self.listener.close()


@pytest.fixture
def door():
    with SocketNode() as node:
        it = Door(node.address)
        yield it
        it.close()


def test_c02_a_client_that_retries_by_itself_is_told_nil_about_its_own_claim(door):
    """The request went through, its answer was lost, and the library sent it again: nil, while the
    key holds the caller's own token. So who uses such a client looks at the claim key."""
    with redis.Redis(port=door.port, retry=Retry(NoBackoff(), 3)) as client:
        client.ping()
        for number in range(20):
            door.losing = number % 2
            told = client.execute_command("GOBLIN.CLAIM", f"k{number}", "r", f"t{number}", 30)
            assert told == (None if number % 2 else b"CLAIMED")
            assert client.get(f"k{number}") == f"t{number}".encode()


def test_c02_without_retries_a_lost_answer_is_an_error(door):
    with redis.Redis(port=door.port, retry=Retry(NoBackoff(), 0)) as client:
        client.ping()
        door.losing = 1
        with pytest.raises(LostConnection):
            client.execute_command("GOBLIN.CLAIM", "k", "r", "t", 30)
        assert client.get("k") == b"t"


def test_c04_no_answer_in_time_does_not_look_like_nil(door):
    with redis.Redis(port=door.port, socket_timeout=0.2, retry=Retry(NoBackoff(), 0)) as client:
        client.ping()
        door.silent = True
        with pytest.raises(NoAnswer):
            client.execute_command("GOBLIN.CLAIM", "k", "r", "t", 30)


@pytest.mark.parametrize("decode", [False, True])
@pytest.mark.parametrize("token", ["worker", "wörker", "", "x" * 1024])
def test_c13_tokens_with_and_without_decoding(door, decode, token):
    with redis.Redis(port=door.port, decode_responses=decode) as client:
        assert client.execute_command("GOBLIN.CLAIM", "k", "r", token, 30)
        assert client.execute_command("GOBLIN.CAEXPIRE", "k", token, 60_000) == 1
        assert client.get("k") == (token if decode else token.encode())
        assert client.execute_command("GOBLIN.CAD", "k", token) == 1
