"""One node, put together: log, consensus, state machine, clients, signals. Decides nothing else."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import time
from collections.abc import Callable

from goblin_raft import errors
from goblin_raft.config import Config
from goblin_raft.consensus.engine import RaftEngine
from goblin_raft.consensus.errors import StartRefused
from goblin_raft.resp_frontend import Frontend

logger = logging.getLogger(__name__)

# How long a node that was told to stop waits for what its clients are owed.
DRAIN_S = 2.5


async def serve(config: Config, ready: Callable[[str], None] | None = None) -> None:
    """Run one node until SIGTERM or SIGINT. `ready` gets the address clients can use.

    Raises StartRefused, whose text is one sentence, when the node must not or cannot start.
    """
    # Most objects of a store live long: full collections find little and stop everything.
    gc.set_threshold(50_000, 50, 100)
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    engine = await RaftEngine.open(config)
    frontend = Frontend(config, engine, now_s=time.time)
    try:
        host, port = await frontend.listen()
    except OSError as error:
        await engine.close()
        msg = f"cannot listen for clients on {config.resp}: {error.strerror or error}"
        raise StartRefused(msg) from error
    logger.info("serving node=%s resp=%s:%d dir=%s", config.node_id, host, port, config.dir)
    if ready is not None:
        ready(f"{host}:{port}")
    await stop.wait()
    logger.info("stopping node=%s", config.node_id)
    # Leadership first, so that what clients send meanwhile has somewhere to go.
    await engine.hand_over()
    frontend.refuse(errors.CLUSTERDOWN.failure())
    give_up_s = loop.time() + DRAIN_S
    while frontend.busy and loop.time() < give_up_s:  # noqa: ASYNC110 many owe, no one event
        await asyncio.sleep(0.005)
    frontend.close()
    await asyncio.sleep(0)
    await engine.close()
    logger.info("stopped node=%s", config.node_id)
