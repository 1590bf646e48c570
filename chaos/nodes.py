"""Real node processes: started, killed, paused, wiped and asked how they are.

Knows what a node is to its operator (a command line, a directory, INFO) and nothing of consensus.
A process that ends by itself is noticed: only the fault that expects it may have caused it.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import shutil
import signal
import socket
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from chaos.client import Client
from chaos.preload import Control
from chaos.proxy import Address, Pair
from goblin_raft.config import Config
from goblin_raft.local_cluster import NodePlan, die_with_parent
from goblin_raft.resp_client import parse_info

STOP_BOUND_S = 10.0
ASK_TIMEOUT_S = 0.5
POLL_S = 0.05


class Links(Protocol):
    """How nodes reach one another: proxy.py or netns.py."""

    async def open(self, raft_ports: dict[str, int]) -> None: ...
    def host(self, node_id: str) -> str: ...
    def address(self, source: str, target: str, port: int) -> Address: ...
    def wrap(self, node_id: str, command: list[str]) -> list[str]: ...
    async def cut(self, pairs: list[Pair], *, reset: bool = False) -> None: ...
    async def shape(
        self, pairs: list[Pair], *, delay_ms: float, jitter_ms: float, loss: float
    ) -> None: ...
    async def heal(self, pairs: list[Pair] | None = None) -> None: ...
    async def close(self) -> None: ...


@dataclass(slots=True)
class Node:
    """One node and its process."""

    node_id: str
    resp: Address
    directory: Path
    command: list[str]
    process: asyncio.subprocess.Process | None = None
    paused: bool = False
    stopped: asyncio.subprocess.Process | None = None  # ended by us, whatever its exit code is
    control: Control | None = None
    exits: list[int] = field(default_factory=list)  # codes of those that ended by themselves

    @property
    def up(self) -> bool:
        return self.process is not None and self.process.returncode is None

    def expect_end(self) -> None:
        """That its process ended is right, whether that was noticed already or not."""
        self.stopped = self.process
        self.exits.clear()

    @property
    def log_file(self) -> Path:
        return self.directory.with_suffix(".log")


@dataclass(slots=True)
class Launch:
    """How nodes are started: settings that all share, and the program in place of goblin_raft."""

    base: Config = field(default_factory=Config)
    module: tuple[str, ...] = ("goblin_raft",)  # `python -m` these words
    library: Path | None = None  # preload.py's, for clock and disk faults


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on, below those that outgoing connections are given."""
    found: list[int] = []
    start = 10_000 + (os.getpid() * 37) % 15_000
    for port in range(start, 32_000):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                found.append(port)
        if len(found) == count:
            return found
    msg = "no free ports"
    raise RuntimeError(msg)


