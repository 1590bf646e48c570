"""Partitions by the kernel itself: what only real packets can show. Needs root."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from pathlib import Path

import pytest

from chaos.client import Client
from chaos.netns import NetnsLinks
from chaos.nodes import Launch, Nodes

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(
        os.geteuid() != 0 or shutil.which("ip") is None or shutil.which("iptables") is None,
        reason="network namespaces need root, ip and iptables",
    ),
]

# TCP sends again after 0.2 s, 0.4 s, 0.8 s ...: what is cut off for so long would wait another four
# seconds after the link is whole.
CUT_S = 9.0
# Until a session is dialled anew: the timeout of one try, the longest pause, and room for a busy
# machine.
BACK_BOUND_S = 3.0


def test_a_node_is_back_soon_after_a_long_partition(tmp_path: Path):
    async def scenario() -> float:
        nodes = Nodes(tmp_path, 3, NetnsLinks(), Launch())
        await nodes.open()
        try:
            await asyncio.gather(*map(nodes.start, nodes.ids))
            assert await nodes.wait_until_all_serve(30) == []
            leader = await nodes.leader()
            others = [node_id for node_id in nodes.ids if node_id != leader]
            alone, witness = others
            pairs = [(alone, other) for other in nodes.ids if other != alone]
            cut = [*pairs, *((b, a) for a, b in pairs)]
            await nodes.links.cut(cut)
            client = Client(nodes.nodes[witness].resp, 5.0)
            end_s = time.monotonic() + CUT_S
            while time.monotonic() < end_s:
                assert (await client.call("SET", "k", "v")).outcome == "ok"
                await asyncio.sleep(0.1)
            client.close()
            await nodes.links.heal(cut)
            began_s = time.monotonic()
            assert await nodes.wait_until_all_serve(30) == []
            return time.monotonic() - began_s
        finally:
            await nodes.close()

    assert asyncio.run(scenario()) < BACK_BOUND_S
