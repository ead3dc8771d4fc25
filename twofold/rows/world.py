"""Making worlds from a config, and checking that a world keeps its contract."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from twofold.core import tree
from twofold.core.errors import WorldError
from twofold.core.protocols import World
from twofold.core.trainer import TrainerConfig
from twofold.rows.envs import EnvRows, MakeEnv
from twofold.rows.workers import WorkerRows
from twofold.settings.registry import worlds


@dataclass(frozen=True)
class Where:
    """In which processes the rows of a world live, and how broken ones are treated."""

    workers: int = 0
    imports: tuple[str, ...] = ()
    hang_limit: float = 30.0
    max_restarts: int = 10
    window: float = 600.0

    @staticmethod
    def of(cfg: TrainerConfig, imports: tuple[str, ...]) -> Where:
        return Where(cfg.workers, imports, cfg.hang_limit, cfg.max_restarts, cfg.restart_window)


def make_rows(make_env: MakeEnv, rows: int, *, fresh: bool = False, where: Where | None = None) -> Any:
    """Single environments as a world: in this process, or in worker processes."""
    if where is None or where.workers == 0:
        return EnvRows(make_env, rows, fresh=fresh)
    return WorkerRows(
        make_env,
        rows,
        where.workers,
        fresh=fresh,
        imports=where.imports,
        hang_limit=where.hang_limit,
        max_restarts=where.max_restarts,
        window=where.window,
    )


def make_world(config: Any, *, purpose: str, rows: int, imports: tuple[str, ...] = ()) -> World:
    """The world of a config for training or for one of its evaluations."""
    entry = worlds.get(config.env)
    how: dict[str, Any] = {}
    if purpose == "train" and config.trainer.workers:
        if not entry.about.get("workers", True):
            raise WorldError(f"the world '{config.env}' steps all rows in one call: set trainer.workers=0")
        how = {"where": Where.of(config.trainer, imports)}
    return entry.make(config.env_args, rows=rows, purpose=purpose, **how)  # type: ignore[no-any-return]


def evaluation_names(env: str) -> tuple[str, ...]:
    """The evaluation worlds of a world; the first one chooses the best policy."""
    return tuple(worlds.get(env).about.get("evaluations", ("eval",)))


# ---- checking -----------------------------------------------------------------------------------------------------


def check_world(world: World, steps: int = 200, seed: int = 7) -> list[str]:
    """What is wrong with a world, in words; an empty list if it keeps the contract."""
    problems: list[str] = []
    rng = np.random.default_rng(seed)
    actions = [_random_actions(world, rng) for _ in range(steps)]
    first = _played(world, actions, seed, problems)
    if not problems and not _same(first, _played(world, actions, seed, problems)):
        problems.append(
            "the same seed and actions gave another episode: the world is not a function of (seed, actions), so a "
            "run cannot be resumed exactly. If its state survives reset, set env_args.fresh=true; if it draws from "
            "a global generator, draw from self.np_random instead"
        )
    if not problems:
        problems += _check_resume(world, actions, seed)
    return problems


def _random_actions(world: World, rng: np.random.Generator) -> Any:
    space = world.single_action_space
    if hasattr(space, "nvec"):
        nvec = np.asarray(space.nvec)
        return rng.integers(0, np.broadcast_to(nvec, (world.num_envs, *nvec.shape)))
    return rng.uniform(-1, 1, (world.num_envs, *(space.shape or ()))).astype(np.float32)


def _played(world: World, actions: list[Any], seed: int, problems: list[str]) -> list[Any]:
    """Step through the actions, starting new episodes where they end; what was seen."""
    rows = world.num_envs
    seeds = [seed + row for row in range(rows)]
    obs, _ = world.reset(seed=list(seeds), options={"reset_mask": np.ones(rows, bool)})
    _check_obs(world, obs, "reset", problems)
    seen = [tree.copy(obs)]
    for action in actions:
        obs, reward, terminated, truncated, _ = world.step(action)
        _check_obs(world, obs, "step", problems)
        if np.shape(reward) != (rows,) or not np.isfinite(reward).all():
            problems.append(f"step returned the reward {reward!r}: it must be {rows} finite numbers")
        if problems:
            break
        seen.append((tree.copy(obs), np.array(reward), np.array(terminated), np.array(truncated)))
        done = np.asarray(terminated) | np.asarray(truncated)
        if done.any():
            seeds = [s + 1000 for s in seeds]
            obs, _ = world.reset(seed=list(seeds), options={"reset_mask": done})
    return seen


def _check_obs(world: World, obs: Any, where: str, problems: list[str]) -> None:
    from twofold.core.experience import blank_like

    wanted = dict(tree.items(blank_like(world.single_observation_space, world.num_envs), "obs"))
    given = dict(tree.items(obs, "obs"))
    for path in wanted.keys() | given.keys():
        if path not in given or path not in wanted:
            problems.append(f"{where}: the observation space and the observation disagree on '{path}'")
        elif np.shape(given[path]) != wanted[path].shape:
            shapes = f"{np.shape(given[path])}, the space says {wanted[path].shape}"
            problems.append(f"{where}: {path} has the shape {shapes}")
        elif np.asarray(given[path]).dtype.kind == "f" and not np.isfinite(given[path]).all():
            problems.append(f"{where}: {path} holds NaN or infinity")


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(_same(a, b) for a, b in zip(one, other, strict=True))
    return tree.equal(one, other)


def _check_resume(world: World, actions: list[Any], seed: int) -> list[str]:
    """Snapshot in the middle, play on, restore, play on again: both must agree."""
    rows = world.num_envs
    world.reset(seed=[seed + row for row in range(rows)], options={"reset_mask": np.ones(rows, bool)})
    for action in actions[:5]:
        _, _, terminated, truncated, _ = world.step(action)
        if (terminated | truncated).any():
            return []  # too short to cut in the middle
    snapshot = world.snapshot()
    after = world.step(actions[5])[:4]
    after = (tree.copy(after[0]), *(np.array(x) for x in after[1:]))
    world.restore(snapshot)
    if _same(after, world.step(actions[5])[:4]):
        return []
    return ["restore(snapshot()) did not bring the world back to the same state: resuming would not be exact"]
