"""Level-based foraging stepped for all rows at once: the package places players and food, its rules are done here.

`tests/team/test_foraging.py` plays this world and the package side by side; they agree to the bit.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from twofold.core.experience import Array
from twofold.team.worlds.space import (
    METADATA,
    Arrays,
    Foreign,
    Frames,
    Info,
    Seeds,
    Stepped,
    TeamObs,
    TeamShape,
    TeamWorld,
    reset_mask,
    seeds_of,
    set_spaces,
)

LOAD = 5
MOVES = np.array([[0, 0], [-1, 0], [1, 0], [0, -1], [0, 1], [0, 0]])  # stay, north, south, west, east, load


def can_batch(env: Foreign) -> bool:
    """Whether a game of the package is one that this file knows: everything in sight, plain observations."""
    return (
        env.sight >= max(env.rows, env.cols)
        and not env._grid_observation
        and env._observe_agent_levels
        and env._normalize_reward
    )


class Foraging(Arrays, TeamWorld):
    """N games of one kind; `env` is one of them, used to begin episodes exactly as the package does."""

    state: ClassVar[tuple[str, ...]] = ("place", "level", "food", "spawned", "step", "foraged")

    def __init__(self, env: Foreign, rows: int, limit: int) -> None:
        self.metadata, self.render_mode = dict(METADATA), "rgb_array"
        self.env, self.limit = env, limit
        self.players, self.foods = len(env.players), int(env.max_num_food)
        self.size, self.penalty = np.array([env.rows, env.cols]), float(env.penalty)
        width = 3 * (self.foods + self.players)
        set_spaces(self, rows, TeamShape(self.players, width, self.players * width, 6, limit))
        self._place = np.zeros((rows, self.players, 2), np.int64)
        self._level = np.ones((rows, self.players), np.int64)
        self._food = np.zeros((rows, self.foods, 3), np.int64)  # y, x, level; level 0: eaten
        self._spawned = np.ones(rows)
        self._step = np.zeros(rows, np.int32)
        self._foraged = np.zeros(rows)
        # The order in which each player sees the others: itself first.
        self._order = np.array(
            [[i, *(j for j in range(self.players) if j != i)] for i in range(self.players)]
        )

    def reset(self, *, seed: Seeds = None, options: Info | None = None) -> tuple[TeamObs, Info]:
        seeds = seeds_of(seed, self.num_envs)
        mask = reset_mask(options, self.num_envs)
        for row in np.flatnonzero(mask):
            self._begin(int(row), seeds[row])
        self._step[mask], self._foraged[mask] = 0, 0.0
        return self._observe(), {}

    def _begin(self, row: int, seed: int | None) -> None:
        forget(self.env)
        self.env.reset(seed=seed)
        self._place[row] = [player.position for player in self.env.players]
        self._level[row] = [player.level for player in self.env.players]
        at = np.argwhere(self.env.field)
        self._food[row] = 0
        self._food[row, : len(at)] = np.column_stack([at, self.env.field[tuple(at.T)]])
        self._spawned[row] = self.env.field.sum()

    def step(self, actions: Array) -> Stepped:
        actions = np.asarray(actions, np.int64)
        loading = (actions == LOAD) & self._beside().any(-1)
        self._move(np.where(actions == LOAD, 0, actions))
        reward = self._load(loading).sum(-1, dtype=float)
        self._step += 1
        terminated: Array = ~np.any(self._food[..., 2] > 0, -1)
        truncated = ~terminated & (self._step >= self.limit)
        self._foraged += reward
        return self._observe(), reward, terminated, truncated, {"episode": {"foraged": self._foraged.copy()}}

    def _beside(self) -> Array:
        """Which food lies beside which player, [N, P, F]."""
        apart = np.abs(self._place[:, :, None] - self._food[:, None, :, :2]).sum(-1)
        beside: Array = (apart == 1) & (self._food[..., 2] > 0)[:, None]
        return beside

    def _move(self, actions: Array) -> None:
        """Walk where no border, food or other player's wish is in the way."""
        goal = self._place + MOVES[actions]
        inside = ((goal >= 0) & (goal < self.size)).all(-1)
        on_food = (goal[:, :, None] == self._food[:, None, :, :2]).all(-1) & (self._food[..., 2] > 0)[:, None]
        goal = np.where((inside & ~on_food.any(-1))[..., None], goal, self._place)
        same = (goal[:, :, None] == goal[:, None]).all(-1)
        alone = same.sum(-1) == 1
        self._place = np.where(alone[..., None], goal, self._place)

    def _load(self, loading: Array) -> Array:
        """Food is eaten when the levels of those who load it reach its own; they are paid by level, [N, P]."""
        helps = self._beside() & loading[..., None]
        strength = (helps * self._level[..., None]).sum(1)  # [N, F]
        level = self._food[..., 2]
        eaten = (level > 0) & (strength >= level) & helps.any(1)
        share = (
            self._level[..., None]
            * level[:, None]
            / np.maximum(strength * self._spawned[:, None], 1)[:, None]
        )
        gain = (helps & eaten[:, None]) * share
        failed = (helps & ~eaten[:, None]).any(-1)
        self._food[..., 2] = np.where(eaten, 0, level)
        paid: Array = (gain.sum(-1) - self.penalty * failed).astype(np.float32)
        return paid

    def _observe(self) -> TeamObs:
        rows = self.num_envs
        left = self._food[..., 2] > 0
        order = np.argsort(~left, axis=1, kind="stable")  # what is left moves to the front
        food = np.where(left[..., None], self._food, [-1, -1, 0])
        food = np.take_along_axis(food, order[..., None], 1).reshape(rows, 1, -1)
        players = np.concatenate([self._place, self._level[..., None]], -1)[:, self._order].reshape(
            rows, self.players, -1
        )
        obs = np.concatenate([np.repeat(food, self.players, 1), players], -1).astype(np.float32)
        avail = np.ones((rows, self.players, 6), np.uint8)
        return {"obs": obs, "state": obs.reshape(rows, -1).copy(), "avail": avail, "step": self._step.copy()}

    def render(self) -> Frames:
        from twofold.team.worlds.drawing import draw_forage

        return tuple(
            draw_forage(self.size, self._place[i], self._level[i], self._food[i])
            for i in range(self.num_envs)
        )


def forget(env: Foreign) -> None:
    """Where players stood in the last episode must not say where they may begin the next."""
    for player in env.players:
        player.position = None
