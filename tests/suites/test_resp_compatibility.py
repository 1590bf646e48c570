"""The part of the resp-compatibility suite that speaks of what we have, on a follower.

resp_compatibility.json holds cases of github.com/tair-opensource/resp-compatibility (`cts.json`,
MIT, resp_compatibility.LICENSE), as they are: all standalone cases whose commands this store knows.
Each is judged in RESP2 as its authors judge it, and in RESP3 against what redis-server answers.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.test_cluster import Cluster

pytestmark = pytest.mark.cluster

CASES = json.loads(Path(__file__).with_name("resp_compatibility.json").read_text())
# Name of a case: why we answer otherwise. A case that is listed and passes is an error as well.
BY_NAME = (
    "names of members whose scores differ: what Redis answers depends on how its skip list grew, "
    "which replicas cannot share; here only the members of the lowest score are looked at"
)
NO_LUA = "no Lua: scripts that are not among the known ones are refused"
EXPECTED_FAILURES = {
    "zrange with BYSCORE / BYLEX": BY_NAME,
    "zrangestore with BYSCORE / BYLEX": BY_NAME,
    "zremrangebyscore command": BY_NAME,  # so it is called, and is about names
    "eval command": NO_LUA,
    "script exists command": NO_LUA,
    "script load command": NO_LUA,
    "script flush command": NO_LUA,
    "script flush with SYNC": NO_LUA,
    "script flush with ASYNC": NO_LUA,
}
NEWER = "an option of Redis 7.2"
EXPECTED_IN_RESP2 = {"zrank with WITHSCORE": NEWER, "zrevrank with WITHSCORE": NEWER}
# Newer than the redis-server that tests can be sure to have.
NEWEST_COMPARED = (7, 0)
ESCAPES = {"\\": 92, '"': 34, "n": 10, "r": 13, "t": 9, "a": 7, "b": 8}
ESCAPE = re.compile(r"\\(x..|.)")


def words_of(case: dict[str, Any], line: str) -> list[bytes]:
    """A line as the suite means it: quotes keep spaces together, escapes only where it says so."""
    words = [""]
    quoted = False
    for character in line:
        if character == '"':
            quoted = not quoted
        elif character == " " and not quoted:
            words.append("")
        else:
            words[-1] += character
    if "command_binary" not in case:
        return [word.encode() for word in words]

    def byte(match: re.Match[str]) -> str:
        escape = match[1]
        return chr(int(escape[1:], 16) if escape[0] == "x" else ESCAPES[escape])

    return [ESCAPE.sub(byte, word).encode("latin-1") for word in words]


def run(client: redis.Redis, case: dict[str, Any]) -> list[Any]:
    """What the client makes of each reply, up to the first error."""
    client.execute_command("FLUSHALL")
    replies: list[Any] = []
    for line in case["command"]:
        words = words_of(case, line)
        name = words[0].decode()
        try:
            replies.append(client.execute_command(name, *words[1:]))
        except redis.ResponseError as error:
            replies.append(f"error: {error}")
            break
    return replies


def in_order(reply: Any) -> Any:
    """A reply whose order says nothing, sorted."""
    if isinstance(reply, list):
        return sorted((in_order(item) for item in reply), key=repr)
    return reply


def near(one: Any, other: Any) -> bool:
    """Equal, but for the last digits of numbers."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(near, one, other))
    try:
        return abs(float(one) - float(other)) < 0.01
    except (TypeError, ValueError):
        return bool(one == other)


def agrees(case: dict[str, Any], replies: list[Any], wanted: list[Any]) -> bool:
    if "sort_result" in case:
        replies, wanted = [in_order(r) for r in replies], [in_order(r) for r in wanted]
    if "float_result" in case:
        return len(replies) == len(wanted) and all(map(near, replies, wanted))
    return replies == wanted


def judge(
    cases: list[dict[str, Any]], client: redis.Redis, wanted_of: Any, expected: dict[str, str]
) -> None:
    wrong: dict[str, str] = {}
    for case in cases:
        # One case has a result more than commands.
        replies, wanted = run(client, case), wanted_of(case)[: len(case["command"])]
        if not agrees(case, replies, wanted):
            wrong[case["name"]] = f"{case['command']}: {replies}, not {wanted}"
    unexpected = {name: text for name, text in wrong.items() if name not in expected}
    assert not unexpected, "\n".join(f"{name}: {text}" for name, text in unexpected.items())
    assert not set(expected) - set(wrong), "these pass now: take them off the list"
    print(f"{len(cases) - len(wrong)} of {len(cases)} cases pass")


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    """Of a follower."""
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    leader = cluster.leader()
    yield next(cluster.base + node - 1 for node in (1, 2, 3) if node != leader)
    cluster.stop()


def connect(port: int, protocol: int) -> redis.Redis:
    """A client that hands replies on as they came."""
    client = redis.Redis("127.0.0.1", port, protocol=protocol, decode_responses=True)
    client.response_callbacks.clear()
    return client


def test_resp2_as_its_authors_judge_it(port):
    expected = EXPECTED_FAILURES | EXPECTED_IN_RESP2
    judge(CASES, connect(port, 2), lambda case: case["result"], expected)


def test_resp3_as_redis_answers(port, redis_port):
    cases = [c for c in CASES if tuple(map(int, c["since"].split(".")[:2])) <= NEWEST_COMPARED]
    reference = connect(redis_port, 3)
    judge(cases, connect(port, 3), lambda case: run(reference, case), EXPECTED_FAILURES)
