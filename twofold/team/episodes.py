"""Episodes as replay items: padded to the episode limit, with a mask of what was really played."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike

from twofold.base import tree
from twofold.base.errors import WorldError
from twofold.core.experience import Array, Steps, Written, blank_like, named
from twofold.core.protocols import State
from twofold.team.worlds.space import Space, shape_of


@dataclass(frozen=True)
class Episode:
    """The team's item; obs has one step more than the rest, so that the last step has a successor."""

    obs: dict[str, Array]  # [T + 1, ...] each
    action: Array  # [T, A] or [T, A, a]
    reward: Array  # [T]
    terminated: Array  # [T]; a time limit is not an end
    filled: Array  # [T]; 1 for steps that were played


class EpisodeWriter:
    """Collects the steps of every row and gives out whole episodes."""

    def __init__(self, rows: int, observation_space: Space, action_space: Space) -> None:
        self.rows, self.limit = rows, shape_of(observation_space).limit
        self._spaces = (observation_space, action_space)
        self._length = np.zeros(rows, np.int64)
        self._open = self._room(rows)

    def _room(self, rows: int) -> Episode:
        observation_space, action_space = self._spaces
        limit = self.limit

        def over_time(leaf: Array, steps: int) -> Array:
            return np.zeros((rows, steps, *leaf.shape[1:]), _stored(leaf.dtype))

        obs = {key: over_time(leaf, limit + 1) for key, leaf in named(blank_like(observation_space)).items()}
        action = over_time(np.asarray(blank_like(action_space)), limit)
        flag = np.zeros((rows, limit), np.uint8)
        return Episode(obs, action, np.zeros((rows, limit), np.float32), flag, flag.copy())

    def blank(self) -> Episode:
        return self._room(0)

    def step(self, steps: Steps) -> Written[Episode] | None:
        """The episodes that ended with this step; a row whose worker broke loses its episode."""
        rows, at = np.arange(self.rows), self._length
        if (at >= self.limit).any():
            raise WorldError(f"an episode is longer than the {self.limit} steps that its world declares")
        episode = self._open
        obs, next_obs = named(steps.obs), named(steps.next_obs)
        for key, leaf in episode.obs.items():
            leaf[rows, at], leaf[rows, at + 1] = obs[key], next_obs[key]
        episode.action[rows, at], episode.reward[rows, at] = steps.action, steps.reward
        episode.terminated[rows, at], episode.filled[rows, at] = steps.terminated, 1
        self._length += 1
        over = steps.terminated | steps.truncated
        ended = over & steps.valid
        out = Written(tree.index(episode, ended), rows[ended], ended[ended]) if ended.any() else None
        self._clear(over | ~steps.valid)
        return out

    def _clear(self, rows: Array) -> None:
        if rows.any():
            self._length[rows] = 0
            for leaf in tree.leaves(self._open):
                leaf[rows] = 0

    def state_dict(self) -> State:
        return {"length": self._length, "open": dict(tree.items(self._open))}

    def load_state_dict(self, state: State) -> None:
        self._length[:] = state["length"]
        for path, leaf in tree.items(self._open):
            leaf[:] = state["open"][path]


def _stored(dtype: DTypeLike) -> DTypeLike:
    """Action numbers need no eight bytes."""
    return np.int16 if np.issubdtype(dtype, np.int64) else dtype


def longest(filled: Array) -> int:
    """Steps of the longest episode of a batch [B, T]: nothing needs computing after it."""
    return max(1, int(np.flatnonzero(filled.any(axis=0)).max(initial=-1)) + 1)


def longest_first(batch: Episode, steps: int) -> Episode:
    """The first `steps` steps of a batch, its episodes in the order of their lengths."""
    order = np.argsort(-batch.filled.sum(axis=1, dtype=np.int64), kind="stable")

    def first(leaf: Array) -> Array:
        return leaf[order, : steps + leaf.shape[1] - batch.filled.shape[1]]

    obs = {name: first(leaf) for name, leaf in batch.obs.items()}
    return Episode(obs, *map(first, (batch.action, batch.reward, batch.terminated, batch.filled)))


def going_on(filled: Array, steps: int) -> Array:
    """At each of `steps` + 1 observations of a batch [B, T], the episodes up to the last one that has it."""
    lengths = filled.sum(axis=1, dtype=np.int64)
    has = np.arange(steps + 1)[:, None] <= lengths  # [T + 1, B]
    count: Array = (has * np.arange(1, len(lengths) + 1)).max(axis=1)
    return count
