"""django-redis, and Django's own Redis cache, with their defaults."""

from __future__ import annotations

import importlib.metadata
import sys

from common import Checks, main, run_failover
from django.conf import settings

PORTS = [int(word) for word in sys.argv[2:]]
CACHES = {}
for port in PORTS:
    # `clear` empties a database, so checks of two nodes at once need two each.
    database = 4 + 2 * (port % 3) if sys.argv[1] == "check" else 4
    CACHES[f"django-redis-{port}"] = {
        "BACKEND": "django_redis.cache.RedisCache",
        "LOCATION": f"redis://127.0.0.1:{port}/{database}",
    }
    CACHES[f"django-{port}"] = {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": f"redis://127.0.0.1:{port}/{database + 1}",
    }
CACHES["default"] = CACHES[f"django-redis-{PORTS[0]}"]
settings.configure(CACHES=CACHES)

from django.core.cache import caches  # noqa: E402 after the settings


def check(port: int) -> dict[str, str]:
    """Feature by feature."""
    checks = Checks()
    for backend in ("django-redis", "django"):
        cache = caches[f"{backend}-{port}"]

        @checks(f"{backend}: values")
        def _(cache=cache):
            cache.set("k", {"a": [1]}, 100)
            assert cache.get("k") == {"a": [1]}
            assert cache.add("k", 1) is False
            assert cache.touch("k", 50)
            cache.set_many({"a": 1, "b": 2}, 100)
            assert cache.get_many(["a", "b", "c"]) == {"a": 1, "b": 2}
            cache.delete_many(["a", "b"])
            assert "a" not in cache
            assert cache.delete("k")

        @checks(f"{backend}: counters")
        def _(cache=cache):
            cache.set("n", 1)
            assert cache.incr("n", 2) == 3

        @checks(f"{backend}: clear")
        def _(cache=cache):
            cache.set("k", 1)
            cache.clear()
            assert cache.get("k") is None

    cache = caches[f"django-redis-{port}"]

    @checks("django-redis: ttl, keys")
    def _():
        cache.set("k", 1, timeout=100)
        assert 0 < cache.ttl("k") <= 100
        assert cache.keys("*") == ["k"]
        assert cache.delete_pattern("k*") == 1

    @checks("django-redis: lock")
    def _():
        with cache.lock("lock", timeout=5):
            pass

    return checks.results


def failover(survivor: int, leader: int) -> dict:
    """Write through both while the leader is killed and started again."""

    def connected(port):
        cache = caches[f"django-redis-{port}"]
        return lambda key: cache.set(key, key, 1000), lambda key: cache.get(key) == key

    return run_failover(connected, survivor, leader)


if __name__ == "__main__":
    main(importlib.metadata.version("django-redis"), check, failover)
