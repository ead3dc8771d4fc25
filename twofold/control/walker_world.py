"""The fast walker as a world: shaped while training, Gymnasium's own reward and limit while evaluating."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import gymnasium as gym

from twofold.control.walker import FastWalker
from twofold.control.worlds import UnitActions
from twofold.core.errors import ConfigError
from twofold.rows.envs import EnvRows
from twofold.rows.world import Where, make_rows
from twofold.settings.registry import worlds


@dataclass(frozen=True)
class WalkerConfig:
    hardcore: bool = True
    repeat: int = 1  # frames that an action is held; the lidar is cast only on the frame that is observed
    lidar_history: tuple[int, ...] = ()  # also observe the lidar of so many decisions ago
    fall_penalty: float | None = None  # training only: replaces the -100 of a fall
    reward_scale: float = 1.0  # training only
    torque_cost: float = 1.0  # training only: multiplies the price of torque
    stuck_after: int = 0  # training only: cut an episode after so many decisions without progress; 0 never

    def __post_init__(self) -> None:
        if self.repeat < 1 or self.stuck_after < 0 or any(n < 1 for n in self.lidar_history):
            raise ConfigError("env_args: repeat and lidar_history must be at least 1, stuck_after at least 0")


class RawReturn(gym.Wrapper[Any, Any, Any, Any]):
    """Reports the return in the environment's own reward, whatever the learner is paid."""

    def reset(self, **kwargs: Any) -> Any:
        self.total = 0.0
        return self.env.reset(**kwargs)

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = self.env.step(action)
        self.total += info["raw_reward"]
        if terminated or truncated:
            info["episode"] = {
                "return": self.total,
                "success": float(terminated and info["raw_reward"] > -50),
            }
        return obs, reward, terminated, truncated, info


def make_env(cfg: WalkerConfig, purpose: str, render_mode: str | None = None) -> UnitActions:
    """One walker; shaping is for training alone."""
    shaping: dict[str, Any] = {}
    if purpose == "train":
        shaping = {
            "fall_penalty": cfg.fall_penalty,
            "reward_scale": cfg.reward_scale,
            "torque_cost": cfg.torque_cost,
            "stuck_after": cfg.stuck_after,
        }
    walker = FastWalker(cfg.hardcore, cfg.repeat, cfg.lidar_history, render_mode, **shaping)
    return UnitActions(RawReturn(walker))


def view(cfg: WalkerConfig, mode: str) -> EnvRows:
    return EnvRows(partial(make_env, cfg, "eval", mode), 1)


@worlds.register("control/walker", config=WalkerConfig, view=view)
def walker_world(cfg: WalkerConfig, *, rows: int, purpose: str, where: Where | None = None) -> Any:
    """BipedalWalker, flat or hardcore: equal to Gymnasium's, twice as fast, with shaping for training."""
    world = make_rows(partial(make_env, cfg, purpose), rows, where=where)
    env = make_env(cfg, purpose)
    world.action_bounds = (env.low, env.high)
    return world
