"""Cases that need real nodes, each named after its row in docs/cases.md."""

from __future__ import annotations

import itertools
import threading
import time

import pytest

from chaos import check_claims, check_linear
from chaos.history import History
from goblin_raft.resp_client import RespError
from tests.cases.town import Town

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    town = Town(tmp_path_factory.mktemp("town") / "nodes")
    yield town
    town.close()


@pytest.fixture
def town(shared):
    """All three are up, connected, and lead each other."""
    yield shared
    shared.heal()
    shared.resume(*shared.ids)
    for node in shared.ids:
        if not shared.nodes.nodes[node].up:
            shared.start(node)
    assert shared.run(shared.nodes.wait_until_all_serve(20)) == []


def test_a05_renewal_goes_on_through_failovers(town):
    """A renewal that fails because the leader died is asked again elsewhere; no rival gets in."""
    lease_ms, got, renewals = 3000, [], []
    stop = threading.Event()

    def rival() -> None:
        for turn in itertools.count():
            if stop.wait(0.1):
                return
            answer = town.told(town.ids[turn % 3], "GOBLIN.CLAIM", "a05", "r", "rival", 30)
            if answer == b"CLAIMED":
                got.append(turn)

    def holder() -> None:
        for turn in itertools.count():
            if stop.wait(0.3):
                return
            words = ("GOBLIN.CAEXPIRE", "a05", "holder", lease_ms)
            answer = town.told(town.ids[turn % 3], *words, timeout_s=1.0)
            if isinstance(answer, int):
                renewals.append(answer)

    assert town.insist(town.ids[0], "GOBLIN.CLAIM", "a05", "r", "holder", 3) == b"CLAIMED"
    threads = [threading.Thread(target=target) for target in (holder, rival)]
    for thread in threads:
        thread.start()
    for _ in range(2):
        leader = town.leader()
        town.kill(leader)
        done = len(renewals)
        town.wait_for(lambda: len(renewals) >= done + 3)  # noqa: B023
        town.start(leader)
        assert town.run(town.nodes.wait_until_all_serve(20)) == []
    stop.set()
    for thread in threads:
        thread.join()
    assert set(renewals) == {1}
    assert got == []


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_a07_an_outage_that_outlasts_the_lease_ends_it(town, how):
    """The same rule for both: the time without a majority counts, so the holder lost its claim."""
    key = f"a07:{how}"
    assert town.insist(town.ids[0], "GOBLIN.CLAIM", key, "r", "holder", 1) == b"CLAIMED"
    claimed_s = time.monotonic()
    victims = town.ids[1:] if how == "stopped" else town.ids
    town.pause(*victims) if how == "stopped" else town.kill(*victims)
    time.sleep(max(0.0, claimed_s + 1.6 - time.monotonic()))
    town.resume(*victims) if how == "stopped" else town.start(*victims)
    assert town.insist(town.ids[0], "GOBLIN.CAEXPIRE", key, "holder", 30_000) == 0
    assert town.insist(town.ids[2], "GOBLIN.CLAIM", key, "r", "rival", 30) == b"CLAIMED"


def test_a10_an_answer_after_the_lease(town):
    """The lease counts from the stamp in the log, which is given before the answer: it is never
    longer than asked for, however late the answer was."""
    leader, followers = town.leader(), town.followers()
    answers = []

    def claim() -> None:
        answers.append(town.told(leader, "GOBLIN.CLAIM", "a10", "r", "holder", 1))

    with town.client(leader):
        town.pause(*followers)
        thread = threading.Thread(target=claim)
        thread.start()
        time.sleep(1.3)
        town.resume(*followers)
        thread.join()
    answered_s = time.monotonic()
    assert answers[0] in (b"CLAIMED", "UNCERTAIN", "CLUSTERDOWN")
    left_ms = town.insist(leader, "PTTL", "a10")
    assert left_ms <= 1000
    town.wait_for(lambda: town.told(leader, "GET", "a10") is None)
    assert time.monotonic() - answered_s < 1.6


