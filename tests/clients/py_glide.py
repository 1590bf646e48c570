"""Valkey GLIDE (Python) with its defaults: what an application does with it, and a failover."""

from __future__ import annotations

import asyncio
import importlib.metadata
import threading

from common import Checks, main, run_failover
from glide import Batch, GlideClient, GlideClientConfiguration, NodeAddress


class Loop:
    """GLIDE is asynchronous; the checks are not."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    def __call__(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(15)


run = Loop()


def connect(port: int) -> GlideClient:
    config = GlideClientConfiguration([NodeAddress("127.0.0.1", port)])
    return run(GlideClient.create(config))


def check(port: int) -> dict[str, str]:
    """Feature by feature."""
    checks = Checks()
    name = f"glide:{port}"
    clients = []

    @checks("connect")
    def _():
        clients.append(connect(port))

    if not clients:
        return checks.results
    (r,) = clients

    @checks("strings")
    def _():
        assert run(r.set(name, "v")) == "OK"
        assert run(r.get(name)) == b"v"
        assert run(r.delete([name])) == 1

    @checks("counters")
    def _():
        run(r.delete([name]))
        assert run(r.incr(name)) == 1

    @checks("claim")
    def _():
        run(r.delete(["c:" + name]))
        claim = ["GOBLIN.CLAIM", "c:" + name, "r:" + name, "worker", "30"]
        assert run(r.custom_command(claim)) == b"CLAIMED"
        assert run(r.custom_command(claim)) is None

    @checks("hashes and sorted sets")
    def _():
        run(r.delete(["h:" + name, "z:" + name]))
        assert run(r.hset("h:" + name, {"a": "1"})) == 1
        assert run(r.zadd("z:" + name, {"m": 1.5})) == 1
        assert run(r.zscore("z:" + name, "m")) == 1.5

    @checks("pipeline")
    def _():
        for atomic in (True, False):
            batch = Batch(is_atomic=atomic)
            batch.set(name, "1").get(name)
            assert run(r.exec(batch, raise_on_error=True)) == ["OK", b"1"]

    @checks("scan")
    def _():
        _cursor, keys = run(r.scan("0"))
        assert isinstance(keys, list)

    @checks("server")
    def _():
        assert b"role:master" in run(r.info())
        assert run(r.config_get(["maxmemory"])) == {b"maxmemory": b"0"}

    run(r.close())
    return checks.results


def failover(survivor: int, leader: int) -> dict:
    """Write through both while the leader is killed and started again."""

    def connected(port):
        r = connect(port)
        return lambda key: run(r.set(key, key)), lambda key: run(r.get(key)) == key.encode()

    return run_failover(connected, survivor, leader)


if __name__ == "__main__":
    main(importlib.metadata.version("valkey-glide"), check, failover)
