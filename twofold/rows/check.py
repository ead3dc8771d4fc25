"""Checking that a world keeps its contract."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from twofold.base import tree
from twofold.core.experience import Array, Obs, blank_like
from twofold.core.protocols import World


def check_world(world: World, steps: int = 200, seed: int = 7) -> list[str]:
    """What is wrong with a world, in words; an empty list if it keeps the contract."""
    problems = _unkept(world)
    if problems:
        return problems
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


_METHODS = {
    "reset": "starts an episode in the rows of options['reset_mask']",
    "step": "moves all rows",
    "snapshot": "returns all that is needed to resume in the middle of any episode, as a dict of arrays",
    "restore": "takes back what snapshot returned",
    "close": "frees what the world holds",
}


def _unkept(world: World) -> list[str]:
    """What a world says of itself that the contract forbids."""
    known = dir(world)
    problems = [
        f"the method {name} is missing: it {what}" for name, what in _METHODS.items() if name not in known
    ]
    if isinstance(world, VectorEnv) and world.metadata.get("autoreset_mode") is not AutoresetMode.DISABLED:
        problems.append(
            "rows must wait at the end of an episode until reset is called: say so with "
            'metadata = {"autoreset_mode": gymnasium.vector.AutoresetMode.DISABLED}'
        )
    space = world.single_action_space
    if isinstance(space, gym.spaces.Box) and not ((space.low == -1).all() and (space.high == 1).all()):
        problems.append(
            f"the action space is {space}: a world's actions are in [-1, 1] per dimension; use Box(-1, 1, ...) and "
            "rescale inside step, or give a single gymnasium.Env, whose actions are rescaled for you"
        )
    return problems


def _random_actions(world: World, rng: np.random.Generator) -> Array:
    space = world.single_action_space
    if isinstance(space, gym.spaces.MultiDiscrete):
        nvec = np.asarray(space.nvec)
        return rng.integers(0, np.broadcast_to(nvec, (world.num_envs, *nvec.shape)))
    return rng.uniform(-1, 1, (world.num_envs, *(space.shape or ()))).astype(np.float32)


def _played(world: World, actions: list[Array], seed: int, problems: list[str]) -> list[object]:
    """Step through the actions, starting new episodes where they end; what was seen."""
    rows = world.num_envs
    seeds = [seed + row for row in range(rows)]
    obs, _ = world.reset(seed=list(seeds), options={"reset_mask": np.ones(rows, bool)})
    _check_obs(world, obs, "reset", problems)
    seen: list[object] = [tree.copy(obs)]
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


def _check_obs(world: World, obs: Obs, where: str, problems: list[str]) -> None:
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


def _same(one: object, other: object) -> bool:
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(_same(a, b) for a, b in zip(one, other, strict=True))
    return tree.equal(one, other)


def _check_resume(world: World, actions: list[Array], seed: int) -> list[str]:
    """Snapshot in the middle, play on, restore, play on again: both must agree."""
    rows = world.num_envs
    world.reset(seed=[seed + row for row in range(rows)], options={"reset_mask": np.ones(rows, bool)})
    for action in actions[:5]:
        _, _, terminated, truncated, _ = world.step(action)
        if (terminated | truncated).any():
            return []  # too short to cut in the middle
    snapshot = world.snapshot()
    stepped = world.step(actions[5])[:4]
    after = (tree.copy(stepped[0]), *(np.array(x) for x in stepped[1:]))
    world.restore(snapshot)
    if _same(after, world.step(actions[5])[:4]):
        return []
    return ["restore(snapshot()) did not bring the world back to the same state: resuming would not be exact"]