@pytest.mark.parametrize("stopped", [False, True], ids=["leader runs", "leader stopped"])
def test_a11_no_node_shows_a_claim_after_another_showed_none(town, stopped):
    """Three clients look at one key around the end of its lease; the checkers judge them."""
    key = f"a11:{stopped}"
    operations = [town.observe(0, town.ids[0], "claim", key, "r", "holder", 1)]
    assert operations[0].value == "CLAIMED"
    until_ms = town.now_ms() + 1600

    def look(process: int, node: str) -> None:
        while town.now_ms() < until_ms:
            operations.append(town.observe(process, node, "get", key))
            time.sleep(0.01)

    threads = [
        threading.Thread(target=look, args=(number, node))
        for number, node in enumerate(town.ids, 1)
    ]
    leader = town.leader()
    for thread in threads:
        thread.start()
    if stopped:
        time.sleep(0.7)
        town.pause(leader)
    for thread in threads:
        thread.join()
    town.resume(leader)
    history = History({}, sorted(operations, key=lambda operation: operation.start_ms))
    seen = [o.value for o in history.of("get") if o.outcome == "ok"]
    assert "holder" in seen
    assert None in seen
    for checker in (check_claims, check_linear):
        assert checker.check(history).findings == []


def test_b13_of_many_callers_at_once_one_gets_the_claim(town):
    """Forty-two connections over all nodes, all requests sent before any answer is read; in one
    round the leader is killed meanwhile."""
    for turn in range(8):
        leader = town.leader()
        clients = [(node, town.client(node)) for node in town.ids for _ in range(14)]
        barrier = threading.Barrier(len(clients))
        answers: list[object] = []

        def claim(node, client, number, turn=turn, barrier=barrier, answers=answers) -> None:
            barrier.wait()
            try:
                answer = client.call("GOBLIN.CLAIM", f"b13:{turn}", "r", f"t{number}", 600)
            except Exception as error:
                answer = str(error).split(" ")[0] if "UNCERTAIN" in str(error) else "lost"
            answers.append((number, answer))

        threads = [
            threading.Thread(target=claim, args=(node, client, number))
            for number, (node, client) in enumerate(clients)
        ]
        for thread in threads:
            thread.start()
        if turn % 6 == 5:
            town.kill(leader)
        for thread in threads:
            thread.join()
        for _, client in clients:
            client.close()
        if turn % 6 == 5:
            town.start(leader)
            assert town.run(town.nodes.wait_until_all_serve(20)) == []
        won = [number for number, answer in answers if answer == b"CLAIMED"]
        assert len(won) <= 1
        holders = {town.insist(node, "GET", f"b13:{turn}") for node in town.ids}
        assert len(holders) == 1
        if won:
            assert holders == {f"t{won[0]}".encode()}
        if not any(answer in ("UNCERTAIN", "lost") for _, answer in answers):
            assert len(won) == 1


def test_b17_a_follower_that_is_cut_off_holds_nobody_up(town):
    """Its clients are answered within the bound, the others do not notice; no election follows."""
    term, (cut, other) = town.term(), town.followers()
    town.isolate(cut)
    began_s = time.monotonic()
    assert town.told(cut, "GOBLIN.CLAIM", "b17", "r", "there", 30) in ("CLUSTERDOWN", "UNCERTAIN")
    assert time.monotonic() - began_s < 6
    slowest_s = 0.0
    for number in range(200):
        began_s = time.monotonic()
        assert town.call(other, "GOBLIN.CLAIM", f"b17:{number}", "r", "here", 30) == b"CLAIMED"
        slowest_s = max(slowest_s, time.monotonic() - began_s)
    assert slowest_s < 1.0
    town.heal()
    assert town.insist(cut, "GET", "b17:199") == b"here"
    town.wait_for(town.same_state)
    assert town.term() == term


