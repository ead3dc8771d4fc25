"""What Python users call: train, iterate, load, check."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import TypeAlias

import gymnasium as gym
from gymnasium.vector import VectorEnv

from twofold.assemble import Parts, Scores, Trained, in_pieces, new_folder, run_to_end, torch_as
from twofold.base.errors import UserError
from twofold.base.foreign import AnyEnv
from twofold.base.progress import Progress
from twofold.base.values import Json, Values
from twofold.check import check_learner, check_networks
from twofold.core.protocols import Bounded, Metrics
from twofold.core.seeding import generator
from twofold.rows.check import check_world
from twofold.rows.given import KeptOpen, give
from twofold.rows.single import SingleEnv
from twofold.rows.world import evaluation_names, make_world
from twofold.settings.config import Resolved, layers_for, resolve
from twofold.settings.imports import import_user_code
from twofold.settings.presets import config_names, flatten
from twofold.settings.registry import worlds
from twofold.show.notebook import fitting_bar
from twofold.store.policy_file import LoadedPolicy
from twofold.store.run import Run

# A Gymnasium id or a registered world, or a class or function that makes an environment.
Env: TypeAlias = str | Callable[..., object]
_ID = re.compile(r"-v\d+$")


def train(
    config: str | None = "td3",
    env_config: str | None = None,
    *,
    env: Env | None = None,
    run: str | Path | None = None,
    runs: str | Path = "runs",
    imports: tuple[str, ...] = (),
    progress: Progress | bool | None = None,
    on_folder: Callable[[Path], None] | None = None,
    **overrides: object,
) -> Trained:
    """Train to the end, or resume a run of the same settings, perhaps for more steps.

    `config` and `env_config` name presets or YAML files, as on the command line. `env` is a Gymnasium id, a registered
    world, an environment class, or a function that makes an environment; without it and `env_config`, Pendulum.
    `run` is the run directory; without it a new one is made below `runs`. `progress=True` shows a bar that fits
    (notebook or terminal). `overrides` are settings, such as seed=1, steps=20_000 or learner={"gamma": 0.98}.
    """
    return train_with(
        config,
        env_config,
        overrides if env is None else {**overrides, "env": env},
        run=run,
        runs=runs,
        imports=imports,
        progress=progress,
        on_folder=on_folder,
    )


def train_with(
    config: str | None,
    env_config: str | None,
    overrides: Mapping[str, object],
    *,
    run: str | Path | None = None,
    runs: str | Path = "runs",
    imports: tuple[str, ...] = (),
    progress: Progress | bool | None = None,
    on_folder: Callable[[Path], None] | None = None,
) -> Trained:
    """`train` with the settings as one dictionary, in which any name may stand."""
    prepared = _prepare(config, env_config, overrides, run, runs, imports)
    return run_to_end(prepared, imports, _bar(progress), on_folder)


@dataclass(frozen=True)
class Moment:
    """Where a training is, after a log line."""

    step: int
    total: int
    metrics: Metrics  # of the newest log line
    scores: Scores  # of the newest evaluation: world -> metric -> mean, std, low, high, min, episodes
    best: float | None  # the best validation return so far
    folder: Path
    policy: LoadedPolicy  # as it acts at this moment; it changes as the training goes on


def iterate(
    config: str | None = "td3",
    env_config: str | None = None,
    *,
    env: Env | None = None,
    run: str | Path | None = None,
    runs: str | Path = "runs",
    imports: tuple[str, ...] = (),
    progress: Progress | bool | None = None,
    **overrides: object,
) -> Iterator[Moment]:
    """Train as `train` does, one log line at a time: `for now in twofold.iterate(...)` takes the place of callbacks.

    Leaving the loop saves everything; the same call with the same `run` resumes it, bit for bit. `trainer.log_every`
    says how often it gives way. Between two moments torch and signals are the caller's.
    """
    settings = overrides if env is None else {**overrides, "env": env}
    prepared = _prepare(config, env_config, settings, run, runs, imports)
    return _moments(prepared, imports, _bar(progress))


def _moments(run: Run, imports: tuple[str, ...], progress: Progress | None) -> Iterator[Moment]:
    pieces = in_pieces(run, imports, progress)
    try:
        while True:
            with torch_as(run.resolved.config.threads):
                parts = next(pieces, None)
            if parts is None:
                return
            with parts.trainer.stop.released():
                yield _moment(run, parts)
    finally:
        pieces.close()


def _moment(run: Run, parts: Parts) -> Moment:
    trainer, keeper = parts.trainer, parts.keeper
    world = trainer.collector.world
    bounds = world.action_bounds if isinstance(world, Bounded) else None
    greedy = trainer.learner.policy(explore=False, rows=1, rng=generator(0, "evaluation"))
    spaces = world.single_observation_space, world.single_action_space
    score: dict[str, Json] = {"step": trainer.steps}
    policy = LoadedPolicy(
        run.resolved.values, str(run.folder), trainer.learner, greedy, *spaces, bounds, score
    )
    policy.reset()
    counts = trainer.steps, trainer.cfg.steps
    return Moment(*counts, dict(keeper.metrics), dict(keeper.scores), keeper.best, run.folder, policy)


def load_run(path: str | Path, *, env: Env | None = None, imports: tuple[str, ...] = ()) -> Trained:
    """Open a run directory, finished or not: evaluate, resume, metrics, policy, video.

    A run that was trained with an environment handed over from Python needs it again as `env`.
    """
    import_user_code(imports)
    if env is not None:
        _named(env)
    run = Run.open(Path(path))
    return Trained(run.folder, run.test_scores() or {}, imports)


def check(
    config: str | None,
    env_config: str | None,
    *,
    env: Env | None = None,
    rows: int = 2,
    imports: tuple[str, ...] = (),
    **overrides: object,
) -> list[str]:
    """What is wrong with a world and, where a config is named, with its learner and networks, in words."""
    settings = overrides if env is None else {**overrides, "env": env}
    return check_with(config, env_config, settings, rows=rows, imports=imports)


def check_with(
    config: str | None,
    env_config: str | None,
    overrides: Mapping[str, object],
    *,
    rows: int = 2,
    imports: tuple[str, ...] = (),
) -> list[str]:
    """`check` with the settings as one dictionary, in which any name may stand."""
    import_user_code(imports)
    resolved = resolve(layers_for(config, env_config, _settings(overrides)))
    world = make_world(resolved.config, purpose="train", rows=rows)
    try:
        problems = check_world(world)
        if config is None or problems:
            return problems
        return check_networks(resolved.config, world) + check_learner(resolved.config, world)
    finally:
        world.close()


def check_env(
    env: Env | AnyEnv | VectorEnv = "gym",
    *,
    rows: int = 2,
    imports: tuple[str, ...] = (),
    **overrides: object,
) -> list[str]:
    """What is wrong with an environment, in words; an empty list if it keeps the contract.

    `env` is an environment, a class or a function that makes one, a Gymnasium id, a registered world, or a preset.
    """
    if isinstance(env, VectorEnv):
        return check_world(env)  # type: ignore[arg-type]  # whether it is a World is what is checked
    if isinstance(env, gym.Env):
        kept = KeptOpen(env)
        return check_with(None, "gym", {**overrides, "env": lambda: kept}, rows=1, imports=imports)
    if _is_preset(env):
        return check_with(None, str(env), overrides, rows=rows, imports=imports)
    return check_with(None, None, {**overrides, "env": env}, rows=rows, imports=imports)


def make_env(env: Env = "pendulum", *, imports: tuple[str, ...] = (), **overrides: object) -> SingleEnv:
    """One row of a world as a plain Gymnasium environment, with actions in the world's own units.

    `env` is a preset, a Gymnasium id, a registered world, a class, or a function that makes an environment.
    """
    import_user_code(imports)
    config = config_for(None, env, overrides).config
    return SingleEnv(make_world(config, purpose=evaluation_names(config)[0], rows=1))


def config_for(config: str | None, env: Env, overrides: Mapping[str, object]) -> Resolved:
    """The settings for an environment that is named by a preset or in any of the ways that `train` takes."""
    if _is_preset(env):
        return resolve(layers_for(config, str(env), _settings(overrides)))
    return resolve(layers_for(config, None, _settings({**overrides, "env": env})))


# ---- what `env` may be ------------------------------------------------------------------------------------------


def _prepare(
    config: str | None,
    env_config: str | None,
    overrides: Mapping[str, object],
    run: str | Path | None,
    runs: str | Path,
    imports: tuple[str, ...],
) -> Run:
    """The run directory, new or to be resumed."""
    import_user_code(imports)
    settings = _settings(overrides)
    if env_config is None and "env" not in settings:
        env_config = "pendulum"
    resolved = resolve(layers_for(config, env_config, settings))
    label = env_config or _label(overrides["env"])
    folder = Path(run) if run else new_folder(resolved, Path(runs), config, label)
    return Run.create(folder, resolved, shlex.join(sys.argv), imports)


def _label(env: object) -> str:
    """What a run directory is called after."""
    if isinstance(env, str):
        return env.replace("/", "-")
    return env.__name__ if isinstance(env, (type, FunctionType)) else type(env).__name__


def _is_preset(env: object) -> bool:
    return isinstance(env, str) and (env.endswith((".yaml", ".yml")) or env in config_names("envs"))


def _settings(overrides: Mapping[str, object]) -> Values:
    """Settings by dotted name; `env` may be any of the ways to name an environment."""
    rest = flatten({name: value for name, value in overrides.items() if name != "env"})
    return (_named(overrides["env"]) if "env" in overrides else {}) | rest


def _named(env: object) -> Values:
    """The settings that name an environment."""
    if isinstance(env, str):
        known = _ID.search(env) is not None or env in gym.registry
        return {"env": "control/gym", "env_args.id": env} if known else {"env": env}
    if isinstance(env, gym.Env):
        kind = type(env.unwrapped).__name__
        raise UserError(
            f"env is one {kind}, but training and evaluation each need their own: give the class or a function, "
            f"as in env={kind} or env=lambda: {kind}(...)"
        )
    if not callable(env):
        raise UserError(f"env must be a name, a class or a function that makes an environment, got {env!r}")
    if name := worlds.name_of(env):
        return {"env": name}
    return {"env": "control/gym", "env_args.id": give(env)}


def _bar(progress: Progress | bool | None) -> Progress | None:
    if isinstance(progress, bool):
        return fitting_bar() if progress else None
    return progress
