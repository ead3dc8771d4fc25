"""An environment that does what it is told: dies, raises, hangs or returns NaN at a chosen step. For --import."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np


class Faulty(gym.Env[Any, Any]):
    """The observation is (number of the episode's seed, step), so that every transition shows where it came from."""

    def __init__(self, fault: str = "", at: int = 0, marker: str = "", length: int = 40) -> None:
        self.observation_space = gym.spaces.Box(-1e9, 1e9, (2,), np.float32)
        self.action_space = gym.spaces.Box(-1, 1, (1,), np.float32)
        self.fault, self.at, self.marker, self.length = fault, at, marker, length
        self.where = (0, 0)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.where = ((seed or 0) % 1000, 0)
        if self.fault.startswith("reset ") and self._strikes():
            self._break(self.fault.removeprefix("reset "))
        return self._obs(), {}

    def step(self, action: Any) -> Any:
        episode, t = self.where
        self.where = (episode, t + 1)
        reward, obs = float(t), self._obs()
        if t + 1 == self.at and self._strikes():
            if self.fault == "nan obs":
                obs = obs * np.nan
            elif self.fault == "inf reward":
                reward = np.inf
            else:
                self._break(self.fault)
        return obs, reward, False, t + 1 >= self.length, {}

    def _strikes(self) -> bool:
        """Always without a marker; with one, only while that file is there, and then it is gone."""
        if not self.marker:
            return True
        try:
            Path(self.marker).unlink()
        except FileNotFoundError:
            return False
        return True

    def _break(self, fault: str) -> None:
        if fault == "kill":
            os.kill(os.getpid(), 9)
        if fault.startswith("raise"):
            raise ValueError("the simulator exploded")
        if fault == "hang":
            time.sleep(3600)

    def _obs(self) -> Any:
        chance = (
            os.getpid() / 1e3 if self.fault.endswith("random") and self.where[1] else 0
        )  # no function of the seed
        return np.array(self.where, np.float32) + np.float32(chance)


def make(**kwargs: Any) -> Faulty:
    return Faulty(**kwargs)


gym.register("Faulty-v0", entry_point=make)
gym.register("Endless-v0", entry_point=lambda: Faulty(length=1 << 60))
