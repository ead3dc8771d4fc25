"""Worlds from other packages: level-based foraging, warehouses, multi-particle games, PettingZoo by name."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Literal

import gymnasium as gym
import numpy as np

from twofold.base.errors import ConfigError, MissingPackage
from twofold.base.setting import setting, settings
from twofold.core.experience import Array
from twofold.core.protocols import World
from twofold.rows.envs import EnvRows
from twofold.settings.registry import worlds
from twofold.team.worlds.foraging import Foraging, can_batch, forget
from twofold.team.worlds.single import Action, Other, ParallelGame, TeamEnv, TupleGame, rows_of
from twofold.team.worlds.space import Foreign, Space, Values
from twofold.team.worlds.spread import Spread


def _package(name: str, why: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if not name.startswith(str(error.name)):
            raise
        raise MissingPackage(name.split(".")[0], "team", why) from None


def _view(cfg: object, mode: str) -> World:
    """One row to look at."""
    return _MAKERS[type(cfg)](cfg, rows=1, purpose="eval")


@settings
class LBFConfig:
    """Level-based foraging."""

    id: str = setting(
        "a game of the package", default="Foraging-8x8-2p-2f-coop-v3", aliases=("key", "map_name")
    )
    time_limit: int = setting("longest episode", default=50, ge=1, unit="steps")
    batched: bool = setting(
        "step all rows in one call where everything is in sight; the episodes are the same", default=True
    )


@worlds.register("team/lbf", config=LBFConfig, view=_view)
def lbf(cfg: LBFConfig, *, rows: int, purpose: str) -> Foraging | EnvRows:
    """Agents with levels gather food that needs enough of them (package lbforaging)."""
    _package("lbforaging", "level-based foraging")

    def make() -> Foreign:
        return _gym_env(cfg.id, max_episode_steps=cfg.time_limit)

    def ended(env: Foreign) -> bool:
        return bool(env.field.sum() == 0)  # the package also says so at its time limit

    first = make()
    if cfg.batched and can_batch(first):
        return Foraging(first, rows, cfg.time_limit)

    def single() -> TeamEnv:
        game = TupleGame(make(), cfg.time_limit, before_reset=forget, ended=ended)
        return TeamEnv(game)

    return rows_of(single, rows)


@settings
class WarehouseConfig:
    """Robots in a warehouse."""

    id: str = setting("a game of the package", default="rware-tiny-2ag-v2", aliases=("key", "map_name"))
    time_limit: int = setting("longest episode", default=500, ge=1, unit="steps")


@worlds.register("team/rware", config=WarehouseConfig, view=_view)
def rware(cfg: WarehouseConfig, *, rows: int, purpose: str) -> EnvRows:
    """Robots bring requested shelves to a goal (package rware)."""
    _package("rware", "the warehouse world")

    def make() -> TeamEnv:
        game = TupleGame(_gym_env(cfg.id, max_steps=cfg.time_limit), cfg.time_limit, ended=lambda env: False)
        return TeamEnv(game)

    return rows_of(make, rows)


def _gym_env(id: str, **settings: int) -> Foreign:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # tuples of rewards are not what Gymnasium's checker expects
            return gym.make(id, disable_env_checker=True, render_mode="rgb_array", **settings).unwrapped
    except gym.error.Error as error:
        raise ConfigError(f"env_args.id: {error}") from None


@settings
class ParallelConfig:
    """Any PettingZoo parallel environment."""

    id: str = setting(
        "the environment, such as butterfly.pistonball_v6", default="", aliases=("key", "map_name")
    )
    time_limit: int = setting("longest episode", default=500, ge=1, unit="steps")
    team: str = setting("agents whose names begin so are the team; empty: all", default="")
    others: Literal["random", "flee", "stand"] = setting("who plays the other agents", default="random")
    reward: Literal["sum", "mean"] = setting("what the team gets of its agents' rewards", default="sum")
    kwargs: Values = setting("more settings of the game", factory=dict)


@settings
class ParticleConfig(ParallelConfig):
    """A multi-particle game."""

    id: str = setting("the game", default="simple_spread_v3", aliases=("key", "map_name"))
    time_limit: int = setting("longest episode", default=25, ge=1, unit="steps")
    continuous: bool = setting("actions in [-1, 1] for TD3 in place of choices", default=False)
    batched: bool = setting(
        "step all rows of simple_spread in one call; the episodes are the same", default=True
    )


def _view_particles(cfg: ParticleConfig, mode: str) -> World:
    return _view(replace(cfg, batched=False), mode)  # the package draws


@worlds.register("team/mpe", config=ParticleConfig, view=_view_particles)
def mpe(cfg: ParticleConfig, *, rows: int, purpose: str) -> Spread | EnvRows:
    """Multi-particle games (package mpe2): spread, tag, speaker-listener and others."""
    known = {
        "N": "agents",
        "local_ratio": "local_ratio",
    }  # settings of spread that the batched world has, too
    plain = (
        cfg.id == "simple_spread_v3"
        and not cfg.continuous
        and not cfg.team
        and cfg.kwargs.keys() <= known.keys()
    )
    if cfg.batched and plain:
        settings: dict[str, Foreign] = {known[key]: value for key, value in cfg.kwargs.items()}
        return Spread(rows, cfg.time_limit, reward=cfg.reward, **settings)
    return _parallel(cfg, "mpe2", rows, {"max_cycles": cfg.time_limit, "continuous_actions": cfg.continuous})


@worlds.register("team/pettingzoo", config=ParallelConfig, view=_view)
def pettingzoo(cfg: ParallelConfig, *, rows: int, purpose: str) -> EnvRows:
    """Any PettingZoo parallel environment by name, for example env_args.id=butterfly.pistonball_v6."""
    if not cfg.id:
        raise ConfigError("env_args.id: name the environment, for example env_args.id=sisl.pursuit_v4")
    if cfg.id.startswith("mpe."):
        raise ConfigError(
            f"PettingZoo moved its particle games to mpe2: env=team/mpe env_args.id={cfg.id[4:]}"
        )
    return _parallel(cfg, "pettingzoo", rows, {})


def _parallel(cfg: ParallelConfig, package: str, rows: int, settings: Values) -> EnvRows:
    _package(package, f"the world '{cfg.id}'")
    try:
        module = importlib.import_module(f"{package}.{cfg.id}")
    except ModuleNotFoundError as error:
        if str(error.name).startswith(f"{package}."):
            raise ConfigError(f"env_args.id: there is no {package}.{cfg.id}") from None
        raise MissingPackage(str(error.name), "team", f"the world '{cfg.id}'") from None

    def make() -> TeamEnv:
        env = module.parallel_env(render_mode="rgb_array", **(settings | cfg.kwargs))
        game = ParallelGame(env, cfg.time_limit, team=cfg.team, other=OTHERS[cfg.others])
        return TeamEnv(game, reward=cfg.reward)

    return rows_of(make, rows)


def _random(obs: Array, actions: Space, rng: np.random.Generator) -> Action:
    if isinstance(actions, gym.spaces.Discrete):
        return int(rng.integers(actions.n))
    assert isinstance(actions, gym.spaces.Box)
    return rng.uniform(actions.low, actions.high).astype(actions.dtype)


def _stand(obs: Array, actions: Space, rng: np.random.Generator) -> Action:
    return np.zeros_like(actions.low) if isinstance(actions, gym.spaces.Box) else 0


def flee(
    obs: Array, actions: Space, rng: np.random.Generator, *, landmarks: int = 2, hunters: int = 3
) -> Action:
    """The prey of simple_tag: away from the nearest hunter, back from the border, now and then at random."""
    place = obs[2:4]
    others = obs[4 + 2 * landmarks : 4 + 2 * landmarks + 2 * hunters].reshape(-1, 2)
    nearest = others[np.argmin((others**2).sum(-1))]
    wish = -nearest / (np.linalg.norm(nearest) + 1e-6) - place * np.maximum(np.abs(place) - 0.7, 0) * 10
    if isinstance(actions, gym.spaces.Box):
        return np.array(
            [0, max(-wish[0], 0), max(wish[0], 0), max(-wish[1], 0), max(wish[1], 0)], np.float32
        ).clip(0, 1)
    if rng.random() < 0.1:
        return int(rng.integers(5))
    axis = int(np.abs(wish).argmax())  # choices: stay, left, right, down, up
    return 1 + 2 * axis + int(wish[axis] > 0)


OTHERS: dict[str, Other] = {"random": _random, "stand": _stand, "flee": flee}
_MAKERS: dict[type, Callable[..., World]] = {
    LBFConfig: lbf,
    WarehouseConfig: rware,
    ParticleConfig: mpe,
    ParallelConfig: pettingzoo,
}
