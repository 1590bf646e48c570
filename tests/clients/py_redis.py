"""redis-py or valkey-py: what an application does with it in both protocols, and a failover.

Runs in the client's own environment: `python py_redis.py redis|valkey check PORT` or
`... failover SURVIVOR_PORT LEADER_PORT`. Knows nothing of this project but its ports.
"""

from __future__ import annotations

import asyncio
import importlib
import sys

from common import Checks, main, run_failover

MODULE = sys.argv.pop(1)
client = importlib.import_module(MODULE)
DEFAULT_PROTOCOL = 3 if int(client.__version__.split(".")[0]) > 7 else 2
CLIENT = client.Redis if MODULE == "redis" else client.Valkey
ASYNC_CLIENT = getattr(importlib.import_module(f"{MODULE}.asyncio"), CLIENT.__name__)
ERRORS = importlib.import_module(f"{MODULE}.exceptions")


def check(port: int) -> dict[str, str]:
    """Feature by feature: with the defaults, and with the other protocol."""
    results = check_protocol(port, {})
    other = 5 - DEFAULT_PROTOCOL
    for feature, result in check_protocol(port, {"protocol": other}).items():
        results[f"RESP{other}: {feature}"] = result
    return results


def check_protocol(port: int, options: dict[str, int]) -> dict[str, str]:
    """Feature by feature."""
    checks = Checks()
    r = CLIENT(port=port, **options)
    name = f"{MODULE}:{client.__version__}:{port}:{options.get('protocol', '')}"

    @checks("strings")
    def _():
        assert r.set(name, "v", ex=100)
        assert r.get(name) == b"v"
        assert 0 < r.ttl(name) <= 100
        assert r.set(name, "w", nx=True) is None
        assert r.delete(name) == 1

    @checks("counters")
    def _():
        r.delete(name)
        assert r.incr(name) == 1
        assert r.incrby(name, 4) == 5

    @checks("claim")
    def _():
        r.delete("c:" + name)
        claim = ("GOBLIN.CLAIM", "c:" + name, "r:" + name, "worker", 30)
        assert r.execute_command(*claim) == b"CLAIMED"
        assert r.execute_command(*claim) is None

    @checks("hashes and sorted sets")
    def _():
        r.delete("h:" + name, "z:" + name)
        assert r.hset("h:" + name, mapping={"a": "1", "b": "2"}) == 2
        assert r.hget("h:" + name, "b") == b"2"
        assert r.zadd("z:" + name, {"m": 1.5}) == 1
        assert r.zscore("z:" + name, "m") == 1.5

    @checks("pipeline")
    def _():
        for transaction in (True, False):
            with r.pipeline(transaction=transaction) as p:
                assert p.set(name, 1).get(name).delete(name).execute() == [True, b"1", 1]

    @checks("watch")
    def _():
        def double(pipe):
            value = int(pipe.get(name) or 1)
            pipe.multi()
            pipe.set(name, value * 2)

        assert r.transaction(double, name) == [True]
        with r.pipeline() as pipe:
            pipe.watch(name)
            r.set(name, "changed")
            pipe.multi()
            pipe.set(name, "no")
            try:
                pipe.execute()
                raise AssertionError("a watched key changed and EXEC went through")
            except ERRORS.WatchError:
                pass

    @checks("scan")
    def _():
        for number in range(25):
            r.set(f"scan:{name}:{number}", 1)
        found = set(r.scan_iter(f"scan:{name}:*", count=7))
        assert len(found) == 25

    @checks("server")
    def _():
        assert r.info()["redis_mode"] == "standalone"
        assert r.info("replication")["role"] == "master"
        assert r.config_get("maxmemory") == {"maxmemory": "0"}
        assert any(int(each["id"]) == r.client_id() for each in r.client_list())
        assert r.client_info()["db"] in (0, "0")
        assert r.command_count() > 50
        assert len(r.time()) == 2
        assert r.ping()

    @checks("lock")
    def _():
        with r.lock("lock:" + name, timeout=5, blocking_timeout=1) as lock:
            assert lock.extend(5)
            assert lock.owned()

    @checks("pub/sub")
    def _():
        p = r.pubsub(ignore_subscribe_messages=True)
        p.subscribe("ch:" + name)
        p.get_message(timeout=1)
        assert r.publish("ch:" + name, "hello") is not None
        message = p.get_message(timeout=2) or p.get_message(timeout=2)
        assert message["data"] == b"hello"
        p.close()

    @checks("script")
    def _():
        r.eval("return redis.call('incrby', KEYS[1], 2)", 1, name)

    @checks("asyncio")
    def _():
        asyncio.run(check_async(port, name, options))

    return checks.results


async def check_async(port: int, name: str, options: dict[str, int]) -> None:
    """The same client's other half."""
    r = ASYNC_CLIENT(port=port, **options)
    try:
        assert await r.set(name, "v")
        assert await r.get(name) == b"v"
        assert await r.delete("a:" + name) in (0, 1)
        claim = ("GOBLIN.CLAIM", "a:" + name, "r:" + name, "worker", 30)
        assert await r.execute_command(*claim) == b"CLAIMED"
        async with r.pipeline() as p:
            assert await p.set(name, 1).get(name).execute() == [True, b"1"]
        values = await asyncio.gather(*(r.set(f"{name}:{n}", n) for n in range(50)))
        assert all(values)
    finally:
        await getattr(r, "aclose", r.close)()


def failover(survivor: int, leader: int) -> dict:
    """Write through both while the leader is killed and started again."""

    def connect(port):
        r = CLIENT(port=port)
        return lambda key: r.set(key, key), lambda key: r.get(key) == key.encode()

    return run_failover(connect, survivor, leader)


if __name__ == "__main__":
    main(client.__version__, check, failover)
