from __future__ import annotations

import pytest

from twofold.base.errors import ConfigError
from twofold.core.schedules import Schedule
from twofold.settings.config import load


def test_schedules_reach_their_end_exactly() -> None:
    assert Schedule(0.3)(1e9) == 0.3
    linear = Schedule(1.0, 0.2, over=10)
    assert [linear(0), linear(5), linear(10), linear(99)] == pytest.approx([1.0, 0.6, 0.2, 0.2])
    later = Schedule(1.0, 0.2, after=100, over=10)
    assert [later(0), later(100), later(105), later(110)] == pytest.approx([1.0, 1.0, 0.6, 0.2])
    assert Schedule(1.0, 0.01, over=2, shape="exponential")(1) == pytest.approx(0.1)


def test_an_exponential_schedule_cannot_end_at_zero() -> None:
    with pytest.raises(ConfigError, match="above 0"):
        Schedule(1.0, 0.0, shape="exponential")


def test_a_bare_number_is_a_schedule_that_never_moves() -> None:
    assert load("td3", "pendulum", learner={"expl_noise": 0.3}).config.learner.expl_noise == Schedule(0.3)


def test_a_part_of_a_schedule_keeps_the_defaults_of_its_setting() -> None:
    decay = load("td3", "pendulum", learner={"lr_decay": {"end": 0.1, "over": 50}}).config.learner.lr_decay
    assert decay == Schedule(1.0, 0.1, over=50, per="update")


def test_a_bare_number_replaces_all_of_a_schedule_that_a_preset_set() -> None:
    preset = load("td3_hardcore_long", "walker_hardcore").config.learner
    given = load("td3_hardcore_long", "walker_hardcore", learner={"expl_noise": 0.2}).config.learner
    assert preset.expl_noise == Schedule(0.25, 0.12, over=0.4, per="run")
    assert given.expl_noise == Schedule(0.2)
