"""The links between nodes as real ones: a network namespace for each node, with root on Linux.

The twin of proxy.py, and truer: packets are dropped by the kernel, so TCP's own retransmission,
timeouts and acknowledgements take part. Everything is made of a bridge, veth pairs and iptables,
reaches nothing outside of this machine, and is removed at the end.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterable

from chaos.needs import Missing, namespaces
from chaos.proxy import Address, Pair

# A network of our own; the third number keeps two runs on one machine apart.
NETWORK = "10.213.{run}.{host}"
HARNESS_HOST = 1
NODE_HOST = 10


class NetnsLinks:
    """All links of a cluster. See proxy.py for the same without root."""

    def __init__(self) -> None:
        namespaces()
        self._run = os.getpid() % 250
        self._bridge = f"chaos{self._run}"
        self._nodes: list[str] = []
        self._rules: dict[Pair, list[tuple[str, ...]]] = {}
        self._slow: set[str] = set()

    async def open(self, raft_ports: dict[str, int]) -> None:
        """Begin, for nodes of these ids."""
        self._nodes = list(raft_ports)
        await self._ip("link", "add", self._bridge, "type", "bridge")
        harness = NETWORK.format(run=self._run, host=HARNESS_HOST)
        await self._ip("addr", "add", f"{harness}/24", "dev", self._bridge)
        await self._ip("link", "set", self._bridge, "up")
        for node_id in self._nodes:
            space, outside = self._space(node_id), f"{self._bridge}{node_id}"
            await self._ip("netns", "add", space)
            await self._ip(
                "link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", space
            )
            await self._ip("link", "set", outside, "master", self._bridge, "up")
            await self._inside(node_id, "ip", "link", "set", "lo", "up")
            address = f"{self.host(node_id)}/24"
            await self._inside(node_id, "ip", "addr", "add", address, "dev", "eth0")
            await self._inside(node_id, "ip", "link", "set", "eth0", "up")

    def host(self, node_id: str) -> str:
        """Where a node listens."""
        return NETWORK.format(run=self._run, host=NODE_HOST + self._nodes.index(node_id))

    def address(self, source: str, target: str, port: int) -> Address:
        """Where `source` finds the raft port of `target`."""
        return self.host(target), port

    def wrap(self, node_id: str, command: list[str]) -> list[str]:
        """The command line that runs `command` as this node; `ip` replaces itself by it."""
        return ["ip", "netns", "exec", self._space(node_id), *command]

    async def cut(self, pairs: Iterable[Pair], *, reset: bool = False) -> None:
        """Packets on these links are dropped. `reset` is a proxy's word: here nobody can say it."""
        for source, target in pairs:
            await self._drop(source, target)

    async def shape(
        self, pairs: Iterable[Pair], *, delay_ms: float, jitter_ms: float, loss: float
    ) -> None:
        """These links are slow and lose packets. Delay is of the sender's whole interface."""
        for source, target in pairs:
            if loss:
                chance = ("-m", "statistic", "--mode", "random", "--probability", f"{loss:.3f}")
                await self._drop(source, target, *chance)
            if delay_ms:
                self._slow.add(source)
                wait = ("delay", f"{delay_ms:.0f}ms", f"{jitter_ms:.0f}ms")
                await self._inside(
                    source, "tc", "qdisc", "replace", "dev", "eth0", "root", "netem", *wait
                )

    async def heal(self, pairs: Iterable[Pair] | None = None) -> None:
        """These links, or all, are whole and fast."""
        for pair in list(self._rules) if pairs is None else pairs:
            for rule in self._rules.pop(pair, []):
                await self._inside(pair[1], "iptables", "-D", "INPUT", *rule)
            if pair[0] in self._slow:
                self._slow.discard(pair[0])
                await self._inside(pair[0], "tc", "qdisc", "del", "dev", "eth0", "root")

    async def close(self) -> None:
        """Remove all of it; the nodes have ended."""
        for node_id in self._nodes:
            # By name, because a namespace takes its interfaces along only some time after its end.
            await self._ip("link", "del", f"{self._bridge}{node_id}", checked=False)
            await self._ip("netns", "del", self._space(node_id), checked=False)
        await self._ip("link", "del", self._bridge, checked=False)

    def _space(self, node_id: str) -> str:
        return f"{self._bridge}-{node_id}"

    async def _drop(self, source: str, target: str, *when: str) -> None:
        rule = ("-s", self.host(source), *when, "-j", "DROP")
        self._rules.setdefault((source, target), []).append(rule)
        await self._inside(target, "iptables", "-A", "INPUT", *rule)

    async def _inside(self, node_id: str, *command: str, checked: bool = True) -> None:
        await self._ip("netns", "exec", self._space(node_id), *command, checked=checked)

    async def _ip(self, *words: str, checked: bool = True) -> None:
        process = await asyncio.create_subprocess_exec(
            "ip", *words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        _, errors = await process.communicate()
        if checked and process.returncode != 0:
            msg = f"`ip {' '.join(words)}` failed: {errors.decode().strip()}"
            raise Missing(msg)