class Nodes:
    """A cluster of real processes under one directory."""

    def __init__(self, directory: Path, count: int, links: Links, launch: Launch) -> None:
        self.directory = directory
        self.links = links
        self.launch = launch
        self.ids = [f"n{number + 1}" for number in range(count)]
        self.nodes: dict[str, Node] = {}
        self._watchers: set[asyncio.Task[None]] = set()

    # ---- life ----------------------------------------------------------------------------------

    async def open(self) -> None:
        """Make directories, links and command lines; start nothing yet."""
        ports = free_ports(2 * len(self.ids))
        raft_ports = dict(zip(self.ids, ports[len(self.ids) :], strict=True))
        await self.links.open(raft_ports)
        for node_id, port in zip(self.ids, ports, strict=False):
            host, directory = self.links.host(node_id), self.directory / node_id
            peers = []
            for peer_id in self.ids:
                if peer_id != node_id:
                    to_host, to_port = self.links.address(node_id, peer_id, raft_ports[peer_id])
                    peers.append(f"{peer_id}={to_host}:{to_port}")
            config = dataclasses.replace(
                self.launch.base,
                node_id=node_id,
                cluster_name="chaos",
                resp=f"{host}:{port}",
                raft=f"{host}:{raft_ports[node_id]}",
                peers=",".join(peers),
                dir=str(directory),
            )
            _, dash_m, _, *flags = NodePlan(config).command()
            command = [sys.executable, dash_m, *self.launch.module, *flags]
            node = Node(node_id, (host, port), directory, self.links.wrap(node_id, command))
            directory.mkdir(parents=True)
            if self.launch.library is not None:
                node.control = Control(self.directory / f"{node_id}.control")
            self.nodes[node_id] = node

    async def start(self, node_id: str) -> None:
        """Start a node that is down."""
        node = self.nodes[node_id]
        assert not node.up, f"{node_id} is up"
        environ = {k: v for k, v in os.environ.items() if not k.startswith("GOBLIN_RAFT_")}
        if node.control is not None and self.launch.library is not None:
            environ |= node.control.environ(self.launch.library)
        node.paused = False
        with open(node.log_file, "ab") as log:  # noqa: ASYNC230 a moment
            node.process = await asyncio.create_subprocess_exec(
                *node.command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environ,
                start_new_session=True,
                preexec_fn=die_with_parent(signal.SIGKILL),
            )
        watcher = asyncio.get_running_loop().create_task(self._watch(node, node.process))
        self._watchers.add(watcher)
        watcher.add_done_callback(self._watchers.discard)

    async def _watch(self, node: Node, process: asyncio.subprocess.Process) -> None:
        code = await process.wait()
        if node.stopped is not process:
            node.exits.append(code)

    async def close(self) -> None:
        """End everything, by force; nothing is left running."""
        for node in self.nodes.values():
            if node.up:
                await self.kill(node.node_id)
            if node.control is not None:
                node.control.close()
        await self.links.close()

    # ---- harm ----------------------------------------------------------------------------------

    async def kill(self, node_id: str) -> None:
        """kill -9, also of a paused node."""
        node = self.nodes[node_id]
        process = node.process
        if process is None or process.returncode is not None:
            return
        node.stopped = process
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        node.paused = False

    async def terminate(self, node_id: str) -> int | None:
        """SIGTERM; the exit code, or None if it had to be killed."""
        node = self.nodes[node_id]
        process = node.process
        if process is None or process.returncode is not None:
            return 0
        node.stopped = process
        self.resume(node_id)
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            async with asyncio.timeout(STOP_BOUND_S):
                return await process.wait()
        except TimeoutError:
            await self.kill(node_id)
            return None

    def pause(self, node_id: str) -> None:
        node = self.nodes[node_id]
        if node.up and node.process is not None:
            node.process.send_signal(signal.SIGSTOP)
            node.paused = True

    def resume(self, node_id: str) -> None:
        node = self.nodes[node_id]
        if node.up and node.process is not None and node.paused:
            node.process.send_signal(signal.SIGCONT)
        node.paused = False

    def wipe(self, node_id: str) -> None:
        """An empty disk for a node that is down; a mount stays."""
        for path in self.nodes[node_id].directory.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()

    # ---- questions -----------------------------------------------------------------------------

    async def info(self, node_id: str) -> dict[str, str]:
        """INFO raft of a node; empty when it does not answer."""
        node = self.nodes[node_id]
        if not node.up or node.paused:
            return {}
        client = Client(node.resp, ASK_TIMEOUT_S)
        answer = await client.call("INFO", "raft")
        client.close()
        return parse_info(answer.value.encode()) if answer.outcome == "ok" else {}

    async def infos(self) -> dict[str, dict[str, str]]:
        found = await asyncio.gather(*map(self.info, self.ids))
        return dict(zip(self.ids, found, strict=True))

    async def leader(self) -> str | None:
        """Who says that it leads, in the highest term."""
        leaders = [
            (int(info["raft_term"]), node_id)
            for node_id, info in (await self.infos()).items()
            if info.get("raft_role") == "leader"
        ]
        return max(leaders)[1] if leaders else None

    async def wait_until_all_serve(self, within_s: float) -> list[str]:
        """Wait until every node reads through a barrier; those that do not, in the end."""
        give_up_s = time.monotonic() + within_s
        waiting = list(self.ids)
        while waiting and time.monotonic() < give_up_s:
            waiting = [node_id for node_id in waiting if not await self._serves(node_id)]
            if waiting:
                await asyncio.sleep(POLL_S)
        return waiting

    async def _serves(self, node_id: str) -> bool:
        node = self.nodes[node_id]
        if not node.up:
            return False
        client = Client(node.resp, 2.0)
        answer = await client.call("GET", "chaos:are-you-there")
        client.close()
        return answer.outcome == "ok"
