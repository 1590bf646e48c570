"""Cluster time at one node, with a steady clock that the test sets."""

from __future__ import annotations

import random

import pytest

from goblin_raft.clock import ClusterClock


def clock() -> ClusterClock:
    return ClusterClock(rate_error=500e-6)


def test_the_first_leader_starts_from_its_wall_clock():
    it = clock()
    assert not it.is_set
    it.lead(wall_ms=5_000, steady_ms=100)
    assert it.now_ms(100) == 5_000
    assert it.now_ms(1_100) == 6_000


def test_a_follower_goes_on_slowly_from_what_it_heard():
    it = clock()
    it.hear(10_000, 0, term=1)
    assert it.now_ms(10_000) == 19_995


def test_a_late_message_takes_nothing_back():
    it = clock()
    it.hear(10_000, 0, term=1)
    it.hear(10_001, 5_000, term=1)  # was under way for nearly five seconds
    assert it.now_ms(5_000) == 14_997


def test_a_new_leader_continues_where_the_old_one_stopped():
    it = clock()
    it.hear(10_000, 0, term=1)
    it.lead(wall_ms=99_999_999, steady_ms=2_000)  # its own wall clock is of no interest
    assert it.now_ms(2_000) == 11_999
    assert it.now_ms(3_000) == 12_999


def test_a_leader_that_steps_down_does_not_run_at_full_rate():
    it = clock()
    it.lead(wall_ms=0, steady_ms=0)
    it.follow(1_000)
    assert it.now_ms(1_001_000) == 1_000 + 999_500


def test_a_cold_start_adds_the_difference_of_its_own_wall_clock():
    it = clock()
    it.start_cold(stored_ms=10_000, stored_wall_ms=500, wall_ms=3_500, steady_ms=77)
    assert it.now_ms(77) == 13_000


def test_a_wall_clock_that_went_back_counts_as_no_time():
    it = clock()
    it.start_cold(stored_ms=10_000, stored_wall_ms=500, wall_ms=400, steady_ms=77)
    assert it.now_ms(77) == 10_000


def test_a_cold_start_is_forgotten_when_a_leader_is_heard():
    it = clock()
    it.start_cold(stored_ms=10_000, stored_wall_ms=0, wall_ms=3_600_000, steady_ms=0)
    it.hear(12_000, 10, term=1)
    assert it.now_ms(10) == 12_000


def test_a_steady_clock_that_steps_back_takes_no_time_back():
    it = clock()
    it.hear(10_000, 1_000, term=1)
    assert it.now_ms(500) == 10_000


def test_times_of_day_keep_their_distance_though_the_two_clocks_tremble():
    it = clock()
    told = [it.time_of_day_ms(now, 5_000 + now + off) for now, off in enumerate((0, -1, 1, 9, -9))]
    assert told == [5_000, 5_001, 5_002, 5_003, 5_004]


def test_a_wall_clock_that_was_set_is_followed():
    it = clock()
    assert it.time_of_day_ms(100, 5_100) == 5_100
    assert it.time_of_day_ms(200, 5_211) == 5_211
    assert it.time_of_day_ms(300, 5_300) == 5_300


def test_a_rate_error_must_be_a_fraction():
    with pytest.raises(ValueError, match="fraction"):
        ClusterClock(rate_error=1.0)


def test_only_the_last_leader_counts():
    """Its clock is behind the one before it, and so are the leases that it gives."""
    it = clock()
    it.hear(10_000, 0, term=1)
    it.hear(9_000, 10, term=2)
    assert it.now_ms(10) == 9_000
    it.lead(wall_ms=0, steady_ms=10)
    assert it.now_ms(10) == 9_000


@pytest.mark.parametrize("seed", range(50))
def test_no_change_of_leader_ends_a_lease_early(seed):
    """Clocks within the rate error of each other, any delays, leaders changing: between any two
    stamps no more cluster time passes than real time. Whoever takes over has heard, once at least,
    the leader before it; else it would lack its entries."""
    rng = random.Random(seed)
    rates = [1 + rng.uniform(-249e-6, 249e-6) for _ in range(3)]
    clocks = [clock() for _ in range(3)]
    real_ms, leader, term = 0.0, 0, 1
    heard = [1, 0, 0]  # the last term of which each node heard
    clocks[0].lead(wall_ms=1e12, steady_ms=0.0)
    sent: list[tuple[float, int, int, int]] = []
    ahead_ms = float("inf")  # the least stamp so far, less the real time that its leader measured
    for _ in range(300):
        real_ms += rng.choice([1, 20, 500, 60_000])
        steady = [real_ms * rate for rate in rates]
        shown = clocks[leader].now_ms(steady[leader])
        # What is heard was cut to whole milliseconds: a reading may err by one, to the late side.
        assert shown - real_ms * (1 + 249e-6) <= ahead_ms + 1
        ahead_ms = min(ahead_ms, shown - real_ms * (1 + 249e-6))
        sent += [(real_ms + rng.expovariate(1 / 300), to, shown, term) for to in range(3)]
        for item in [item for item in sent if item[0] <= real_ms]:
            sent.remove(item)
            _, to, leader_ms, of_term = item
            if to != leader and of_term >= heard[to]:
                clocks[to].hear(leader_ms, steady[to], term=of_term)
                heard[to] = of_term
                if of_term == term:
                    assert clocks[to].now_ms(steady[to]) <= shown + 1
        heir = rng.randrange(3)
        if rng.random() < 0.1 and heir != leader and heard[heir] == term:
            clocks[leader].follow(steady[leader])
            clocks[heir].lead(wall_ms=9e15, steady_ms=steady[heir])
            leader, term = heir, term + 1
            heard[heir] = term
