"""Any Gymnasium environment with continuous actions as a world."""

from __future__ import annotations

import inspect
import os
from functools import partial
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np

from twofold.base.errors import ConfigError, UnknownPart, WorldError
from twofold.base.foreign import AnyEnv, Info
from twofold.base.regular import is_file, is_folder, is_there
from twofold.base.setting import setting, settings
from twofold.control.wrappers import ActionRepeat, FrameHistory
from twofold.core.experience import Array, rescale
from twofold.core.protocols import World
from twofold.rows.envs import EnvRows
from twofold.rows.given import PREFIX, Make, check_sendable, given
from twofold.rows.world import Where, make_rows
from twofold.settings.registry import worlds
from twofold.settings.schema import nearest

_LONGEST = 10_000_000  # steps of an episode


@settings
class GymConfig:
    """Which environment, and how it is wrapped."""

    id: str = setting(
        "a Gymnasium environment with a Box action space", default="Pendulum-v1", aliases=("env_id",)
    )
    kwargs: dict[str, object] = setting("arguments of gymnasium.make", factory=dict)
    fresh: bool = setting(
        "a new instance for every episode, where state survives reset (Box2D)", default=False
    )
    max_episode_steps: int | None = setting(
        "time limit of an episode; null: the environment's own",
        default=None,
        ge=1,
        le=_LONGEST,
        unit="steps",
        aliases=("time_limit",),
    )
    repeat: int = setting("steps that an action is held", default=1, ge=1, le=1_000, unit="steps")
    history: int = setting("observations joined, the newest last", default=1, ge=1, le=1_000)
    fall_penalty: float | None = setting(
        "training only: replaces a reward of -100 at a fall (BipedalWalker)", default=None
    )

    def __post_init__(self) -> None:
        if ":" in self.id and not self.id.startswith(PREFIX):
            raise ConfigError(
                f"env_args.id={self.id}: name the module that registers it with --import=MODULE, and the id alone here"
            )
        limit = self.kwargs.get("max_episode_steps", 1)
        if type(limit) is not int or not 1 <= limit <= _LONGEST:
            raise ConfigError(
                f"env_args.kwargs.max_episode_steps must be a whole number from 1 to {_LONGEST:,}, got {limit!r}"
            )


class UnknownWorld(WorldError, UnknownPart):
    """An environment that nobody registered."""


# Any: as in AnyWrapper.
class UnitActions(gym.ActionWrapper[Any, Any, Any]):
    """Actions in [-1, 1] per dimension, whatever the environment's own bounds are."""

    def __init__(self, env: AnyEnv) -> None:
        super().__init__(env)
        space = env.action_space
        if not isinstance(space, gym.spaces.Box) or not np.issubdtype(space.dtype, np.floating):
            raise WorldError(
                f"{_name(env)} has the action space {space}; TD3 needs continuous actions (Box). Discrete actions "
                "for one agent are not here: take the environment's continuous form if it has one, or DQN or PPO of "
                "Stable-Baselines3 or CleanRL"
            )
        if space.shape == (0,):
            raise WorldError(f"{_name(env)} has no actions ({space}): there is nothing to learn")
        with np.errstate(over="ignore"):  # what float32 cannot hold is no bound
            self.low, self.high = space.low.astype(np.float32), space.high.astype(np.float32)
            bounded = np.isfinite(self.high - self.low).all()
        if not bounded:
            raise WorldError(
                f"{_name(env)} has actions without finite bounds {space}: wrap it with bounds first"
            )
        self.action_space = gym.spaces.Box(-1.0, 1.0, space.shape, np.float32)

    def action(self, action: Array) -> Array:
        return rescale(np.clip(action, -1, 1), self.low, self.high)


# Any: as in AnyWrapper.
class SoftFall(gym.RewardWrapper[Any, Any]):
    """A fall's -100 drowns every other signal while learning; evaluation keeps the true reward."""

    def __init__(self, env: AnyEnv, penalty: float) -> None:
        super().__init__(env)
        self.penalty = penalty

    def reward(self, reward: SupportsFloat) -> float:
        return self.penalty if float(reward) <= -100 else float(reward)


def _name(env: AnyEnv) -> str:
    return env.spec.id if env.spec is not None else type(env.unwrapped).__name__


def make_env(
    cfg: GymConfig, purpose: str, render_mode: str | None = None, make: Make | None = None
) -> UnitActions:
    """One environment with actions in [-1, 1] and a flat observation; `make` stands in for its id."""
    kwargs = dict(cfg.kwargs) | ({"render_mode": render_mode} if render_mode else {})
    limit = cfg.max_episode_steps
    known = partial(gym.make, cfg.id, disable_env_checker=True, max_episode_steps=limit)
    env = _made(make or known, cfg.id, kwargs)
    if make is not None and limit is not None:
        env = gym.wrappers.TimeLimit(env, limit)
    if render_mode is not None:
        _lay_floor(env)
    if render_mode == "rgb_array" and not any("camera" in name for name in cfg.kwargs):
        _follow(env)
    if isinstance(env.observation_space, gym.spaces.Box) and len(env.observation_space.shape) != 1:
        env = gym.wrappers.FlattenObservation(env)
    if cfg.fall_penalty is not None and purpose == "train":
        env = SoftFall(env, cfg.fall_penalty)
    if cfg.repeat > 1:
        env = ActionRepeat(env, cfg.repeat)
    if cfg.history > 1:
        env = FrameHistory(env, cfg.history)
    return UnitActions(env)


