"""Loaded into the run of redis-py's own tests: leaves out what this store does not have at all, and
writes down how each test ended.

Which tests are left out is said here by what their names say that they are about, so that a reader
sees at once what is not tested.
"""

from __future__ import annotations

import json
import os
import re

# What the tests of these names are about is not in this store at all.
NOT_OURS = {
    "lists": r"list_|lists|test_b?[lr](push|pop|move|mpop|pos|range|rem|set|trim|index|ins|len)",
    "sets": r"s(add|card|diff|inter|ismember|members|mismember|move|pop|randmember|rem|union|scan)",
    "bits": r"bit(count|op|pos|field)|get_set_bit|with_bitfield",
    "streams": r"x(ack|add|auto|claim|del|group|info|len|pending|range|read|rev|trim)",
    "geography": r"geo|Issue2609",
    "HyperLogLog": r"pf(add|count|merge)",
    "sorting": r"sort_",
    "waiting pops": r"bz|zmpop",
    "access lists": r"acl_",
    "Redis Cluster": r"cluster|slot|readonly_invalid",
    "shard channels": r"shard",
    "modules": r"module|search",
    "scripts of one's own": r"eval_|evalsha|script|lua|function",
    "dumps": r"dump|restore|migrate",
    "replication": r"replicaof|failover|psync|test_sync|list_replica",
    "what newer servers have": r"msetex|lolwut_v8|trackinginfo|getkeysandflags|hotkeys",
    "other servers": r"sentinel|ssl|Unix|uds|unix",
}
LEFT_OUT = re.compile("|".join(f"(?:{pattern})" for pattern in NOT_OURS.values()))

outcomes: dict[str, str] = {}


def pytest_collection_modifyitems(config, items):
    left_out = [item for item in items if LEFT_OUT.search(item.nodeid.partition("::")[2])]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in set(left_out)]


def pytest_runtest_logreport(report):
    if report.when == "call" or report.outcome != "passed":
        words = "" if report.outcome != "failed" else str(report.longrepr).strip().splitlines()[-3:]
        outcomes[report.nodeid] = " ".join([report.outcome, *words])


def pytest_sessionfinish():
    with open(os.environ["OUTCOMES"], "w") as file:
        json.dump(outcomes, file, indent=1)
