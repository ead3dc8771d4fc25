"""Checking that a world keeps its contract."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from twofold.base import finite, tree
from twofold.base.arrivals import Arrivals
from twofold.base.errors import WorldError
from twofold.core.experience import Array, blank_like
from twofold.core.protocols import State, World


@runtime_checkable
class Resumable(Protocol):
    """A world that can be put back into the middle of its episodes."""

    def snapshot(self) -> State: ...

    def restore(self, snapshot: State, /) -> None: ...


def check_world(world: World, steps: int = 200, seed: int = 7) -> list[str]:
    """What is wrong with a world, in words; an empty list if it keeps the contract."""
    try:
        return _unkept(world) or _check_episodes(world, steps, seed)
    except WorldError as error:  # of single environments, whose rows look at what they give
        return [str(error)]


def _check_episodes(world: World, steps: int, seed: int) -> list[str]:
    """Shapes, kinds and finiteness of what it gives; the same again for the same seeds; exact resume."""
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
    arrivals = Arrivals(world, blank_like(world.single_observation_space, rows), rows)
    obs, _ = world.reset(seed=list(seeds), options={"reset_mask": np.ones(rows, bool)})
    problems += [f"reset: {problem}" for problem in arrivals.problems(obs) or _not_finite(obs=obs)]
    seen: list[object] = [] if problems else [tree.copy(obs)]
    for number, action in enumerate(actions):
        if problems:
            break
        obs, reward, terminated, truncated, _ = world.step(action)
        wrong = arrivals.problems(obs, reward, terminated, truncated)
        wrong = wrong or _not_finite(obs=obs, reward=np.asarray(reward))
        problems += [f"step {number + 1}: {problem}" for problem in wrong]
        if problems:
            break
        seen.append((tree.copy(obs), np.array(reward), np.array(terminated), np.array(truncated)))
        done = np.asarray(terminated) | np.asarray(truncated)
        if done.any():
            seeds = [s + 1000 for s in seeds]
            obs, _ = world.reset(seed=list(seeds), options={"reset_mask": done})
    return seen


def _not_finite(**arrays: object) -> list[str]:
    bad = finite.first_bad_row(**arrays)
    return [f"{bad} holds NaN or infinity"] if bad else []


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
