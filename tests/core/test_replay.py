from __future__ import annotations

import numpy as np
import pytest
from parts import ACTIONS, OBS, batch, written

from twofold.base import tree
from twofold.core.experience import Steps, Transition
from twofold.core.replay import MixedRing, ReplayConfig, Ring
from twofold.core.writers import TransitionWriter


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


def ring(capacity: int, seed: int = 0) -> Ring[Transition]:
    return Ring(capacity, batch(0), np.random.default_rng(seed))


def test_a_batch_has_the_items_that_were_added() -> None:
    replay, items = ring(10), batch(4)
    replay.add(written(items))
    assert tree.equal(tree.copy(replay.take(np.arange(4))), items)


def test_the_oldest_items_are_overwritten_first() -> None:
    replay = ring(5)
    for i in range(0, 8, 2):
        replay.add(written(numbered(i, 2)))
    assert sorted(replay.take(np.arange(5)).reward) == [3, 4, 5, 6, 7]
    assert len(replay) == 5 and replay.added == 8


def test_sampling_is_uniform_over_what_is_held() -> None:
    replay = ring(100)
    replay.add(written(numbered(0, 10)))
    drawn = np.bincount(replay.sample(20_000).reward.astype(int), minlength=10)
    assert drawn.min() > 1800 and drawn.max() < 2200


def test_without_replacement_a_batch_has_distinct_items() -> None:
    replay = Ring(10, batch(0), np.random.default_rng(0), replace=False)
    replay.add(written(numbered(0, 10)))
    assert sorted(replay.sample(10).reward) == list(range(10))


def test_an_empty_replay_says_what_to_do() -> None:
    with pytest.raises(ValueError, match=r"holds 0 items, cannot sample 4; raise trainer\.warmup"):
        ring(10).sample(4)


def test_nested_observations_and_other_dtypes_are_kept() -> None:
    item = {"obs": {"image": np.zeros((0, 2, 2), np.uint8), "speed": np.zeros((0, 3), np.float32)}}
    replay = Ring(4, item, np.random.default_rng(0))
    image, speed = np.arange(8, dtype=np.uint8).reshape(2, 2, 2), np.ones((2, 3), np.float32)
    replay.add(written({"obs": {"image": image, "speed": speed}}))
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
        one.add(written(numbered(i, 1)))
    pieces = [one.segment(a, b) for a, b in one.segments()]
    other.load_state_dict(one.state_dict())
    for piece in pieces:
        other.load_segment(piece)
    assert tree.equal(tree.copy(one.take(np.arange(len(one)))), other.take(np.arange(len(other))))


def test_full_segments_do_not_change_when_items_are_added() -> None:
    replay = ring(100)
    replay.segment_items = 4
    replay.add(written(numbered(0, 10)))
    before = [(a, b) for a, b in replay.segments() if b - a == 4]
    old = [replay.segment(a, b) for a, b in before]
    replay.add(written(numbered(10, 10)))
    assert replay.segments()[: len(before)] == before
    assert all(tree.equal(x, replay.segment(a, b)) for x, (a, b) in zip(old, before, strict=True))


def test_part_of_a_batch_comes_from_the_newest_items() -> None:
    cfg = ReplayConfig(recent_share=0.5, recent_items=10)
    replay = MixedRing(1000, batch(0), np.random.default_rng(0), cfg)
    replay.add(written(numbered(0, 1000)))
    drawn = replay.sample(1000).reward
    assert (drawn[:500] >= 990).all() and drawn[500:].mean() == pytest.approx(500, rel=0.1)


def test_part_of_a_batch_comes_from_the_steps_before_real_ends() -> None:
    cfg = ReplayConfig(ending_share=0.5, ending_steps=3)
    replay = MixedRing(100, batch(0), np.random.default_rng(0), cfg)
    for i in range(150):  # one item at a time; item 120 ended an episode, item 20 is overwritten by now
        items = numbered(i, 1)
        items.terminated[:] = i in (20, 120)
        replay.add(written(items, last=bool(items.terminated[0])))
    assert set(replay.sample(200).reward[:100]) == {118, 119, 120}


def test_ends_with_a_good_reward_do_not_count_where_only_falls_shall() -> None:
    cfg = ReplayConfig(ending_share=0.5, ending_steps=2, ending_below=30)
    replay = MixedRing(100, batch(0), np.random.default_rng(0), cfg)
    for i in range(80):  # numbered's reward is the item's number: the end at 60 is a good one
        items = numbered(i, 1)
        items.terminated[:] = i in (20, 60)
        replay.add(written(items, last=bool(items.terminated[0])))
    assert set(replay.sample(200).reward[:100]) == {19, 20}


@pytest.mark.parametrize("n_step", [1, 3, 5])
def test_steps_before_ends_are_those_of_the_rows_that_ended(n_step: int) -> None:
    """Four rows whose episodes end at different steps; the first observation says row, episode and step."""
    rng, ending, lengths = np.random.default_rng(0), 4, np.array([7, 11, 13, 9])
    cfg = ReplayConfig(ending_share=0.5, ending_steps=ending, buffer_size=400)
    writer = TransitionWriter(4, OBS, ACTIONS, n_step=n_step, gamma=0.9)
    replay = MixedRing(400, writer.blank(), rng, cfg)
    step, episode = np.zeros(4, int), np.zeros(4, int)
    for _ in range(300):
        obs = np.stack([np.arange(4), episode, step], axis=1).astype(np.float32)
        step += 1
        over = step == lengths
        fell = over & (episode % 2 == 0)  # every second episode is cut by time instead
        written = writer.step(
            Steps(obs, np.zeros((4, 2), np.float32), np.zeros(4), obs, fell, over & ~fell, np.ones(4, bool))
        )
        if written is not None:
            replay.add(written)
        episode += over
        step[over] = 0
    drawn = replay.sample(2000).obs[:1000]
    assert len(np.unique(drawn[:, 0])) == 4
    assert (drawn[:, 1] % 2 == 0).all()
    before = lengths[drawn[:, 0].astype(int)] - drawn[:, 2]
    assert sorted(np.unique(before)) == [1, 2, 3, 4]


def test_where_steps_before_ends_are_overwritten_only_those_still_held_come() -> None:
    cfg = ReplayConfig(ending_share=0.5, ending_steps=50, buffer_size=20, batch_size=4)
    replay = MixedRing(20, batch(0), np.random.default_rng(0), cfg)
    for i in range(60):
        items = numbered(i, 1)
        items.terminated[:] = i == 49
        replay.add(written(items, last=i == 49))
    assert set(replay.sample(400).reward[:200]) == set(range(40, 50))


def test_a_mixed_replay_is_resumed_exactly() -> None:
    cfg = ReplayConfig(ending_share=0.5, recent_share=0.2, ending_steps=5, buffer_size=40, batch_size=4)
    one, other = (MixedRing(40, batch(0), np.random.default_rng(0), cfg) for _ in range(2))
    for i in range(30):
        items = numbered(i, 1)
        items.terminated[:] = i % 9 == 8
        one.add(written(items, row=i % 2, last=i % 9 == 8))
    other.load_state_dict(one.state_dict())
    for start, stop in one.segments():
        other.load_segment(one.segment(start, stop))
    for replay in (one, other):
        items = numbered(30, 1)
        items.terminated[:] = 1
        replay.add(written(items, row=1, last=True))
    assert np.array_equal(one.sample(100).reward.copy(), other.sample(100).reward)
