"""The collector: a world times a policy gives items."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, NoReturn

import numpy as np

from twofold.base import finite, tree
from twofold.base.arrivals import Arrivals
from twofold.base.errors import WorldError
from twofold.core.experience import Array, Item, Obs, Steps, blank_like
from twofold.core.protocols import Policy, State, World, Writer
from twofold.core.replay import Ring
from twofold.core.seeding import episode_seed


@dataclass(frozen=True)
class EarlyLimit:
    """A time limit of episodes that holds until a step of the run."""

    steps: int  # of an episode
    until: int  # step of the run


class Collector(Generic[Item]):
    """Steps all rows at once, writes items into replay, and starts every episode with an explicit seed."""

    def __init__(
        self,
        world: World,
        policy: Policy,
        writer: Writer[Item],
        replay: Ring[Item],
        *,
        seed: int,
        warmup: int,
        refuse: Callable[..., NoReturn],  # `Keeper.refuse`
        early: EarlyLimit | None = None,
    ) -> None:
        self.world, self.policy, self.writer, self.replay = world, policy, writer, replay
        self.seed, self.warmup, self.refuse, self.early = seed, warmup, refuse, early
        rows = world.num_envs
        self.arrivals = Arrivals(world, blank_like(world.single_observation_space, rows), rows)
        self.steps = 0
        self.episodes = np.zeros(rows, np.int64)  # episodes begun, per row
        self.returns, self.lengths = np.zeros(rows), np.zeros(rows)
        self.finished: list[dict[str, float]] = []
        self.obs: Obs = {}  # until `start`

    def start(self) -> None:
        """The first episode of every row."""
        self._reset(np.ones(self.world.num_envs, bool))

    def _reset(self, rows: Array) -> None:
        seeds = [episode_seed(self.seed, row, int(n)) for row, n in enumerate(self.episodes)]
        self.episodes[rows] += 1
        self.obs, _ = self.world.reset(seed=list(seeds), options={"reset_mask": rows})
        self.arrivals.of_reset(self.obs, self.steps)
        self.policy.reset(rows)
        self.returns[rows] = self.lengths[rows] = 0
        if bad := finite.first_bad_row(obs=self.obs):
            self.refuse(bad, at=f"after a reset at step {self.steps}", evidence={"obs": self.obs})

    def step(self) -> int:
        """One step of every row; the number of new items."""
        obs = self.obs
        action = self.policy.random(obs) if self.steps < self.warmup else self.policy.act(obs)
        if bad := finite.first_bad_row(action=action):  # before a simulator chokes on it
            self.refuse(bad, at=f"at step {self.steps}", evidence={"obs": obs, "action": action})
        next_obs, reward, terminated, truncated, info = self.world.step(action)
        self.arrivals.of_step(next_obs, reward, terminated, truncated, self.steps)
        if bad := finite.first_bad_row(reward=reward, obs=next_obs):
            evidence = {"obs": obs, "action": action, "reward": reward, "next_obs": next_obs}
            self.refuse(bad, at=f"at step {self.steps}", evidence=evidence)
        valid = ~info["broken"] if "broken" in info else np.ones(len(reward), bool)
        ended = terminated | truncated
        done = ended | self._cut()
        truncated = truncated | (done & ~ended)
        written = self.writer.step(Steps(obs, action, reward, next_obs, terminated, truncated, valid))
        before = self.replay.added
        if written is not None:
            self.replay.add(written)
        self.steps += len(reward)
        self.returns += reward
        self.lengths += 1
        self.obs = next_obs
        if done.any():
            self._finish(done & valid, ended, info.get("episode", {}))
            self._reset(done)
        return self.replay.added - before

    def _cut(self) -> Array:
        """Rows whose episode has lasted as long as it may, this early in the run."""
        if self.early is None or self.steps >= self.early.until:
            return np.zeros(len(self.lengths), bool)
        return self.lengths + 1 >= self.early.steps

    def _finish(self, rows: Array, ended: Array, metrics: dict[str, Array]) -> None:
        for row in np.flatnonzero(rows):
            values = {"return": self.returns[row], "length": self.lengths[row]}
            if ended[row]:  # else the world has not summed it up
                values |= {name: value[row] for name, value in metrics.items()}
            self.finished.append({name: float(value) for name, value in values.items()})

    def drain(self) -> dict[str, float]:
        """Mean metrics of the episodes that ended since the last call, each over those that have it."""
        columns, self.finished = _columns(self.finished), []
        there = {name: values[~np.isnan(values)] for name, values in columns.items()}
        return {f"collect/{name}": float(values.mean()) for name, values in there.items() if len(values)}

    def state_dict(self) -> State:
        return {
            "steps": self.steps,
            "episodes": self.episodes,
            "returns": self.returns,
            "lengths": self.lengths,
            "finished": _columns(self.finished),
            "obs": dict(tree.items(self.obs, "obs")),
            "world": self.world.snapshot(),
            "policy": self.policy.state_dict(),
            "writer": self.writer.state_dict(),
        }

    def load_state_dict(self, state: State) -> None:
        """Put every row back into the middle of its episode."""
        self.start()
        self.world.restore(state["world"])
        self.policy.load_state_dict(state["policy"])
        self.writer.load_state_dict(state["writer"])
        paths = iter([path for path, _ in tree.items(self.obs, "obs")])
        try:
            self.obs = tree.map(lambda _: np.array(state["obs"][next(paths)]), self.obs)
        except KeyError:
            raise WorldError("the world's observations have another shape than the checkpoint's") from None
        self.steps, self.episodes = int(state["steps"]), np.array(state["episodes"])
        self.returns, self.lengths = np.array(state["returns"]), np.array(state["lengths"])
        self.finished = _episodes(state["finished"])


def _columns(episodes: list[dict[str, float]]) -> State:
    """Metrics of episodes as one array each: there may be a million of them between two log lines."""
    names = dict.fromkeys(name for episode in episodes for name in episode)
    return {name: np.array([episode.get(name, np.nan) for episode in episodes]) for name in names}


def _episodes(columns: State) -> list[dict[str, float]]:
    """What `_columns` was made of."""
    return [dict(zip(columns, map(float, row), strict=True)) for row in zip(*columns.values(), strict=True)]
