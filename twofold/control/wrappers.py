"""Small wrappers for any single Gymnasium environment."""

from collections import deque

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from gymnasium.utils import RecordConstructorArgs

from twofold.base.foreign import AnyEnv, AnyWrapper, Info
from twofold.core.experience import Array, Obs

Step = tuple[Obs, float, bool, bool, Info]


class ActionRepeat(AnyWrapper, RecordConstructorArgs):
    """Holds each action for `repeat` steps or until the episode ends; sums rewards, keeps the last info."""

    def __init__(self, env: AnyEnv, repeat: int) -> None:
        RecordConstructorArgs.__init__(
            self, repeat=repeat
        )  # lets Gymnasium make the environment again from its spec
        gymnasium.Wrapper.__init__(self, env)
        if repeat < 1:
            raise ValueError(f"repeat must be at least 1, got {repeat}")
        self.repeat = repeat
        if isinstance(rate := env.metadata.get("render_fps"), (int, float)):
            self.metadata = {**env.metadata, "render_fps": rate / repeat}

    def step(self, action: Array) -> Step:
        total = 0.0
        for _ in range(self.repeat):
            obs, reward, terminated, truncated, info = self.env.step(action)
            total += float(reward)
            if terminated or truncated:
                break
        return obs, total, terminated, truncated, info


class FrameHistory(AnyWrapper, RecordConstructorArgs):
    """Observes the last `length` observations of a Box space joined along their first axis, the newest last.

    Before there are `length` of them, the first observation of the episode stands for those that are missing.
    """

    def __init__(self, env: AnyEnv, length: int) -> None:
        RecordConstructorArgs.__init__(self, length=length)
        gymnasium.Wrapper.__init__(self, env)
        space = env.observation_space
        if length < 1:
            raise ValueError(f"length must be at least 1, got {length}")
        if not isinstance(space, Box) or not space.shape:
            raise TypeError(f"FrameHistory needs a Box of at least one axis to observe, got {space}")
        low, high = (np.concatenate([bound] * length) for bound in (space.low, space.high))
        self.observation_space = Box(low, high, dtype=space.dtype.type)
        self.length = length
        self._frames: deque[np.ndarray] = deque(maxlen=length)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Array, Info]:
        obs, info = self.env.reset(seed=seed, options=options)
        self._frames.extend([obs] * self.length)
        return np.concatenate(self._frames), info

    def step(self, action: Array) -> Step:
        obs, reward, terminated, truncated, info = self.env.step(action)
        self._frames.append(obs)
        return np.concatenate(self._frames), float(reward), terminated, truncated, info
