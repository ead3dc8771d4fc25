"""N single Gymnasium environments as one world; resumes by replaying the actions since each reset."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from twofold.base import tree
from twofold.base.arrivals import shown, wrong_array, wrong_flag, wrong_number
from twofold.base.errors import WorldError
from twofold.base.foreign import AnyEnv, AnySpace, Frames, Info
from twofold.core.experience import Array, Obs, blank_like
from twofold.core.protocols import State

_MAX_ROWS = 10_000
_NUMBERS, _FLAGS = {float, int, np.float64, np.float32}, {bool, np.bool_}  # the usual types, told fastest
MakeEnv = Callable[[], AnyEnv]
Seeds = int | Sequence[int | None] | None


class EpisodeLog:
    """What the current episode of every row is a function of: its seed and its actions."""

    def __init__(self, rows: int) -> None:
        self.seeds: list[int] = [-1] * rows  # -1: never reset
        # [room, ...], doubled when full: episodes may never end.
        self._actions: list[Array | None] = [None] * rows
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

    def steps(self, row: int) -> int:
        """Steps of the row's episode so far."""
        return self._counts[row]

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


def seconds_of_a_step(env: AnyEnv) -> float | None:
    """What a step takes by the pictures that the environment says it shows in a second."""
    rate = env.metadata.get("render_fps")
    return 1 / float(rate) if isinstance(rate, (int, float)) and rate > 0 else None


def gather_info(infos: list[Info], rows: int) -> Info:
    """The `info["episode"]` dicts of single environments as arrays [N]; absent values are NaN."""
    found: dict[str, Array] = {}
    for row, info in enumerate(infos):
        for name, value in info.get("episode", {}).items():
            found.setdefault(name, np.full(rows, np.nan))[row] = value
    return {"episode": found} if found else {}


def env_name(env: AnyEnv) -> str:
    """An environment as messages name it."""
    return env.spec.id if env.spec is not None else type(env.unwrapped).__name__


class EnvRows(VectorEnv):
    """Rows in this process, stepped one after the other; what an environment gives is checked, never broadcast.

    `fresh` makes a new environment for every episode: for those whose state survives `reset`, such as Box2D's.
    `first` is the number of the first row where these are some of the rows of a world.
    """

    metadata = {"autoreset_mode": AutoresetMode.DISABLED}
    gives_checked = True

    def __init__(
        self,
        make_env: MakeEnv,
        rows: int,
        *,
        fresh: bool = False,
        bounds: tuple[Array, Array] | None = None,
        first: int = 0,
    ) -> None:
        if rows > _MAX_ROWS:
            raise WorldError(
                f"{rows:,} rows of single environments are too many for one process ({_MAX_ROWS:,})"
            )
        self._make_env, self.fresh = make_env, fresh
        self.envs = [make_env() for _ in range(rows)]
        rows_spaces(self, rows, self.envs[0])
        self.step_seconds = seconds_of_a_step(self.envs[0])
        if bounds is not None:
            self.action_bounds = bounds
        self.log, self._first = EpisodeLog(rows), first
        self._obs = blank_like(self.single_observation_space, rows)
        blank = blank_like(self.single_observation_space, 1)
        self._like = tree.map(lambda leaf: leaf.reshape(leaf.shape[1:]), blank)
        self._shape = () if isinstance(blank, dict) else blank.shape[1:]
        self._taken: object = None  # the type of the last observation that was found right
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

    def _start(self, row: int, seed: int | None) -> tree.Branch:
        if self.fresh and self.log.seeds[row] != -1:
            self.envs[row].close()
            self.envs[row] = self._make_env()
        self.log.start(row, -1 if seed is None else seed)
        answer: object = self.envs[row].reset(seed=seed)
        if not isinstance(answer, (tuple, list)) or len(answer) != 2:
            self._refuse(row, f"reset gave {shown(answer)}, Gymnasium's has two parts: obs, info")
        return answer[0]

    def _put(self, row: int, obs: tree.Branch) -> None:
        """Take a row's observation; one of another shape or kind ends the run."""
        if not isinstance(self._obs, dict):
            if type(obs) is not np.ndarray or obs.dtype is not self._taken or obs.shape != self._shape:
                if wrong := wrong_array(obs, self._like, cast=True):
                    self._refuse(row, f"the observation {wrong}")
                self._taken = np.asarray(obs).dtype
            self._obs[row] = obs
            return
        if not isinstance(obs, dict) or obs.keys() != self._obs.keys():
            self._refuse(row, f"the observation must have {', '.join(self._obs)}: {shown(obs)}")
        for name, whole in self._obs.items():
            if wrong := wrong_array(obs[name], self._like[name], cast=True):
                self._refuse(row, f"the observation's '{name}' {wrong}")
            whole[row] = obs[name]

    def _refuse(self, row: int, problem: str) -> NoReturn:
        """Stop: say which environment gave what where, so that it can be seen again."""
        where = f"row {self._first + row}, step {self.log.steps(row)} of the episode with seed {self.log.seeds[row]}"
        raise WorldError(
            f"{env_name(self.envs[row])}, {where}: {problem}; `twofold check` tests an environment"
        )

    def _stepped(self, row: int, action: Array) -> tuple[tree.Branch, float, bool, bool, Info]:
        """One environment's step, its five parts of the kinds that Gymnasium promises."""
        self.log.step(row, action)
        answer = self.envs[row].step(action)
        try:
            _, reward, terminated, truncated, info = answer
        except (TypeError, ValueError):
            parts = "obs, reward, terminated, truncated, info"
            self._refuse(row, f"step gave {shown(answer)}, Gymnasium's has five parts: {parts}")
        usual = type(reward) in _NUMBERS and type(terminated) in _FLAGS and type(truncated) in _FLAGS
        if not usual or type(info) is not dict or "episode" in info:
            self._check_rest(row, reward, terminated, truncated, info)
        return answer  # type: ignore[return-value]  # checked above, which a type cannot say

    def _check_rest(
        self, row: int, reward: object, terminated: object, truncated: object, info: object
    ) -> None:
        if wrong := wrong_number(reward):
            self._refuse(row, f"the reward {wrong}")
        for name, flag in (("terminated", terminated), ("truncated", truncated)):
            if wrong := wrong_flag(flag):
                self._refuse(row, f"the flag `{name}` {wrong}")
        episode = info.get("episode", {}) if isinstance(info, dict) else None
        if not isinstance(episode, dict):
            self._refuse(row, f"info must be a dictionary, and its 'episode' one of numbers: {shown(info)}")
        for name, value in episode.items():
            if np.size(value) != 1 or np.asarray(value).dtype.kind not in "fiub":
                self._refuse(row, f"info['episode']['{shown(name)}'] is not a number: {shown(value)}")

    def step(self, actions: Array) -> tuple[Obs, Array, Array, Array, Info]:
        rows = self.num_envs
        self._obs = tree.map(np.empty_like, self._obs)
        reward, terminated, truncated = np.empty(rows), np.empty(rows, bool), np.empty(rows, bool)
        infos: list[Info] = []
        for row in range(rows):
            obs, reward[row], terminated[row], truncated[row], info = self._stepped(row, actions[row])
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
                self._put(row, self._stepped(row, action)[0])

    def render(self) -> Frames:
        return tuple(env.render() for env in self.envs)

    def close_extras(self, **kwargs: object) -> None:
        for env in self.envs:
            env.close()