def _made(make: Make, name: str, kwargs: Info) -> AnyEnv:
    """An environment, with errors that say what to do."""
    _refuse_odd_files(kwargs)
    if "DISPLAY" not in os.environ:  # headless machines have no window system to render with
        os.environ.setdefault("MUJOCO_GL", "egl")
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    try:
        env = make(**kwargs)
    except gym.error.DependencyNotInstalled as error:
        raise WorldError(f"{name} needs a package that is not installed: {error}") from None
    except (gym.error.UnregisteredEnv, gym.error.DeprecatedEnv) as error:
        hint = _newest(name) or nearest(name, gym.registry)
        did = f"; did you mean '{hint}'?" if hint else ""
        raise UnknownWorld(f"no Gymnasium environment '{name}'{did} ({str(error).splitlines()[0]})") from None
    except TypeError as error:
        raise WorldError(f"{name} does not take env_args.kwargs={kwargs}: {error}") from None
    except Exception as error:  # environments refuse their arguments in ways of their own
        why = f"{type(error).__name__}: {str(error)[:200]}"
        raise WorldError(f"{name} cannot be made with env_args.kwargs={kwargs} ({why})") from None
    if not isinstance(env, gym.Env):
        raise WorldError(f"{name} made a {type(env).__name__}, not a gymnasium.Env")
    _refuse_unfinished(env, name)
    return env


def _newest(name: str) -> str | None:
    """The newest version of an environment whose version is not here any more, if it has one."""
    try:
        space, base, _ = gym.envs.registration.parse_env_id(name)
        version = gym.envs.registration.find_highest_version(space, base)
    except gym.error.Error:
        return None
    known = gym.envs.registration.get_env_id(space, base, version)
    return known if version is not None and known in gym.registry else None


def _refuse_unfinished(env: AnyEnv, name: str) -> None:
    """What a class needs before it is an environment: its spaces, and a reset that takes a seed."""
    try:
        spaces = {"observation_space": env.observation_space, "action_space": env.action_space}
    except AttributeError as error:
        raise WorldError(f"{name} has no {error.name}: set it in __init__ to a gymnasium space") from None
    for named, space in spaces.items():
        if not isinstance(space, gym.spaces.Space):
            raise WorldError(f"{name}: {named} is a {type(space).__name__}, not a gymnasium space")
    taken = inspect.signature(env.unwrapped.reset).parameters.values()
    names = {one.name for one in taken}
    if not {"seed", "options"} <= names and not any(one.kind is one.VAR_KEYWORD for one in taken):
        raise WorldError(
            f"{name}: reset takes no seed and options; Gymnasium's is reset(self, *, seed=None, options=None), and "
            "calls super().reset(seed=seed) first"
        )


def _refuse_odd_files(value: object) -> None:
    """An argument that is the name of a pipe or device would hang whoever opens it."""
    inside = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    for inner in inside:
        _refuse_odd_files(inner)
    if not isinstance(value, str) or len(value) > 1_000 or "\0" in value:
        return
    if is_there(value) and not is_file(value) and not is_folder(value):
        raise WorldError(f"env_args.kwargs names {value}, which is not a regular file: refused")


def _follow(env: AnyEnv) -> None:
    """Film a MuJoCo body with its model's own camera: Gymnasium's default stays where the body began."""
    renderer = getattr(env.unwrapped, "mujoco_renderer", None)
    if renderer is not None:
        import mujoco

        renderer.camera_id = mujoco.mj_name2id(renderer.model, mujoco.mjtObj.mjOBJ_CAMERA, "track")


def _lay_floor(env: AnyEnv) -> None:
    """Draw a MuJoCo model's floor without end: a fast body leaves Gymnasium's within seconds."""
    if (renderer := getattr(env.unwrapped, "mujoco_renderer", None)) is None:
        return
    import mujoco

    model = renderer.model
    for floor in np.flatnonzero(model.geom_type == mujoco.mjtGeom.mjGEOM_PLANE):
        wide, material = 2 * model.geom_size[floor, :2].copy(), model.geom_matid[floor]
        if material >= 0 and (wide > 0).all():
            model.mat_texrepeat[material] /= wide  # tiles of a floor without end are counted per metre
        model.geom_size[floor, :2] = 0  # of the picture alone: a plane has no edges to fall from


def _maker(cfg: GymConfig) -> Make | None:
    """What was handed over from Python in place of an id that Gymnasium knows."""
    return given(cfg.id) if cfg.id.startswith(PREFIX) else None


def view(cfg: GymConfig, mode: str) -> EnvRows:
    """One row that shows itself: mode 'rgb_array' or 'human'."""
    make = partial(make_env, cfg, "eval", None, _maker(cfg))
    env = make()
    _try(env, cfg)
    env.close()
    return EnvRows(partial(make_env, cfg, "eval", mode, _maker(cfg)), 1, fresh=cfg.fresh)


def _try(env: UnitActions, cfg: GymConfig) -> None:
    """One step: arguments that an environment took and cannot play with are told before anything begins."""
    if not cfg.kwargs:
        return
    try:
        env.reset(seed=0)
        env.step(np.zeros(env.action_space.shape or (), np.float32))
    except Exception as error:  # the environment's own
        why = f"{type(error).__name__}: {str(error)[:200]}"
        raise WorldError(f"{cfg.id} cannot be played with env_args.kwargs={cfg.kwargs} ({why})") from None


@worlds.register("control/gym", config=GymConfig, view=view, workers=True)
def gym_world(cfg: GymConfig, *, rows: int, purpose: str, where: Where | None = None) -> World:
    """Any Gymnasium environment with continuous actions, by id."""
    given_one = _maker(cfg)
    if given_one is not None and where is not None and where.workers:
        check_sendable(given_one)
    make = partial(make_env, cfg, purpose, None, given_one)
    env = make()
    bounds = env.low, env.high
    _try(env, cfg)
    env.close()
    return make_rows(make, rows, fresh=cfg.fresh, bounds=bounds, where=where)
