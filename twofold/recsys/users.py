"""The world of users: rows of users who are shown items one after another, stepped together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from twofold.base.errors import WorldError
from twofold.base.foreign import AnySpace, Info
from twofold.core.protocols import State
from twofold.recsys.belief import Belief
from twofold.recsys.catalogue import Catalogue, ItemSpace
from twofold.recsys.data import Array
from twofold.recsys.items import best_items
from twofold.recsys.penalties import Penalties
from twofold.recsys.quit import QuitRule, window_of
from twofold.recsys.truth import Factors, Matrix, hashed, hashed_normal


@dataclass(frozen=True)
class Rules:
    """How an episode goes."""

    max_turn: int  # length of the history in the observation
    limit: int  # an episode is cut after so many turns
    window: int  # items that the quit rule looks back on
    quit_window: Literal["intended", "compat"]
    block: int  # the last so many items cannot be shown again; max_turn: no repeats at all
    low: float
    high: float
    rating_noise: float = 0.0  # training only: an unknown part of each user's rating of each item
    quit_penalty: float = 0.0  # training only: taken from the reward of the turn at which the user quits
    scale: float = 1.0  # training only: the reward is divided by this
    centred: bool = False  # training only: reward relative to what the user gives on average
    reward: Literal["rating", "taken", "both"] = "rating"  # training only: what is paid for
    take_weight: float = 0.0  # training only: worth of an item that is surely taken


@dataclass(frozen=True)
class Feelings:
    """What the users of a world feel: one or several possible rating tables, and the quit rule of each."""

    tables: tuple[Matrix | Factors, ...]
    quit_rule: QuitRule
    quit_worlds: int  # 1: the same quit rule in all tables


Obs = dict[str, Array]


class Users(VectorEnv[Obs, Array, Array]):
    """N rows of one user each; actions are points of the item space [N, d] or item numbers int [N]."""

    metadata = {"autoreset_mode": AutoresetMode.DISABLED, "render_modes": []}

    def __init__(
        self,
        rows: int,
        catalogue: Catalogue,
        feelings: Feelings,
        rules: Rules,
        penalties: Penalties | None = None,
    ) -> None:
        self.num_envs, self.catalogue, self.feelings, self.rules = rows, catalogue, feelings, rules
        self.penalties = penalties
        self.users, self.items = feelings.tables[0].shape
        self._stack = _stacked(feelings.tables)
        self.single_action_space = ItemSpace(catalogue)
        self.action_space = batch_space(self.single_action_space, rows)
        self.single_observation_space = self._observation_space()
        self.observation_space = batch_space(self.single_observation_space, rows)
        self.belief = Belief(catalogue, rows)
        self.user = np.zeros(rows, np.int64)
        self.world = np.zeros(rows, np.int64)
        self.seed = np.zeros(rows, np.int64)
        self.turn = np.zeros(rows, np.int64)
        self.history = np.full((rows, rules.max_turn), -1, np.int32)
        self.ratings = np.zeros((rows, rules.max_turn), np.float32)
        self.shown = np.zeros(rows, np.int64)  # the item of the last step
        self._all = np.arange(rows)
        self._fresh = np.random.default_rng()

    def _observation_space(self) -> gym.spaces.Dict:
        turns, ids = self.rules.max_turn, np.int32
        spaces: dict[str, AnySpace] = {
            "user": gym.spaces.Box(-1, self.users - 1, (1,), ids),
            "turn": gym.spaces.Box(0, turns, (1,), ids),
            "block": gym.spaces.Box(0, turns, (1,), ids),
            "items": gym.spaces.Box(-1, self.items - 1, (turns,), ids),
            "ratings": gym.spaces.Box(-np.inf, np.inf, (turns,), np.float32),
        }
        width = self.catalogue.belief_factors.shape[1]
        if width:
            spaces["belief"] = gym.spaces.Box(-np.inf, np.inf, (width,), np.float32)
        return gym.spaces.Dict(spaces)

    # ---- Gymnasium ----

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: Info | None = None
    ) -> tuple[Obs, Info]:
        """Start an episode in the masked rows; user and world are functions of the row's seed."""
        mask = np.ones(self.num_envs, bool) if not options else np.asarray(options["reset_mask"])
        rows = np.flatnonzero(mask)
        seeds = self._seeds(seed, rows)
        self.seed[rows] = seeds
        # Consecutive seeds give consecutive users: as many seeds as users visit each of them exactly once.
        self.user[rows] = seeds % self.users
        self.world[rows] = hashed(seeds, 7) % np.uint64(len(self.feelings.tables))
        self.turn[rows] = 0
        self.history[rows] = -1
        self.ratings[rows] = 0.0
        self.belief.reset(rows)
        return self._obs(), {}

    def _seeds(self, seed: int | Sequence[int | None] | None, rows: Array) -> Array:
        if isinstance(seed, (int, np.integer)):
            seed = [int(seed) + row for row in range(self.num_envs)]
        given: list[int | None] = [None] * self.num_envs if seed is None else list(seed)
        drawn = self._fresh.integers(2**31, size=len(rows))
        return np.array(
            [d if given[r] is None else given[r] for r, d in zip(rows, drawn, strict=True)], np.int64
        )

    def step(self, actions: Array) -> tuple[Obs, Array, Array, Array, Info]:
        """Show one item to every user."""
        items = self._items(np.asarray(actions))
        rules, turn = self.rules, self.turn
        rating = self._rating(items)
        window = window_of(self.history, turn, rules.window, rules.quit_window)
        rule_world = self.world if self.feelings.quit_worlds > 1 else np.zeros_like(self.world)
        quits = self.feelings.quit_rule.hits(rule_world, self.seed, items, window) & (turn > 0)
        reward = (self._reward(items, rating) - rules.quit_penalty * quits) / rules.scale
        place = np.minimum(turn, rules.max_turn - 1)
        self.belief.see(self.user, items, rating, self.history)
        self.history[self._all, place] = items
        self.ratings[self._all, place] = rating
        self.shown = items
        self.turn = place + 1
        out_of_time = (self.turn >= rules.limit) & ~quits
        return (
            self._obs(),
            reward,
            quits,
            out_of_time,
            {"episode": self._episode(), "item": items, "rating": rating},
        )

    def _items(self, actions: Array) -> Array:
        """The items that the actions ask for."""
        if actions.ndim == 1 and np.issubdtype(actions.dtype, np.integer):
            if actions.min() < 0 or actions.max() >= self.items:
                raise WorldError(f"item numbers must be 0..{self.items - 1}")
            return actions.astype(np.int64)
        return best_items(actions, self.catalogue.item_vectors, self.blocked())[:, 0]

    def blocked(self) -> Array:
        """The items that may not be shown now [N, block], -1 pads."""
        if self.rules.block >= self.rules.max_turn:
            return self.history
        return window_of(self.history, self.turn, self.rules.block, "intended")

    def _rating(self, items: Array) -> Array:
        """What users feel about the items; an item gets the same rating all through an episode."""
        rules = self.rules
        if isinstance(self._stack, np.ndarray):
            rating = self._stack[self.world, self.user, items].astype(np.float32)
        else:
            rating = self._factored(items)
        if rules.rating_noise:
            rating += np.float32(rules.rating_noise) * hashed_normal(self.seed, items, 3)
        if rules.rating_noise or len(self.feelings.tables) > 1:
            rating = np.asarray(np.clip(np.round(rating), rules.low, rules.high), np.float32)
        return rating

    def _factored(self, items: Array) -> Array:
        rating = np.zeros(self.num_envs, np.float32)
        for index, table in enumerate(self.feelings.tables):
            rows = np.flatnonzero(self.world == index)
            if len(rows):
                rating[rows] = table.at(self.user[rows], items[rows])
        return rating

    def _reward(self, items: Array, rating: Array) -> Array:
        reward = rating
        if self.penalties is not None:
            reward = self.penalties.applied(reward, self.user, items, self.history, self.turn)
        if self.rules.centred:
            reward = reward - self.catalogue.user_factors[self.user, 0]
        if self.rules.reward == "rating":
            return reward.astype(np.float64)
        taken = self.rules.take_weight * self._taken(items)
        return taken if self.rules.reward == "taken" else taken + reward

    def _taken(self, items: Array) -> Array:
        """About the chance that each user takes the item: nobody takes again what this episode has shown."""
        if self.catalogue.taking is None:
            raise WorldError("a reward for taking needs a catalogue that knows what users take")
        shown = (self.history == items[:, None]).any(axis=1)
        return np.where(
            shown, 0.0, self.catalogue.taking.of(self.user, items[:, None])[:, 0].astype(np.float64)
        )

    def _episode(self) -> dict[str, Array]:
        total = self.ratings.sum(axis=1, dtype=np.float64)
        return {"return": total, "length": self.turn.astype(np.float64), "reward_per_turn": total / self.turn}

    def _obs(self) -> dict[str, Array]:
        """Copies, because the arrays go on changing."""
        block = np.full((self.num_envs, 1), self.rules.block, np.int32)
        obs = {
            "user": self.user[:, None].astype(np.int32),
            "turn": self.turn[:, None].astype(np.int32),
            "block": block,
            "items": self.history.copy(),
            "ratings": self.ratings.copy(),
        }
        if self.belief.width:
            obs["belief"] = self.belief.mean.copy()
        return obs

    # ---- exact resume ----

    def snapshot(self) -> State:
        names = ("user", "world", "seed", "turn", "history", "ratings", "shown")
        rest = {"belief": self.belief.state_dict(), "data": self.catalogue.labels.digest}
        return {name: getattr(self, name).copy() for name in names} | rest

    def restore(self, snapshot: State) -> None:
        if snapshot["data"] != self.catalogue.labels.digest:
            raise WorldError("the ratings have changed since the run was stopped: it cannot be resumed")
        for name in ("user", "world", "seed", "turn", "history", "ratings", "shown"):
            setattr(self, name, np.array(snapshot[name]))
        self.belief.load_state_dict(snapshot["belief"])

    def close(self, **_: object) -> None:
        """Nothing is open."""


def _stacked(tables: tuple[Matrix | Factors, ...]) -> Array | None:
    """All tables as one array [worlds, users, items] where they are matrices."""
    if all(isinstance(table, Matrix) for table in tables):
        return np.stack([table.values for table in tables if isinstance(table, Matrix)])
    return None
