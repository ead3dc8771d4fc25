"""What Python users call: train, iterate, load, check."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
from gymnasium.vector import VectorEnv

from twofold.assemble import Parts, Scores, Trained, in_pieces, new_folder, run_to_end, torch_as
from twofold.base.errors import UserError
from twofold.base.progress import Progress
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

Env = str | type[Any] | Callable[..., Any]  # a Gymnasium id, a registered world, a class, or a function
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
    **overrides: Any,
) -> Trained:
    """Train to the end, or resume a run of the same settings, perhaps for more steps.

    `config` and `env_config` name presets or YAML files, as on the command line. `env` is a Gymnasium id, a registered
    world, an environment class, or a function that makes an environment; without it and `env_config`, Pendulum.
    `run` is the run directory; without it a new one is made below `runs`. `progress=True` shows a bar that fits
    (notebook or terminal). `overrides` are settings, such as seed=1, steps=20_000 or learner={"gamma": 0.98}.
    """
    prepared = _prepare(config, env_config, env, run, runs, imports, overrides)
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
    **overrides: Any,
) -> Iterator[Moment]:
    """Train as `train` does, one log line at a time: `for now in twofold.iterate(...)` takes the place of callbacks.

    Leaving the loop saves everything; the same call with the same `run` resumes it, bit for bit. `trainer.log_every`
    says how often it gives way. Between two moments torch and signals are the caller's.
    """
    prepared = _prepare(config, env_config, env, run, runs, imports, overrides)
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
    score = {"step": trainer.steps}
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
        _settings_of(env)
    run = Run.open(Path(path))
    return Trained(run.folder, run.test_scores() or {}, imports)


def check(
    config: str | None,
    env_config: str | None,
    *,
    env: Env | None = None,
    rows: int = 2,
    imports: tuple[str, ...] = (),
    **overrides: Any,
) -> list[str]:
    """What is wrong with a world and, where a config is named, with its learner and networks, in words."""
    import_user_code(imports)
    resolved = resolve(layers_for(config, env_config, _settings_of(env) | flatten(overrides)))
    world = make_world(resolved.config, purpose="train", rows=rows)
    try:
        problems = check_world(world)
        if config is None or problems:
            return problems
        return check_networks(resolved.config, world) + check_learner(resolved.config, world)
    finally:
        world.close()


def check_env(
    env: Env | gym.Env[Any, Any] | VectorEnv = "gym",
    *,
    rows: int = 2,
    imports: tuple[str, ...] = (),
    **overrides: Any,
) -> list[str]:
    """What is wrong with an environment, in words; an empty list if it keeps the contract.

    `env` is an environment, a class or a function that makes one, a Gymnasium id, a registered world, or a preset.
    """
    if isinstance(env, VectorEnv):
        return check_world(env)  # type: ignore[arg-type]  # whether it is a World is what is checked
    if isinstance(env, gym.Env):
        kept = KeptOpen(env)
        return check(None, "gym", env=lambda: kept, rows=1, imports=imports, **overrides)
    if _is_preset(env):
        return check(None, str(env), rows=rows, imports=imports, **overrides)
    return check(None, None, env=env, rows=rows, imports=imports, **overrides)


def make_env(env: Env = "pendulum", *, imports: tuple[str, ...] = (), **overrides: Any) -> SingleEnv:
    """One row of a world as a plain Gymnasium environment, with actions in the world's own units.

    `env` is a preset, a Gymnasium id, a registered world, a class, or a function that makes an environment.
    """
    import_user_code(imports)
    config = config_for(None, env, flatten(overrides)).config
    return SingleEnv(make_world(config, purpose=evaluation_names(config)[0], rows=1))


def config_for(config: str | None, env: Env, overrides: dict[str, Any]) -> Resolved:
    """The settings for an environment that is named by a preset or in any of the ways that `train` takes."""
    if _is_preset(env):
        return resolve(layers_for(config, str(env), overrides))
    return resolve(layers_for(config, None, _settings_of(env) | overrides))


# ---- what `env` may be ------------------------------------------------------------------------------------------


def _prepare(
    config: str | None,
    env_config: str | None,
    env: Env | None,
    run: str | Path | None,
    runs: str | Path,
    imports: tuple[str, ...],
    overrides: dict[str, Any],
) -> Run:
    """The run directory, new or to be resumed."""
    import_user_code(imports)
    settings = _settings_of(env) | flatten(overrides)
    if env_config is None and "env" not in settings:
        env_config = "pendulum"
    resolved = resolve(layers_for(config, env_config, settings))
    own = env if isinstance(env, str) else str(getattr(env, "__name__", "env"))
    label = env_config or own.replace("/", "-")
    folder = Path(run) if run else new_folder(resolved, Path(runs), config, label)
    return Run.create(folder, resolved, shlex.join(sys.argv))


def _is_preset(env: object) -> bool:
    return isinstance(env, str) and (env.endswith((".yaml", ".yml")) or env in config_names("envs"))


def _settings_of(env: Env | None) -> dict[str, Any]:
    """The settings that name an environment."""
    if env is None:
        return {}
    if isinstance(env, str):
        known = _ID.search(env) is not None or env in gym.registry
        return {"env": "control/gym", "env_args.id": env} if known else {"env": env}
    if isinstance(env, gym.Env):
        kind = type(env.unwrapped).__name__
        raise UserError(
            f"env is one {kind}, but training and evaluation each need their own: give the class or a function, "
            f"as in env={kind} or env=lambda: {kind}(...)"
        )
    if name := worlds.name_of(env):
        return {"env": name}
    return {"env": "control/gym", "env_args.id": give(env)}


def _bar(progress: Progress | bool | None) -> Progress | None:
    if isinstance(progress, bool):
        return fitting_bar() if progress else None
    return progress
