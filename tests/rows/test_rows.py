from __future__ import annotations

import functools

import gymnasium as gym
import numpy as np
import pytest
from parts import Counter

from twofold.base import tree
from twofold.core.protocols import Clocked, World
from twofold.rows.check import check_world
from twofold.rows.envs import EnvRows
from twofold.rows.workers import WorkerRows

ALL = np.ones(2, bool)


def worlds(kind: str) -> World:
    make = functools.partial(Counter, 5, False)
    return EnvRows(make, 2) if kind == "rows" else WorkerRows(make, 2, 2)  # type: ignore[return-value]


@pytest.fixture(params=["rows", "workers"], scope="module")
def world(request: pytest.FixtureRequest) -> World:
    made = worlds(request.param)
    yield made
    made.close()


def test_the_last_observation_of_an_episode_is_the_true_one(world: World) -> None:
    world.reset(seed=[1, 2], options={"reset_mask": ALL})
    for _ in range(5):
        obs, _, terminated, truncated, info = world.step(np.zeros((2, 2), np.float32))
    assert obs[:, 1].tolist() == [5, 5]
    assert truncated.all() and not terminated.any()
    assert info["episode"]["won"].tolist() == [1, 1]


def test_reset_starts_only_the_rows_of_the_mask(world: World) -> None:
    world.reset(seed=[1, 2], options={"reset_mask": ALL})
    world.step(np.zeros((2, 2), np.float32))
    obs, _ = world.reset(seed=[3, 3], options={"reset_mask": np.array([False, True])})
    assert obs[:, 1].tolist() == [1, 0]


def test_a_snapshot_in_the_middle_of_episodes_is_exact(world: World) -> None:
    rng = np.random.default_rng(0)
    actions = [rng.uniform(-1, 1, (2, 2)).astype(np.float32) for _ in range(4)]
    world.reset(seed=[1, 2], options={"reset_mask": ALL})
    world.step(actions[0])
    world.reset(seed=[5, 6], options={"reset_mask": np.array([True, False])})  # rows at different steps
    world.step(actions[1])
    snapshot = world.snapshot()
    wanted = tree.copy(world.step(actions[2])[0])
    world.restore(snapshot)
    assert tree.equal(wanted, world.step(actions[2])[0])


def test_the_same_seed_gives_the_same_episode_in_any_row(world: World) -> None:
    obs, _ = world.reset(seed=[8, 8], options={"reset_mask": ALL})
    assert np.array_equal(obs[0], obs[1])


def test_the_contract_is_kept(world: World) -> None:
    assert check_world(world, steps=20) == []


def test_a_fresh_environment_is_made_for_every_episode() -> None:
    made: list[Counter] = []

    def make() -> Counter:
        made.append(Counter())
        return made[-1]

    world = EnvRows(make, 1, fresh=True)
    for seed in range(3):
        world.reset(seed=[seed], options={"reset_mask": np.ones(1, bool)})
    assert len(made) == 3


def test_float64_observations_become_float32() -> None:
    world = worlds("rows")
    obs, _ = world.reset(seed=[1, 2], options={"reset_mask": ALL})
    assert obs.dtype == np.float32


def test_check_world_finds_a_world_that_draws_from_elsewhere() -> None:
    rng = np.random.default_rng()

    class Careless(Counter):
        def step(self, action):  # type: ignore[no-untyped-def]
            obs, reward, terminated, truncated, info = super().step(action)
            return obs + rng.random(), reward, terminated, truncated, info

    problems = check_world(EnvRows(Careless, 1), steps=20)
    assert len(problems) == 1 and "not a function of (seed, actions)" in problems[0]


def test_check_world_names_a_wrong_shape_and_a_nan() -> None:
    class Wrong(Counter):
        def step(self, action):  # type: ignore[no-untyped-def]
            obs, reward, terminated, truncated, info = super().step(action)
            return obs * np.nan, reward, terminated, truncated, info

    assert "holds NaN" in check_world(EnvRows(Wrong, 1), steps=5)[0]


@pytest.mark.parametrize("kind", ["rows", "workers"])
def test_a_world_of_single_environments_has_their_clock(kind: str) -> None:
    make = functools.partial(gym.make, "Pendulum-v1")
    made: World = EnvRows(make, 2) if kind == "rows" else WorkerRows(make, 2, 1)  # type: ignore[assignment]
    assert isinstance(made, Clocked) and made.step_seconds == 1 / 30
    made.close()


def test_an_environment_without_a_rate_has_no_clock(world: World) -> None:
    assert isinstance(world, Clocked) and world.step_seconds is None
