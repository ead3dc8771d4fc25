"""N single Gymnasium environments as one world; resumes by replaying the actions since each reset."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from twofold.base import tree
from twofold.base.errors import WorldError
from twofold.base.foreign import AnyEnv, AnySpace, Frames, Info
from twofold.core.experience import Array, Obs, blank_like
from twofold.core.protocols import State

_MAX_ROWS = 10_000
MakeEnv = Callable[[], AnyEnv]
Seeds = int | Sequence[int | None] | None


class EpisodeLog:
    """What the current episode of every row is a function of: its seed and its actions."""

    def __init__(self, rows: int) -> None:
        self.seeds: list[int] = [-1] * rows  # -1: never reset
        self._actions: list[Array | None] = [
            None
        ] * rows  # [room, ...], doubled when full: episodes may never end
        self._counts = [0] * rows

    def start(self, row: int, seed: int) -> None:
        self.seeds[row], self._counts[row] = seed, 0

    def step(self, row: int, action: Array) -> None:
        held, count = self._actions[row], self._counts[row]
        if held is None or count == len(held):
            room = np.empty((max(64, 2 * count), *np.shape(action)), np.asarray(action).dtype)
            if held is not None:
                room[:count] = held
            held = self._actions[row] = room
        held[count] = action
        self._counts[row] = count + 1

    def played(self, row: int) -> Array:
        """The row's actions since its reset [T, ...]."""
        held = self._actions[row]
        return np.empty(0) if held is None else held[: self._counts[row]]

    def snapshot(self) -> State:
        played = {str(i): self.played(i).copy() for i, count in enumerate(self._counts) if count}
        return {"seeds": np.array(self.seeds, np.int64), "actions": played}

    def load(self, snapshot: State) -> None:
        self.seeds = [int(seed) for seed in snapshot["seeds"]]
        saved = [snapshot["actions"].get(str(i)) for i in range(len(self.seeds))]
        self._actions = [None if a is None else np.array(a) for a in saved]
        self._counts = [0 if a is None else len(a) for a in saved]


def as_float32(space: AnySpace) -> AnySpace:
    """The space with float64 boxes as float32: what networks take and replay keeps."""
    if isinstance(space, gym.spaces.Dict):
        return gym.spaces.Dict({key: as_float32(sub) for key, sub in space.spaces.items()})
    if isinstance(space, gym.spaces.Box) and space.dtype == np.float64:
        return gym.spaces.Box(space.low.astype(np.float32), space.high.astype(np.float32), dtype=np.float32)
    return space


def rows_spaces(world: VectorEnv[Obs, Array, Array], rows: int, env: AnyEnv) -> None:
    """Give a VectorEnv the spaces of `rows` copies of `env`."""
    world.num_envs = rows
    world.single_observation_space = as_float32(env.observation_space)
    world.single_action_space = env.action_space
    world.observation_space = batch_space(world.single_observation_space, rows)
    world.action_space = batch_space(env.action_space, rows)


def gather_info(infos: list[Info], rows: int) -> Info:
    """The `info["episode"]` dicts of single environments as arrays [N]; absent values are NaN."""
    found: dict[str, Array] = {}
    for row, info in enumerate(infos):
        for name, value in info.get("episode", {}).items():
            found.setdefault(name, np.full(rows, np.nan))[row] = value
    return {"episode": found} if found else {}


class EnvRows(VectorEnv):
    """Rows in this process, stepped one after the other.

    `fresh` makes a new environment for every episode: for those whose state survives `reset`, such as Box2D's.
    """

    metadata = {"autoreset_mode": AutoresetMode.DISABLED}

    def __init__(
        self, make_env: MakeEnv, rows: int, *, fresh: bool = False, bounds: tuple[Array, Array] | None = None
    ) -> None:
        if rows > _MAX_ROWS:
            raise WorldError(
                f"{rows:,} rows of single environments are too many for one process ({_MAX_ROWS:,})"
            )
        self._make_env, self.fresh = make_env, fresh
        self.envs = [make_env() for _ in range(rows)]
        rows_spaces(self, rows, self.envs[0])
        if bounds is not None:
            self.action_bounds = bounds
        self.log = EpisodeLog(rows)
        self._obs = blank_like(self.single_observation_space, rows)
        self.render_mode = self.envs[0].render_mode

    def reset(self, *, seed: Seeds = None, options: Info | None = None) -> tuple[Obs, Info]:
        mask = (options or {}).get("reset_mask", np.ones(self.num_envs, bool))
        seeds = (
            seed
            if isinstance(seed, Sequence)
            else [None if seed is None else seed + i for i in range(self.num_envs)]
        )
        self._obs = tree.copy(self._obs)
        for row in np.flatnonzero(mask).tolist():
            self._put(row, self._start(row, seeds[row]))
        return tree.copy(self._obs), {}

    def _start(self, row: int, seed: int | None) -> Obs:
        if self.fresh and self.log.seeds[row] != -1:
            self.envs[row].close()
            self.envs[row] = self._make_env()
        self.log.start(row, -1 if seed is None else seed)
        obs: Obs = self.envs[row].reset(seed=seed)[0]
        return obs

    def _put(self, row: int, obs: Obs) -> None:
        if not isinstance(self._obs, dict):
            self._obs[row] = obs
        else:
            tree.map(lambda whole, part: whole.__setitem__(row, part), self._obs, obs)

    def step(self, actions: Array) -> tuple[Obs, Array, Array, Array, Info]:
        rows = self.num_envs
        self._obs = tree.map(np.empty_like, self._obs)
        reward, terminated, truncated = np.empty(rows), np.empty(rows, bool), np.empty(rows, bool)
        infos: list[Info] = []
        for row, env in enumerate(self.envs):
            self.log.step(row, actions[row])
            obs, reward[row], terminated[row], truncated[row], info = env.step(actions[row])
            self._put(row, obs)
            infos.append(info)
        return self._obs, reward, terminated, truncated, gather_info(infos, rows)

    def snapshot(self) -> State:
        return self.log.snapshot()

    def restore(self, snapshot: State) -> None:
        """Play every row's episode again up to where it was."""
        wanted = EpisodeLog(self.num_envs)
        wanted.load(snapshot)
        for row, seed in enumerate(wanted.seeds):
            if seed == -1:
                continue
            self._put(row, self._start(row, seed))
            for action in wanted.played(row):
                self.log.step(row, action)
                self._put(row, self.envs[row].step(action)[0])

    def render(self) -> Frames:
        return tuple(env.render() for env in self.envs)

    def close_extras(self, **kwargs: object) -> None:
        for env in self.envs:
            env.close()
