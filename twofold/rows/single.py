"""One row of a world as a plain Gymnasium environment, for the tools of others."""

from __future__ import annotations

import gymnasium as gym
import numpy as np

from twofold.base import tree
from twofold.base.foreign import AnyEnv, Info
from twofold.core.experience import Array, Obs
from twofold.core.protocols import Bounded, World


class SingleEnv(AnyEnv):
    """A world of one row: observations without the axis of rows, actions in the world's own units."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.observation_space, self.action_space = world.single_observation_space, world.single_action_space
        self._bounds: tuple[Array, Array] | None = None
        if isinstance(world, Bounded):
            low, high = self._bounds = world.action_bounds
            self.action_space = gym.spaces.Box(low, high, dtype=np.float32)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Obs, Info]:
        """A new episode; without a seed, one that the last seed leads to."""
        super().reset(seed=seed)
        drawn = int(self.np_random.integers(2**31)) if seed is None else seed
        obs, _ = self.world.reset(seed=[drawn], options={"reset_mask": np.ones(1, bool)})
        return tree.index(obs, 0), {}

    def step(self, action: Array) -> tuple[Obs, float, bool, bool, Info]:
        if self._bounds is not None:
            low, high = self._bounds
            action = (2 * (np.asarray(action, np.float32) - low) / (high - low) - 1).clip(-1, 1)
        obs, reward, terminated, truncated, info = self.world.step(np.asarray(action)[None])
        metrics = {name: values[0] for name, values in info.get("episode", {}).items()}
        return tree.index(obs, 0), float(reward[0]), bool(terminated[0]), bool(truncated[0]), metrics

    def close(self) -> None:
        self.world.close()
