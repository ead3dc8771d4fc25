"""Wrappers around a world whose every number is known."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from gymnasium.utils.env_checker import check_env

from twofold.control.wrappers import ActionRepeat, FrameHistory


class Counter(gymnasium.Env):
    """Observes the number of steps and its negative; step k is worth k; ends at five, is cut at `limit`."""

    observation_space = Box(np.array([0, -9], np.float32), np.array([9, 0], np.float32))
    action_space = Box(-1, 1, (1,), np.float32)

    def __init__(self, limit: int = 9) -> None:
        self.limit = limit

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        self.steps = 0
        return self._obs(), {}

    def step(self, action):
        self.steps += 1
        return (
            self._obs(),
            float(self.steps),
            self.steps == 5,
            self.steps == self.limit,
            {"steps": self.steps},
        )

    def _obs(self) -> np.ndarray:
        return np.array([self.steps, -self.steps], np.float32)


ACTION = np.zeros(1, np.float32)


def test_action_repeat_sums_rewards_and_observes_the_last_step():
    env = ActionRepeat(Counter(), 2)
    env.reset()
    obs, reward, terminated, truncated, info = env.step(ACTION)
    assert (obs.tolist(), reward, terminated, truncated, info) == ([2, -2], 3.0, False, False, {"steps": 2})


def test_action_repeat_stops_where_the_episode_terminates():
    env = ActionRepeat(Counter(), 4)
    env.reset()
    assert env.step(ACTION)[1] == 1 + 2 + 3 + 4
    assert env.step(ACTION)[1:4] == (5.0, True, False)
    assert env.unwrapped.steps == 5


def test_action_repeat_stops_where_the_episode_is_truncated():
    env = ActionRepeat(Counter(limit=3), 2)
    env.reset()
    env.step(ACTION)
    assert env.step(ACTION)[1:4] == (3.0, False, True)


def test_a_step_of_a_repeated_environment_takes_as_many_times_as_long() -> None:
    env = Counter()
    env.metadata = {"render_fps": 30}
    assert ActionRepeat(env, 4).metadata["render_fps"] == 7.5 and env.metadata["render_fps"] == 30


def test_frame_history_joins_the_last_observations_and_begins_with_the_first_repeated():
    env = FrameHistory(Counter(), 3)
    assert env.reset()[0].tolist() == [0, 0, 0, 0, 0, 0]
    seen = [env.step(ACTION)[0].tolist() for _ in range(4)]
    assert seen == [[0, 0, 0, 0, 1, -1], [0, 0, 1, -1, 2, -2], [1, -1, 2, -2, 3, -3], [2, -2, 3, -3, 4, -4]]


def test_frame_history_forgets_the_episode_before():
    env = FrameHistory(Counter(), 2)
    env.reset()
    env.step(ACTION)
    assert env.reset()[0].tolist() == [0, 0, 0, 0]


def test_frame_history_space_repeats_the_bounds():
    space = FrameHistory(Counter(), 2).observation_space
    assert space.low.tolist() == [0, -9, 0, -9]
    assert space.high.tolist() == [9, 0, 9, 0]
    assert space.dtype == np.float32


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_both_together_keep_gymnasiums_contract():
    check_env(
        FrameHistory(ActionRepeat(gymnasium.make("Pendulum-v1").unwrapped, 2), 3), skip_render_check=True
    )


def test_impossible_lengths_are_refused():
    with pytest.raises(ValueError, match="repeat must be at least 1, got 0"):
        ActionRepeat(Counter(), 0)
    with pytest.raises(ValueError, match="length must be at least 1, got 0"):
        FrameHistory(Counter(), 0)


def test_frame_history_refuses_a_space_that_is_not_a_box():
    env = Counter()
    env.observation_space = Discrete(3)
    with pytest.raises(TypeError, match="Discrete"):
        FrameHistory(env, 2)
