"""Prioritised replay: exactly distributed, exact in a resume, and no outlier rules it for ever."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from parts import batch, numbered, written

from twofold.base.errors import ConfigError
from twofold.core.experience import Transition
from twofold.core.replay import ReplayConfig, Ring
from twofold.sampling.choose import make_replay
from twofold.sampling.mixed import MixedRing
from twofold.sampling.prioritised import PrioritisedRing


class Saying:
    """A learner that says these priorities."""

    def __init__(self, *priorities: float, lowest: float | None = 1.0) -> None:
        self._priorities, self.lowest_priority = np.array(priorities, np.float32), lowest

    def priorities(self) -> Any:
        return self._priorities


def ring(capacity: int, seed: int = 0, **settings: Any) -> PrioritisedRing:
    cfg = ReplayConfig(batch_size=1, buffer_size=capacity, **settings)
    return PrioritisedRing(capacity, batch(0), np.random.default_rng(seed), cfg, lowest=1.0)


def prioritise(replay: PrioritisedRing, at: list[int], *priorities: float) -> None:
    replay.sampled = np.array(at)
    replay.learned(Saying(*priorities))  # type: ignore[arg-type]


def shares(replay: PrioritisedRing, size: int = 40_000) -> Any:
    drawn = np.bincount(replay.sample(size).reward.astype(int), minlength=int(replay.added))
    return drawn / size


def test_items_are_drawn_in_proportion_to_their_priorities() -> None:
    replay = ring(10)
    replay.add(written(numbered(0, 4)))
    prioritise(replay, [0, 1, 2, 3], 1.0, 2.0, 3.0, 10.0)
    assert shares(replay) == pytest.approx([1 / 16, 2 / 16, 3 / 16, 10 / 16], abs=0.01)


def test_new_items_have_the_highest_priority() -> None:
    replay = ring(10)
    replay.add(written(numbered(0, 1)))
    prioritise(replay, [0], 9.0)
    replay.add(written(numbered(1, 1)))
    assert replay.state_dict()["priority"].tolist() == [9.0, 9.0]


def test_the_highest_priority_falls_when_its_item_has_got_a_lower_one() -> None:
    replay = ring(10)
    replay.add(written(numbered(0, 2)))
    for priority in (9.0, *[2.0] * 249):  # the 250th batch looks the highest up again
        prioritise(replay, [0], priority)
    replay.add(written(numbered(2, 1)))
    assert replay.state_dict()["priority"].tolist() == [2.0, 1.0, 2.0]


def test_a_share_of_the_newest_items_is_drawn_by_priority_too() -> None:
    replay = ring(5, recent_share=0.5, recent_items=2)
    replay.add(written(numbered(0, 7)))  # 2 to 6 are held, 5 and 6 are the newest
    prioritise(replay, [1, 0, 2, 3, 4], 3.0, 1.0, 1.0, 1.0, 1.0)  # items 6, 5, 2, 3, 4
    everywhere, newest = np.array([0, 0, 1, 1, 1, 1, 3]) / 7, np.array([0, 0, 0, 0, 0, 1, 3]) / 4
    assert shares(replay) == pytest.approx((everywhere + newest) / 2, abs=0.01)


def test_an_overwritten_item_leaves_its_priority_to_nobody() -> None:
    replay = ring(2)
    replay.add(written(numbered(0, 2)))
    prioritise(replay, [0, 1], 4.0, 2.0)
    replay.add(written(numbered(2, 2)))
    assert shares(replay)[2:] == pytest.approx([0.5, 0.5], abs=0.01)


def test_sampling_goes_on_exactly_from_its_state() -> None:
    one, other = ring(50, seed=3), ring(50, seed=3)
    one.add(written(numbered(0, 70)))
    one.sample(8)
    one.learned(Saying(*np.linspace(1, 50, 8)))  # type: ignore[arg-type]
    for piece in one.segments():
        other.load_segment(one.segment(*piece))
    other.load_state_dict(one.state_dict())
    other.rng.bit_generator.state = one.rng.bit_generator.state
    assert np.array_equal(one.sample(30).reward.copy(), other.sample(30).reward)
    for replay in (one, other):
        replay.learned(Saying(*[2.0] * 30))  # type: ignore[arg-type]
        replay.add(written(numbered(70, 5)))
    assert np.array_equal(one.sample(30).reward.copy(), other.sample(30).reward)


def test_a_draw_costs_no_more_where_more_is_held() -> None:
    """Candidates that are looked at, not seconds: the same number for a hundred and for a hundred thousand items."""
    looked = []
    for held in (100, 100_000):
        replay = ring(held)
        replay.add(written(numbered(0, held)))
        accepted, count = replay._accepted, []
        replay._accepted = lambda first, n, f=accepted, c=count: (c.append(n), f(first, n))[1]  # type: ignore[method-assign, misc]
        replay.sample(64)
        looked.append(sum(count))
    assert looked[0] == looked[1] <= 4 * 64


@pytest.mark.parametrize(
    ("settings", "lowest", "kind"),
    [({}, None, Ring), ({"recent_share": 0.1}, None, MixedRing), ({}, 1.0, PrioritisedRing)],
)
def test_the_learner_says_whether_it_has_priorities(settings: Any, lowest: float | None, kind: type) -> None:
    cfg, learner = ReplayConfig(**settings, buffer_size=300), Saying(lowest=lowest)
    made: Ring[Transition] = make_replay(cfg, learner, batch(0), np.random.default_rng(0))  # type: ignore[arg-type]
    assert type(made) is kind


def test_distinct_items_and_priorities_do_not_go_together() -> None:
    cfg = ReplayConfig(replace=False, buffer_size=300)
    with pytest.raises(ConfigError, match=r"set it to true, or learner\.priority=0"):
        make_replay(cfg, Saying(), batch(0), np.random.default_rng(0))  # type: ignore[arg-type]
