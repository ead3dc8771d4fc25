from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from parts import Counter

from twofold.base.errors import ConfigError, WorldError
from twofold.control.worlds import GymConfig, UnitActions, gym_world, make_env
from twofold.rows.check import check_world


def test_actions_are_scaled_per_dimension_and_may_be_asymmetric() -> None:
    env = Counter(low=[-2.0, 0.0], high=[2.0, 10.0])
    unit = UnitActions(env)
    unit.reset(seed=0)
    for action in ([-1, -1], [1, 1], [0, 0], [5, -5]):
        unit.step(np.array(action, np.float32))
    assert np.array(env.actions).tolist() == [[-2, 0], [2, 10], [0, 5], [2, 0]]


def test_discrete_actions_are_refused_with_the_space_named() -> None:
    with pytest.raises(
        WorldError, match=r"CartPole-v1 has the action space Discrete\(2\); TD3 needs continuous"
    ):
        make_env(GymConfig(id="CartPole-v1"), "train")


def test_an_unknown_environment_gets_a_suggestion() -> None:
    with pytest.raises(
        WorldError, match="no Gymnasium environment 'Pendulam-v1'; did you mean 'Pendulum-v1'"
    ):
        make_env(GymConfig(id="Pendulam-v1"), "train")


def test_a_version_that_is_gone_names_the_newest() -> None:
    with pytest.raises(WorldError, match="'HalfCheetah-v1'; did you mean 'HalfCheetah-v5'"):
        make_env(GymConfig(id="HalfCheetah-v1"), "train")


def test_an_id_that_would_import_code_is_refused() -> None:
    with pytest.raises(ConfigError, match="--import=MODULE"):
        GymConfig(id="os:Pendulum-v1")


def test_unknown_arguments_of_an_environment_are_named() -> None:
    with pytest.raises(WorldError, match=r"does not take env_args\.kwargs"):
        make_env(GymConfig(id="Pendulum-v1", kwargs={"gravitas": 3}), "train")


@pytest.mark.parametrize("name", ["Pendulum-v1", "HalfCheetah-v5", "Hopper-v5"])
def test_worlds_keep_the_contract(name: str) -> None:
    world = gym_world(GymConfig(id=name), rows=2, purpose="train")
    assert check_world(world, steps=60) == []
    world.close()


def test_a_reused_bipedal_walker_breaks_the_contract_and_a_fresh_one_keeps_it() -> None:
    fresh = gym_world(GymConfig(id="BipedalWalker-v3", fresh=True), rows=1, purpose="train")
    assert check_world(fresh, steps=120) == []


def test_the_fall_penalty_is_softened_in_training_only() -> None:
    class Falls(Counter):
        def step(self, action: Any) -> Any:
            obs, _, terminated, truncated, info = super().step(action)
            return obs, -100.0 if terminated else 1.0, terminated, truncated, info

    gym.register("Falls-v0", partial(Falls, 1))
    rewards = {}
    for purpose in ("train", "eval"):
        env = make_env(GymConfig(id="Falls-v0", fall_penalty=-1.0), purpose)
        env.reset(seed=0)
        rewards[purpose] = env.step(np.zeros(2, np.float32))[1]
    assert rewards == {"train": -1.0, "eval": -100.0}


def test_image_like_observations_are_flattened() -> None:
    class Square(Counter):
        observation_space = gym.spaces.Box(-1, 1, (2, 2), np.float32)

        def __init__(self) -> None:
            super().__init__()
            self.observation_space = gym.spaces.Box(-9, 9, (2, 2), np.float32)

        def _obs(self, last: float) -> Any:
            return np.full((2, 2), last, np.float32)

    gym.register("Square-v0", Square)
    world = gym_world(GymConfig(id="Square-v0"), rows=1, purpose="train")
    assert world.single_observation_space.shape == (4,)


@pytest.mark.parametrize(("kwargs", "follows"), [({}, True), ({"camera_id": -1}, False)])
def test_the_camera_follows_a_mujoco_body_unless_one_is_asked_for(
    kwargs: dict[str, Any], follows: bool
) -> None:
    env = make_env(GymConfig(id="Walker2d-v5", kwargs=kwargs), "eval", "rgb_array")
    renderer: Any = env.unwrapped.mujoco_renderer  # type: ignore[attr-defined]
    assert (renderer.camera_id == renderer.model.camera("track").id) is follows
    env.close()


@pytest.mark.parametrize(("body", "kwargs"), [("HalfCheetah-v5", {}), ("Ant-v5", {"camera_id": -1})])
def test_the_floor_of_a_film_has_no_end_and_a_body_moves_on_it_as_ever(
    body: str, kwargs: dict[str, Any]
) -> None:
    filmed, plain = (
        make_env(GymConfig(id=body, kwargs=kwargs), "eval", mode) for mode in ("rgb_array", None)
    )
    floors = filmed.unwrapped.model.geom_type == 0  # type: ignore[attr-defined]
    assert floors.any() and not filmed.unwrapped.model.geom_size[floors, :2].any()  # type: ignore[attr-defined]
    rng = np.random.default_rng(0)
    assert np.array_equal(filmed.reset(seed=1)[0], plain.reset(seed=1)[0])
    for _ in range(30):
        action = rng.uniform(-1, 1, filmed.action_space.shape).astype(np.float32)  # type: ignore[arg-type]
        (there, reward, *_), (here, same, *_) = filmed.step(action), plain.step(action)
        assert np.array_equal(there, here) and reward == same
    filmed.close()
    plain.close()


class Small(gym.Env[np.ndarray, np.ndarray]):
    """An environment that is in order but for what a test changes."""

    observation_space: gym.Space[np.ndarray] = gym.spaces.Box(-1, 1, (3,), np.float32)
    action_space: gym.Space[np.ndarray] = gym.spaces.Box(-1, 1, (1,), np.float32)


class NoSpaces(gym.Env[np.ndarray, np.ndarray]):
    pass


class OddSpace(Small):
    observation_space = (3,)  # type: ignore[assignment]  # what is tested


class NoSeed(Small):
    def reset(self) -> tuple[np.ndarray, dict[str, object]]:  # type: ignore[override]  # what is tested
        return np.zeros(3, np.float32), {}


class WholeNumbers(Small):
    action_space = gym.spaces.Box(0, 5, (1,), np.int64)


class NoActions(Small):
    action_space = gym.spaces.Box(-1, 1, (0,), np.float32)


class WideActions(Small):
    action_space = gym.spaces.Box(-1e300, 1e300, (1,), np.float64)


class TooWide(Small):
    action_space = gym.spaces.Box(-3e38, 3e38, (1,), np.float32)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (NoSpaces, "has no observation_space: set it"),
        (OddSpace, "observation_space is a tuple, not a gymnasium space"),
        (NoSeed, r"reset takes no seed and options; Gymnasium's is reset\(self"),
        (WholeNumbers, "TD3 needs continuous actions"),
        (NoActions, "has no actions"),
        (WideActions, "without finite bounds"),
        (TooWide, "without finite bounds"),
    ],
)
def test_a_class_that_is_no_environment_yet_is_one_line(made: type[Small], words: str) -> None:
    with pytest.raises(WorldError, match=words):
        make_env(GymConfig(), "train", make=made)
