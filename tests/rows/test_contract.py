"""What an environment gives is checked where it enters: in this process, in workers, and by `twofold check`."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, VectorEnv
from parts import Counter

from twofold.base.errors import WorldError
from twofold.rows.check import check_world
from twofold.rows.envs import EnvRows
from twofold.rows.workers import WorkerRows

SEED = 7
# What the second step gives in place of (obs, reward, terminated, truncated, info), and the words for it.
FAULTS: dict[str, tuple[Any, str]] = {
    "one number": ((np.zeros(1), 1.0, False, False, {}), r"the observation has the shape \(1,\), \(3,\)"),
    "no axis": ((np.zeros(()), 1.0, False, False, {}), r"the observation has the shape \(\), \(3,\)"),
    "one axis more": ((np.zeros((1, 3)), 1.0, False, False, {}), r"has the shape \(1, 3\), \(3,\)"),
    "longer": ((np.zeros(4), 1.0, False, False, {}), r"has the shape \(4,\), \(3,\)"),
    "complex": ((np.zeros(3, complex), 1.0, False, False, {}), "the observation holds complex numbers"),
    "text": ((["1", "2", "3"], 1.0, False, False, {}), "the observation holds text"),
    "none": ((None, 1.0, False, False, {}), "the observation holds objects"),
    "text reward": ((np.zeros(3), "1.5", False, False, {}), "the reward holds text"),
    "two rewards": ((np.zeros(3), np.ones(2), False, False, {}), r"the reward has the shape \(2,\)"),
    "a reward of one": ((np.zeros(3), np.ones(1), False, False, {}), r"the reward has the shape \(1,\)"),
    "text flag": ((np.zeros(3), 1.0, "no", False, {}), "the flag `terminated` holds text"),
    "number flag": ((np.zeros(3), 1.0, False, 2, {}), "the flag `truncated` is neither true nor false: 2"),
    "four parts": ((np.zeros(3), 1.0, False, {}), "step gave .* has five parts"),
    "nothing": (None, "step gave None, Gymnasium's has five parts"),
    "no info": ((np.zeros(3), 1.0, False, False, None), "info must be a dictionary"),
    "text metric": ((np.zeros(3), 1.0, False, False, {"episode": {"won": "yes"}}), r"'won'.*is not a number"),
}


class Wrong(Counter):
    """Right for one step, then as it is told."""

    def __init__(self, fault: str) -> None:
        super().__init__(5)
        self.fault = fault

    def step(self, action: Any) -> Any:
        right = super().step(action)
        return FAULTS[self.fault][0] if self.steps == 2 else right


def second_step(world: Any) -> str:
    """The message of the second step."""
    world.reset(seed=[SEED, SEED + 1], options={"reset_mask": np.ones(2, bool)})
    action = np.zeros((2, 2), np.float32)
    world.step(action)
    with pytest.raises(WorldError) as raised:
        world.step(action)
    world.close()
    return str(raised.value)


@pytest.mark.parametrize("fault", FAULTS)
def test_nothing_wrong_is_taken_and_the_message_says_where_it_came_from(fault: str) -> None:
    message = second_step(EnvRows(partial(Wrong, fault), 2))
    assert message.startswith("Wrong, row 0, step 2 of the episode with seed 7: ")
    assert re.search(FAULTS[fault][1], message), message
    assert "\n" not in message and "twofold check" in message


def test_workers_say_the_same_and_are_not_started_again() -> None:
    here = second_step(EnvRows(partial(Wrong, "one number"), 2, first=4))
    world = WorkerRows(partial(Wrong, "one number"), 2, 1, max_restarts=0)
    assert second_step(world) == here.replace("row 4", "row 0")


@pytest.mark.parametrize("fault", FAULTS)
def test_check_finds_it(fault: str) -> None:
    (problem,) = check_world(EnvRows(partial(Wrong, fault), 2), steps=10)
    assert re.search(FAULTS[fault][1], problem)


def test_an_observation_with_names_must_have_all_of_them_and_no_others() -> None:
    class Named(Counter):
        def __init__(self, names: tuple[str, ...]) -> None:
            super().__init__(5)
            self.names = names
            self.observation_space = gym.spaces.Dict(
                {"x": gym.spaces.Box(-1, 1, (2,)), "y": gym.spaces.Discrete(3)}
            )

        def _obs(self, last: float) -> Any:
            return {"x": np.zeros(2), "y": 1, "z": 2} if self.names == ("z",) else {"x": np.zeros(2)}

    for names in (("z",), ("x",)):
        with pytest.raises(WorldError, match="the observation must have x, y"):
            EnvRows(partial(Named, names), 1).reset(seed=[1], options={"reset_mask": np.ones(1, bool)})


# ---- worlds that are written in arrays ----------------------------------------------------------------------------


class Arrays(VectorEnv):
    """Two rows that give whatever they are told to."""

    metadata = {"autoreset_mode": AutoresetMode.DISABLED}
    num_envs = 2
    single_observation_space = gym.spaces.Box(-np.inf, np.inf, (3,), np.float32)
    single_action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, **changed: Any) -> None:
        self.given = {
            "obs": np.zeros((2, 3), np.float32),
            "reward": np.zeros(2),
            "terminated": np.zeros(2, bool),
            "truncated": np.zeros(2, bool),
        } | changed

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return np.zeros((2, 3), np.float32), {}

    def step(self, actions: Any) -> Any:
        return (*self.given.values(), {})

    def snapshot(self) -> dict[str, Any]:
        return {}

    def restore(self, snapshot: dict[str, Any]) -> None:
        pass


class Unsaved(VectorEnv):
    """A world without `snapshot` and `restore`."""

    num_envs, single_observation_space = 2, Arrays.single_observation_space
    single_action_space = gym.spaces.Box(-2, 2, (1,), np.float32)


@pytest.mark.parametrize(
    "changed",
    [
        {"obs": np.zeros((2, 1), np.float32)},
        {"obs": np.zeros((2, 3))},
        {"obs": np.full((2, 3), np.nan, np.float32)},
        {"reward": np.zeros((2, 1))},
        {"reward": np.array([0.0, np.inf])},
        {"terminated": np.zeros(2)},
    ],
)
def test_check_finds_arrays_of_other_shapes_and_kinds(changed: dict[str, Any]) -> None:
    assert check_world(Arrays(), steps=10) == []  # type: ignore[arg-type]
    (problem,) = check_world(Arrays(**changed), steps=10)  # type: ignore[arg-type]
    assert problem.startswith(f"step 1: {next(iter(changed))} ")


def test_check_finds_a_missing_snapshot_and_actions_outside_of_one() -> None:
    problems = "; ".join(check_world(Unsaved()))  # type: ignore[arg-type]
    assert "the method snapshot is missing" in problems and "the method restore is missing" in problems
    assert "a world's actions are in [-1, 1] per dimension" in problems
