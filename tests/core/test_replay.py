from __future__ import annotations

import numpy as np
import pytest
from parts import batch

from twofold.base import tree
from twofold.core.experience import Transition
from twofold.core.replay import MixedRing, PrioritisedRing, ReplayConfig, Ring


def numbered(first: int, count: int) -> Transition:
    """Items whose reward is their number."""
    items = batch(count)
    return Transition(
        items.obs,
        items.action,
        np.arange(first, first + count, dtype=np.float32),
        items.next_obs,
        items.terminated,
        items.discount,
    )


def ring(capacity: int, seed: int = 0) -> Ring:
    return Ring(capacity, batch(0), np.random.default_rng(seed))


def test_a_batch_has_the_items_that_were_added() -> None:
    replay, items = ring(10), batch(4)
    replay.add(items)
    assert tree.equal(tree.copy(replay.take(np.arange(4))), items)


def test_the_oldest_items_are_overwritten_first() -> None:
    replay = ring(5)
    for i in range(0, 8, 2):
        replay.add(numbered(i, 2))
    assert sorted(replay.take(np.arange(5)).reward) == [3, 4, 5, 6, 7]
    assert len(replay) == 5 and replay.added == 8


def test_sampling_is_uniform_over_what_is_held() -> None:
    replay = ring(100)
    replay.add(numbered(0, 10))
    drawn = np.bincount(replay.sample(20_000).reward.astype(int), minlength=10)
    assert drawn.min() > 1800 and drawn.max() < 2200


def test_without_replacement_a_batch_has_distinct_items() -> None:
    replay = Ring(10, batch(0), np.random.default_rng(0), replace=False)
    replay.add(numbered(0, 10))
    assert sorted(replay.sample(10).reward) == list(range(10))


def test_an_empty_replay_says_what_to_do() -> None:
    with pytest.raises(ValueError, match=r"holds 0 items, cannot sample 4; raise trainer\.warmup"):
        ring(10).sample(4)


def test_nested_observations_and_other_dtypes_are_kept() -> None:
    item = {"obs": {"image": np.zeros((0, 2, 2), np.uint8), "speed": np.zeros((0, 3), np.float32)}}
    replay = Ring(4, item, np.random.default_rng(0))
    image, speed = np.arange(8, dtype=np.uint8).reshape(2, 2, 2), np.ones((2, 3), np.float32)
    replay.add({"obs": {"image": image, "speed": speed}})
    got = replay.take(np.array([1, 0]))
    assert np.array_equal(got["obs"]["image"], image[::-1]) and got["obs"]["image"].dtype == np.uint8


def test_a_million_halfcheetah_transitions_take_at_most_a_tenth_more_than_raw_float32() -> None:
    sizes = {"obs": (0, 17), "action": (0, 6), "reward": (0,), "next_obs": (0, 17), "terminated": (0,)}
    fields = {name: np.zeros(shape, np.float32) for name, shape in sizes.items()}
    replay = Ring(1_000_000, Transition(**fields, discount=np.zeros(0, np.float32)), np.random.default_rng(0))
    raw = 1_000_000 * 4 * (17 + 6 + 1 + 17 + 1)
    assert replay.nbytes <= 1.1 * raw


@pytest.mark.parametrize("added", [3, 10, 17, 40])
def test_segments_bring_back_the_same_ring(added: int) -> None:
    one, other = ring(10), ring(10)
    one.segment_items = other.segment_items = 4
    for i in range(added):
        one.add(numbered(i, 1))
    pieces = [one.segment(a, b) for a, b in one.segments()]
    other.load_state_dict(one.state_dict())
    for piece in pieces:
        other.load_segment(piece)
    assert tree.equal(tree.copy(one.take(np.arange(len(one)))), other.take(np.arange(len(other))))


def test_full_segments_do_not_change_when_items_are_added() -> None:
    replay = ring(100)
    replay.segment_items = 4
    replay.add(numbered(0, 10))
    before = [(a, b) for a, b in replay.segments() if b - a == 4]
    old = [replay.segment(a, b) for a, b in before]
    replay.add(numbered(10, 10))
    assert replay.segments()[: len(before)] == before
    assert all(tree.equal(x, replay.segment(a, b)) for x, (a, b) in zip(old, before, strict=True))


def test_prioritised_items_come_in_proportion_to_their_priority() -> None:
    replay = PrioritisedRing(10, batch(0), np.random.default_rng(0), alpha=1.0, min_priority=1.0)
    replay.add(numbered(0, 2))
    replay.sampled = np.array([0, 1])
    replay.reprioritise(np.array([3.0, 0.1]))  # 0.1 is below the floor of 1
    drawn = np.bincount(replay.sample(20_000).reward.astype(int))
    assert drawn[0] / drawn[1] == pytest.approx(3.0, rel=0.1)


def test_new_items_get_the_highest_priority_seen() -> None:
    replay = PrioritisedRing(10, batch(0), np.random.default_rng(0), alpha=1.0, min_priority=1.0)
    replay.add(numbered(0, 1))
    replay.sampled = np.array([0])
    replay.reprioritise(np.array([9.0]))
    replay.add(numbered(1, 1))
    assert replay.state_dict()["priority"].tolist() == [9.0, 9.0]


def test_part_of_a_batch_comes_from_the_newest_items() -> None:
    cfg = ReplayConfig(recent_share=0.5, recent_items=10)
    replay = MixedRing(1000, batch(0), np.random.default_rng(0), cfg)
    replay.add(numbered(0, 1000))
    drawn = replay.sample(1000).reward
    assert (drawn[:500] >= 990).all() and drawn[500:].mean() == pytest.approx(500, rel=0.1)


def test_part_of_a_batch_comes_from_the_steps_before_real_ends() -> None:
    cfg = ReplayConfig(ending_share=0.5, ending_steps=3)
    replay = MixedRing(100, batch(0), np.random.default_rng(0), cfg)
    for i in range(150):  # one item at a time; item 120 ended an episode, item 20 is overwritten by now
        items = numbered(i, 1)
        items.terminated[:] = i in (20, 120)
        replay.add(items)
    assert set(replay.sample(200).reward[:100]) == {118, 119, 120}


def test_ends_with_a_good_reward_do_not_count_where_only_falls_shall() -> None:
    cfg = ReplayConfig(ending_share=0.5, ending_steps=2, ending_below=30)
    replay = MixedRing(100, batch(0), np.random.default_rng(0), cfg)
    for i in range(80):  # numbered's reward is the item's number: the end at 60 is a good one
        items = numbered(i, 1)
        items.terminated[:] = i in (20, 60)
        replay.add(items)
    assert set(replay.sample(200).reward[:100]) == {19, 20}
