"""The fast walker as a world: shaped while training, Gymnasium's own reward and limit while evaluating."""

from __future__ import annotations

from functools import partial
from typing import Annotated, SupportsFloat

from pydantic import Field

from twofold.base.foreign import AnyWrapper, Info
from twofold.base.setting import setting, settings
from twofold.control.walker import FastWalker
from twofold.control.worlds import UnitActions
from twofold.core.experience import Array, Obs
from twofold.core.protocols import World
from twofold.rows.envs import EnvRows
from twofold.rows.world import Where, make_rows
from twofold.settings.registry import worlds

Positive = Annotated[int, Field(ge=1)]


@settings
class WalkerConfig:
    """Which walker, and how it is shaped while training."""

    hardcore: bool = setting("stumps, pits and stairs, or flat ground", default=True)
    repeat: int = setting(
        "frames that an action is held; the lidar is cast only on the frame that is observed",
        default=1,
        ge=1,
        unit="frames",
    )
    lidar_history: tuple[Positive, ...] = setting(
        "also observe the lidar of this many decisions ago", default=(), unit="decisions"
    )
    reward_scale: float = setting("factor on rewards, in training only", default=1.0)
    stuck_after: int = setting(
        "training only: truncate an episode after this many decisions without progress; 0: never",
        default=0,
        ge=0,
        unit="decisions",
    )


class RawReturn(AnyWrapper):
    """Reports the return in the environment's own reward, whatever the learner is paid."""

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Obs, Info]:
        self.total = 0.0
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Array) -> tuple[Obs, SupportsFloat, bool, bool, Info]:
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
    training = purpose == "train"
    walker = FastWalker(
        cfg.hardcore,
        cfg.repeat,
        cfg.lidar_history,
        render_mode,
        reward_scale=cfg.reward_scale if training else 1.0,
        stuck_after=cfg.stuck_after if training else 0,
    )
    return UnitActions(RawReturn(walker))


def view(cfg: WalkerConfig, mode: str) -> EnvRows:
    return EnvRows(partial(make_env, cfg, "eval", mode), 1)


@worlds.register("control/walker", config=WalkerConfig, view=view, workers=True)
def walker_world(cfg: WalkerConfig, *, rows: int, purpose: str, where: Where | None = None) -> World:
    """BipedalWalker, flat or hardcore: equal to Gymnasium's, twice as fast, with shaping for training."""
    env = make_env(cfg, purpose)
    return make_rows(partial(make_env, cfg, purpose), rows, bounds=(env.low, env.high), where=where)
