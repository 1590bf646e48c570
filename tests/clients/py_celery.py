"""Celery with this store as its result backend; its broker is in memory."""

from __future__ import annotations

import importlib.metadata
import sys
import uuid

import celery
from celery.contrib.testing.worker import start_worker
from common import Checks, main, run_failover


def app_for(port: int) -> celery.Celery:
    app = celery.Celery("tasks", broker="memory://", backend=f"redis://127.0.0.1:{port}/1")
    app.conf.update(worker_hijack_root_logger=False, broker_connection_retry_on_startup=True)
    return app


def check(port: int) -> dict[str, str]:
    """Feature by feature."""
    checks = Checks()
    app = app_for(port)

    @checks("results")
    def _():
        task = uuid.uuid4().hex
        app.backend.store_result(task, 42, "SUCCESS")
        assert app.backend.get_result(task) == 42
        app.backend.forget(task)
        assert app.backend.get_state(task) == "PENDING"

    @checks("a worker's result")
    def _():
        @app.task
        def add(a, b):
            return a + b

        with start_worker(app, perform_ping_check=False, pool="solo", loglevel="ERROR"):
            assert add.delay(2, 3).get(timeout=8) == 5

    @checks("as a broker")
    def _():
        broker = celery.Celery("broker", broker=f"redis://127.0.0.1:{port}/2")
        broker.send_task("x", retry=False)

    return checks.results


def failover(survivor: int, leader: int) -> dict:
    """Write through both while the leader is killed and started again."""

    def connected(port):
        backend = app_for(port).backend
        return (
            lambda key: backend.store_result(key, key, "SUCCESS"),
            lambda key: backend.get_result(key) == key,
        )

    return run_failover(connected, survivor, leader)


if __name__ == "__main__":
    sys.setrecursionlimit(5000)
    main(importlib.metadata.version("celery"), check, failover)
