from __future__ import annotations

import numpy as np
import pytest
from parts import batch, numbered, written

from twofold.base import tree
from twofold.core.experience import Transition
from twofold.core.replay import Ring


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