def test_b19_a_leader_that_is_cut_off_gives_no_claim(town):
    """And B07, B17: the others elect a new one, the old one answers in time that it cannot know,
    and when all is whole again its entries are gone and all nodes hold the same."""
    leader, others = town.leader(), town.followers()
    town.isolate(leader)
    answers: dict[str, object] = {}

    def ask(number: int) -> None:
        answers[f"b19:{number}"] = town.told(
            leader, "GOBLIN.CLAIM", f"b19:{number}", "r", "old", 600, timeout_s=20
        )

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(20)]
    began_s = time.monotonic()
    for thread in threads:
        thread.start()
    for number in range(20):
        answer = town.insist(others[number % 2], "GOBLIN.CLAIM", f"b19:{number}", "r", "new", 600)
        assert answer == b"CLAIMED"
    assert time.monotonic() - began_s < 8
    for thread in threads:
        thread.join()
    assert set(answers.values()) <= {"UNCERTAIN", "CLUSTERDOWN"}
    town.heal()
    town.wait_for(town.same_state)
    for node in town.ids:
        values = [town.insist(node, "GET", f"b19:{number}") for number in range(20)]
        assert values == [b"new"] * 20
    term = town.term()
    assert town.insist(leader, "GOBLIN.CLAIM", "b19:after", "r", "t", 30) == b"CLAIMED"
    assert town.term() == term


def test_c01_a_claim_whose_answer_was_lost(town):
    """Asked again elsewhere it says nil; the claim key says whose it is, and for how long."""
    for number in range(20):
        key, token = f"c01:{number}", f"token-{number}"
        first, second = town.ids[number % 3], town.ids[(number + 1) % 3]
        town.lose_the_reply(first, "GOBLIN.CLAIM", key, "r", token, 30)
        town.wait_for(lambda: town.insist(second, "GET", key) is not None)  # noqa: B023
        assert town.insist(second, "GOBLIN.CLAIM", key, "r", token, 30) is None
        assert town.insist(second, "GET", key) == token.encode()
        assert 28 <= town.insist(second, "TTL", key) <= 30


def test_c05_a_release_whose_answer_was_lost(town):
    """Asked again it says 0, and the key is free: that is success."""
    for number in range(10):
        key = f"c05:{number}"
        assert town.insist(town.ids[0], "GOBLIN.CLAIM", key, "r", "tA", 30) == b"CLAIMED"
        town.lose_the_reply(town.ids[number % 3], "GOBLIN.CAD", key, "tA")
        town.wait_for(lambda: town.insist(town.ids[1], "GET", key) is None)  # noqa: B023
        assert town.insist(town.ids[1], "GOBLIN.CAD", key, "tA") == 0
        assert town.insist(town.ids[2], "GOBLIN.CLAIM", key, "r", "tB", 30) == b"CLAIMED"


def test_f14_what_dead_workers_held_is_free_again(town):
    """A hundred of them, over all nodes, and nobody has to do anything."""
    for number in range(100):
        town.lose_the_reply(town.ids[number % 3], "GOBLIN.CLAIM", f"f14:{number}", "r", "dead", 1)
    began_s = time.monotonic()
    town.wait_for(
        lambda: town.insist(town.ids[0], "EXISTS", *[f"f14:{n}" for n in range(100)]) == 0
    )
    assert time.monotonic() - began_s < 4
    for number in range(100):
        answer = town.insist(town.ids[number % 3], "GOBLIN.CLAIM", f"f14:{number}", "r", "new", 30)
        assert answer == b"CLAIMED"


def test_e17_what_is_stored_is_in_no_log_and_no_error(town):
    secret = "SECRET-e17"
    node = town.ids[0]
    assert town.insist(node, "SET", "e17", secret, "PX", 300) == b"OK"
    told = []
    for words in (
        ("HSET", "e17", "f", secret),
        ("SET", "e17", secret * 200_000),
        ("GOBLIN.CLAIM", "e17", "e17", secret, 30),
        ("GOBLIN.CLAIM", "e17", "r", secret, "x"),
        ("EXPIRE", "e17", secret),
    ):
        with pytest.raises(RespError) as caught:
            town.call(node, *words)
        told.append(str(caught.value))
    assert not [text for text in told if secret in text]
    town.wait_for(lambda: all(town.told(other, "GET", "e17") is None for other in town.ids))
    town.call(node, "GOBLIN.SNAPSHOT")
    for other in town.ids:
        log = town.nodes.nodes[other].log_file
        assert log.stat().st_size
        assert secret.encode() not in log.read_bytes()
