"""TD3 of codes that are no packages, from a checkout given by path; nothing of theirs is in this repository.

CleanRL's scripts run as they are, with their settings handed to them and the vector environment that they were
written for. The authors' own code (sfujim/TD3) brings networks, replay and update; the loop is that of its main.py
with Gymnasium's interface.
"""

from __future__ import annotations

import os
import runpy
import sys
import types
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np


def cleanrl(checkout: str, script: str, threads: int, settings: dict[str, Any], folder: str) -> None:
    """Run one of CleanRL's scripts until the clock in the environment ends it."""
    import torch

    torch.set_num_threads(threads)
    sys.path.insert(0, checkout)
    # Settings come from here, not from a command line.
    sys.modules["tyro"] = types.SimpleNamespace(cli=lambda kind: replace(kind(), **settings))  # type: ignore[assignment]
    gym.vector.SyncVectorEnv = BeforeVersion1  # type: ignore[misc]
    os.chdir(folder)
    runpy.run_path(str(Path(checkout) / "cleanrl" / script), run_name="__main__")


class BeforeVersion1(gym.vector.SyncVectorEnv):
    """Resets within the last step of an episode, and names its last observation as Gymnasium 0.29 did."""

    def __init__(self, makers: Any) -> None:
        super().__init__(makers, autoreset_mode=gym.vector.AutoresetMode.SAME_STEP)

    def step(self, actions: Any) -> Any:
        *rest, info = super().step(actions)
        info.pop("final_info", None)  # only printed
        if "final_obs" in info:
            info["final_observation"] = info["final_obs"]
        return (*rest, info)


def authors(checkout: str, env: gym.Env, threads: int, batch: int, warmup: int, noise: float) -> None:
    """The loop of sfujim/TD3's main.py, one update for each step after the warm-up."""
    import torch

    torch.set_num_threads(threads)
    sys.path.insert(0, checkout)
    from TD3 import TD3
    from utils import ReplayBuffer

    states, actions = env.observation_space.shape[0], env.action_space.shape[0]
    largest = float(env.action_space.high[0])
    policy, replay = TD3(states, actions, largest), ReplayBuffer(states, actions)
    state, step = env.reset(seed=0)[0], 0
    while True:
        step += 1
        if step <= warmup:
            action = env.action_space.sample()
        else:
            wild = np.random.normal(0, largest * noise, size=actions)
            action = (policy.select_action(np.array(state)) + wild).clip(-largest, largest)
        next_state, reward, terminated, truncated, _ = env.step(action)
        replay.add(state, action, next_state, reward, float(terminated))
        state = env.reset()[0] if terminated or truncated else next_state
        if step > warmup:
            policy.train(replay, batch)
