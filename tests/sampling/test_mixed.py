"""Batches that look back: shares of the newest items and of the steps before real ends."""

from __future__ import annotations

import numpy as np
import pytest
from parts import ACTIONS, OBS, batch, numbered, written

from twofold.core.experience import Steps
from twofold.core.replay import ReplayConfig
from twofold.core.writers import TransitionWriter
from twofold.sampling.mixed import MixedRing


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
