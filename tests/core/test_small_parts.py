"""Seeding, schedules, registry and spaces."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from twofold.base.errors import ConfigError
from twofold.core.schedules import Schedule
from twofold.core.seeding import Generators, final_seeds, validation_seeds
from twofold.settings.registry import Registry, learners
from twofold.store import spaces


def test_generators_depend_on_seed_and_name_alone() -> None:
    assert Generators(1)["a"].random() == Generators(1)["a"].random()
    assert Generators(1)["a"].random() != Generators(1)["b"].random()
    assert Generators(1)["a"].random() != Generators(2)["a"].random()


def test_generators_go_on_after_a_save() -> None:
    one = Generators(0)
    one["a"].random(7)
    state = one.state_dict()
    wanted = one["a"].random(3)
    other = Generators(0)
    other.load_state_dict(state)
    assert np.array_equal(other["a"].random(3), wanted)


def test_validation_and_test_seeds_are_disjoint() -> None:
    assert not set(validation_seeds(10_000)) & set(final_seeds(10_000))


def test_schedules_reach_their_end_exactly() -> None:
    assert Schedule("constant", 0.3)(1e9) == 0.3
    linear = Schedule("linear", 1.0, 0.2, over=10)
    assert [linear(0), linear(5), linear(10), linear(99)] == pytest.approx([1.0, 0.6, 0.2, 0.2])
    assert Schedule("exponential", 1.0, 0.01, over=2)(1) == pytest.approx(0.1)


def test_an_exponential_schedule_cannot_end_at_zero() -> None:
    with pytest.raises(ConfigError, match="above 0"):
        Schedule("exponential", 1.0, 0.0)


def test_an_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(ConfigError, match="no learner named 'tdd3'; did you mean 'td3'"):
        learners.get("tdd3")


def test_a_registered_thing_is_found_with_its_settings() -> None:
    registry = Registry("thing", home="nets")

    @registry.register("mine/one", config=dict, colour="red")
    def make() -> int:
        """Makes one."""
        return 1

    entry = registry.get("mine/one")
    assert (entry.make(), entry.config, entry.doc, entry.about) == (1, dict, "Makes one.", {"colour": "red"})


@pytest.mark.parametrize(
    "space",
    [
        gym.spaces.Box(-np.inf, np.inf, (3,), np.float32),
        gym.spaces.Box(np.array([-1, -2], np.float32), np.array([3, 4], np.float32)),
        gym.spaces.Discrete(4),
        gym.spaces.MultiDiscrete([3, 5]),
        gym.spaces.Dict({"a": gym.spaces.Discrete(2), "b": gym.spaces.Box(0, 1, (2, 2), np.float32)}),
    ],
)
def test_spaces_survive_json(space: gym.Space) -> None:  # type: ignore[type-arg]
    assert spaces.from_json(spaces.to_json(space)) == space
