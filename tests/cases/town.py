"""A cluster of real nodes behind proxies, for tests that are not written with asyncio.

The proxies live on an event loop in a thread of their own, so links carry bytes while a test waits.
"""

from __future__ import annotations

import asyncio
import random
import socket
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

from chaos.history import Operation
from chaos.nodes import Launch, Nodes
from chaos.proxy import ProxyLinks
from goblin_raft.config import Config
from goblin_raft.resp_client import RespClient, RespError

CALL_S = 6.0


class Town:
    """Three nodes, and what tests do to them."""

    def __init__(self, directory, **settings: Any) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.links = ProxyLinks(random.Random(1))
        self.nodes = Nodes(directory, 3, self.links, Launch(base=Config(**settings)))
        self.ids = self.nodes.ids
        self.began_s = time.monotonic()
        self.run(self._open())

    async def _open(self) -> None:
        await self.nodes.open()
        await asyncio.gather(*map(self.nodes.start, self.ids))
        assert await self.nodes.wait_until_all_serve(20) == []

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Do something on the loop of the nodes and links."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(60)

    def close(self) -> None:
        self.run(self.nodes.close())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(10)
        self.loop.close()

    # ---- clients -------------------------------------------------------------------------------

    def now_ms(self) -> float:
        return (time.monotonic() - self.began_s) * 1000

    def address(self, node: str) -> tuple[str, int]:
        return self.nodes.nodes[node].resp

    def client(self, node: str, timeout_s: float = CALL_S) -> RespClient:
        return RespClient(*self.address(node), timeout_s=timeout_s)

    def call(self, node: str, *words: Any, timeout_s: float = CALL_S) -> Any:
        """One command on a connection of its own; an error is an exception."""
        with self.client(node, timeout_s) as client:
            return client.call(*words)

    def told(self, node: str, *words: Any, timeout_s: float = CALL_S) -> Any:
        """The same; an error is an answer: its code, or "no answer"."""
        try:
            return self.call(node, *words, timeout_s=timeout_s)
        except RespError as error:
            return str(error).split(" ")[0]
        except OSError:
            return "no answer"

    def insist(self, node: str, *words: Any) -> Any:
        """Ask until the answer is not that it was certainly not executed."""

        def ask() -> list[Any]:
            answer = self.told(node, *words)
            return [] if answer in ("CLUSTERDOWN", "TRYAGAIN", "no answer") else [answer]

        return self.wait_for(ask)[0]

    def lose_the_reply(self, node: str, *words: Any) -> None:
        """Send a request and hang up; whoever did that cannot know what became of it."""
        frame = b"*%d\r\n" % len(words)
        for word in words:
            data = word if isinstance(word, bytes) else str(word).encode()
            frame += b"$%d\r\n%b\r\n" % (len(data), data)
        with socket.create_connection(self.address(node), 5) as connection:
            connection.sendall(frame)
            connection.shutdown(socket.SHUT_WR)

    def observe(self, process: int, node: str, op: str, key: str, *args: Any) -> Operation:
        """One operation for a history: get, or claim with result key, token and seconds."""
        words = ["GET", key] if op == "get" else ["GOBLIN.CLAIM", key, *args]
        start_ms = self.now_ms()
        answer = self.told(node, *words, timeout_s=2.0)
        end_ms = self.now_ms()
        if answer in ("CLUSTERDOWN", "TRYAGAIN"):
            return Operation(process, node, op, key, args, start_ms, end_ms, "fail", error=answer)
        if answer in ("UNCERTAIN", "no answer"):
            return Operation(process, node, op, key, args, start_ms, None, "unknown", error=answer)
        value = None if answer is None else answer.decode()
        if op == "claim" and value not in (None, "CLAIMED"):
            value = ["result", value]
        return Operation(process, node, op, key, args, start_ms, end_ms, "ok", value)

    # ---- nodes ---------------------------------------------------------------------------------

    def wait_for(self, condition: Callable[[], Any], within_s: float = 15) -> Any:
        give_up_s = time.monotonic() + within_s
        while time.monotonic() < give_up_s:
            found = condition()
            if found:
                return found
            time.sleep(0.01)
        raise AssertionError("the condition did not come true in time")

    def leader(self) -> str:
        return self.wait_for(lambda: self.run(self.nodes.leader()))

    def followers(self) -> list[str]:
        leader = self.leader()
        return [node for node in self.ids if node != leader]

    def term(self) -> int:
        infos = self.run(self.nodes.infos())
        return max(int(info["raft_term"]) for info in infos.values() if info)

    def kill(self, *nodes: str) -> None:
        for node in nodes:
            self.run(self.nodes.kill(node))

    def start(self, *nodes: str) -> None:
        for node in nodes:
            self.run(self.nodes.start(node))

    def pause(self, *nodes: str) -> None:
        for node in nodes:
            self.nodes.pause(node)

    def resume(self, *nodes: str) -> None:
        for node in nodes:
            self.nodes.resume(node)

    def isolate(self, node: str) -> None:
        """Cut off from its peers, not from its clients."""
        others = [other for other in self.ids if other != node]
        pairs = [(node, other) for other in others] + [(other, node) for other in others]
        self.run(self.links.cut(pairs))

    def heal(self) -> None:
        self.run(self.links.heal())

    def same_state(self) -> bool:
        """Whether all nodes hold the same at the same index."""
        digests = [self.told(node, "GOBLIN.DIGEST") for node in self.ids]
        return all(digest == digests[0] for digest in digests) and isinstance(digests[0], list)
