"""Exactly once: the invariant at the head of origins.py, attacked."""

from __future__ import annotations

import random

from goblin_raft.entry import Proposal
from goblin_raft.origins import FORGET_AFTER_MS, Origins


def proposal(sequence: int, settled: int = 1, *, origin: str = "n1", boot: int = 7) -> Proposal:
    return Proposal(origin, boot, sequence, settled, [])


def test_the_first_copy_is_admitted_and_no_other():
    origins = Origins()
    assert origins.admit(proposal(1), 0)
    assert not origins.admit(proposal(1), 0)
    assert origins.admit(proposal(2), 0)
    assert not origins.admit(proposal(1), 0)
    assert not origins.admit(proposal(2), 0)


def test_proposals_may_overtake_each_other():
    origins = Origins()
    assert origins.admit(proposal(3), 0)
    assert origins.admit(proposal(1), 0)
    assert not origins.admit(proposal(3), 0)
    assert origins.admit(proposal(2), 0)
    assert origins.state() == [("n1", 7, 3, [], 0)]


def test_nodes_and_boots_count_for_themselves():
    origins = Origins()
    for origin in ("n1", "n2"):
        for boot in (7, 8):
            assert origins.admit(proposal(1, origin=origin, boot=boot), 0)


def test_what_its_origin_gave_up_is_not_applied_any_more():
    """Its client was told UNCERTAIN; a copy that turns up much later must not surprise it."""
    origins = Origins()
    assert origins.admit(proposal(1), 0)
    assert origins.admit(proposal(5, settled=5), 0)
    for sequence in (2, 3, 4):
        assert not origins.admit(proposal(sequence), 0)


def test_memory_is_bounded_by_what_is_under_way():
    """Sequences that never came up leave gaps, which `settled` closes."""
    origins = Origins()
    for sequence in range(2, 10_000, 2):
        assert origins.admit(proposal(sequence, settled=max(1, sequence - 6)), sequence)
    (state,) = origins.state()
    assert len(state[3]) <= 6


def test_random_networks_never_apply_twice():
    """Copies, reordering and settling as an origin does it, over many seeds."""
    for seed in range(200):
        rng = random.Random(seed)
        origins, applied, under_way, sequence = Origins(), [], {}, 0
        late = []
        for now_ms in range(120):
            if rng.random() < 0.5:
                sequence += 1
                under_way[sequence] = proposal(sequence, min(under_way, default=sequence))
            if under_way and rng.random() < 0.8:
                chosen = rng.choice(list(under_way.values()))
                late.append(chosen)
                if origins.admit(chosen, now_ms):
                    applied.append(chosen.sequence)
                if rng.random() < 0.7:
                    del under_way[chosen.sequence]
            if late and rng.random() < 0.5 and origins.admit(rng.choice(late), now_ms):
                raise AssertionError(f"seed {seed}: applied a copy")
            if rng.random() < 0.1:
                restored = Origins()
                restored.load(origins.state())
                origins = restored
        assert len(set(applied)) == len(applied), f"seed {seed}"


def test_a_boot_is_forgotten_when_it_was_replaced_and_silent_for_an_hour():
    origins = Origins()
    origins.admit(proposal(1, boot=7), 0)
    origins.admit(proposal(1, boot=8), 1000)
    origins.forget(FORGET_AFTER_MS - 1)
    assert len(origins) == 2
    assert not origins.admit(proposal(1, boot=7), FORGET_AFTER_MS - 1)  # it spoke: an hour more
    origins.admit(proposal(2, boot=8), FORGET_AFTER_MS)
    origins.forget(2 * FORGET_AFTER_MS - 2)
    assert len(origins) == 2
    origins.forget(2 * FORGET_AFTER_MS - 1)
    assert [state[1] for state in origins.state()] == [8]


def test_the_boot_that_was_heard_last_is_never_forgotten():
    """A node may be silent for a day and then send a copy; nobody has taken its place."""
    origins = Origins()
    origins.admit(proposal(1), 0)
    origins.admit(proposal(1, origin="n2"), 1000)
    origins.forget(100 * FORGET_AFTER_MS)
    assert not origins.admit(proposal(1), 100 * FORGET_AFTER_MS)


def test_forgetting_too_early_would_apply_a_copy_again():
    """What the invariant rests on: after it was forgotten, a boot's copy is taken for new."""
    origins = Origins()
    origins.admit(proposal(1, boot=7), 0)
    origins.admit(proposal(1, boot=8), 1)
    origins.forget(FORGET_AFTER_MS)
    assert origins.admit(proposal(1, boot=7), FORGET_AFTER_MS)


def test_what_is_settled_ends_before_the_number_given():
    origins = Origins()
    assert origins.admit(proposal(5, settled=4), 0)
    assert origins.admit(proposal(4, settled=4), 0)
    assert not origins.admit(proposal(3), 0)


def test_the_state_does_not_depend_on_the_order_of_arrival():
    """Numbers that fall into one slot of a small set, whose order then is that of arrival."""
    arrivals = [proposal(number) for number in (9, 17)] + [proposal(1, origin="n0")]
    one, other = Origins(), Origins()
    for each in arrivals:
        one.admit(each, 4)
    for each in reversed(arrivals):
        other.admit(each, 4)
    assert one.state() == other.state()
