"""The world of users: rows of users who are shown items one after another, stepped together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
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
from twofold.recsys.stream import Stream
from twofold.recsys.truth import Factors, Matrix, hashed, hashed_normal


@dataclass(frozen=True)
class Rules:
    """How an episode goes."""

    max_turn: int  # length of the history in the observation
    limit: int  # an episode is cut after so many turns
    window: int  # items that the quit rule looks back on
    quit_window: Literal["intended", "compat"]
    block: int  # the last so many items cannot be shown again; max_turn: no repeats at all
    stays: bool = field(
        default=False, kw_only=True
    )  # nobody can leave before the end, and policies are told so
    low: float
    high: float
    rating_noise: float = 0.0  # training only: an unknown part of each user's rating of each item
    quit_penalty: float = 0.0  # training only: taken from the reward of the turn at which the user quits
    quit_by_rest: bool = False  # training only: of that penalty, the share of the episode that is left
    scale: float = 1.0  # training only: the reward is divided by this
    centred: bool = False  # training only: reward relative to what the user gives on average
    reward: Literal["rating", "taken", "both"] = "rating"  # simulated users only: what is paid for
    take_weight: float = 0.0  # simulated users only: worth of an item that is surely taken


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
        stream: Stream | None = None,
    ) -> None:
        self.num_envs, self.catalogue, self.feelings, self.rules = rows, catalogue, feelings, rules
        self.penalties, self.stream = penalties, stream
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
        self.takes = np.zeros((rows, rules.max_turn), np.float32)  # what taking was worth, where it is paid
        self.shown = np.zeros(rows, np.int64)  # the item of the last step
        self._all = np.arange(rows)
        self._fresh = np.random.default_rng()

    def _observation_space(self) -> gym.spaces.Dict:
        turns, ids = self.rules.max_turn, np.int32
        spaces: dict[str, AnySpace] = {
            "user": gym.spaces.Box(-1, self.users - 1, (1,), ids),
            "turn": gym.spaces.Box(0, turns, (1,), ids),
            "block": gym.spaces.Box(0, turns, (1,), ids),
            "stays": gym.spaces.Box(0, 1, (1,), ids),
            "items": gym.spaces.Box(-1, self.items - 1, (turns,), ids),
            "ratings": gym.spaces.Box(-np.inf, np.inf, (turns,), np.float32),
        }
        width = self.catalogue.belief_factors.shape[1]
        if width:
            spaces["belief"] = gym.spaces.Box(-np.inf, np.inf, (width,), np.float32)
        if self.stream is not None:
            spaces["risk"] = gym.spaces.Box(0, 1, (self.items,), np.float32)
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
        self.ratings[rows] = self.takes[rows] = 0.0
        self.belief.reset(rows)
        if self.stream is not None:
            self.stream.begin(rows, seeds)
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
        window = self.window()
        quits = self.feelings.quit_rule.hits(*self.quit_keys(), items, window) & (turn > 0)
        takes = (
            np.zeros(self.num_envs) if rules.reward == "rating" else rules.take_weight * self._taken(items)
        )
        reward = (self._reward(items, rating, takes) - self._quit_cost(items, window, quits)) / rules.scale
        place = np.minimum(turn, rules.max_turn - 1)
        self.belief.see(self.user, items, rating, self.history)
        self.history[self._all, place] = items
        self.ratings[self._all, place] = rating
        self.takes[self._all, place] = takes
        self.shown = items
        self.turn = place + 1
        out_of_time = (self.turn >= rules.limit) & ~quits
        if self.stream is not None:
            self.stream.see(items, window, quits, quits | out_of_time)
        return (
            self._obs(),
            reward,
            quits,
            out_of_time,
            {"episode": self._episode(), "item": items, "rating": rating},
        )

    def _quit_cost(self, items: Array, window: Array, quits: Array) -> Array:
        """What quitting takes from the training reward [N]; in a stream what the memory expects of it.

        Quits are rare and dear, so who learns from each as it falls learns from noise. The memory knows their chance.
        """
        rules = self.rules
        rest = 1.0 - (self.turn + 1) / rules.max_turn if rules.quit_by_rest else np.ones(self.num_envs)
        share = quits if self.stream is None else self.stream.chance(items, window)
        return np.asarray(rules.quit_penalty * rest * share, np.float64)

    def window(self) -> Array:
        """The items that the next one is compared with [N, window], -1 pads."""
        return window_of(self.history, self.turn, self.rules.window, self.rules.quit_window)

    def quit_keys(self) -> tuple[Array, Array]:
        """Which world of the quit rule each row lives in, and the seed of what is drawn there."""
        seed = self.seed if self.stream is None else self.stream.number
        if self.feelings.quit_worlds == 1:
            return np.zeros_like(self.world), seed
        if self.stream is None:
            return self.world, seed
        return (hashed(seed, 11) % np.uint64(self.feelings.quit_worlds)).astype(np.int64), seed

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

    def _reward(self, items: Array, rating: Array, takes: Array) -> Array:
        if self.rules.reward == "taken":
            return takes
        reward = rating
        if self.penalties is not None:
            reward = self.penalties.applied(reward, self.user, items, self.history, self.turn)
        if self.rules.centred:
            reward = reward - self._centre()
        return reward.astype(np.float64) + takes

    def _centre(self) -> Array:
        """What ratings are counted from: the user's level, or (critics that start as planners) the best item's.

        A policy that does as well as was expected then gets nothing, so little is left to learn but how to do better.
        """
        known = self.catalogue
        if self.stream is None:
            return np.asarray(known.user_factors[self.user, 0])
        return np.asarray((known.user_factors[self.user] @ known.item_factors.T).max(axis=1))

    def _taken(self, items: Array) -> Array:
        """About the chance that each user takes the item: nobody takes again what this episode has shown."""
        if self.catalogue.taking is None:
            raise WorldError("a reward for taking needs a catalogue that knows what users take")
        shown = (self.history == items[:, None]).any(axis=1)
        return np.where(
            shown, 0.0, self.catalogue.taking.of(self.user, items[:, None])[:, 0].astype(np.float64)
        )

    def _episode(self) -> dict[str, Array]:
        """The return is what this world pays for: validation chooses by what training is for."""
        felt, taken = (leaf.sum(axis=1, dtype=np.float64) for leaf in (self.ratings, self.takes))
        total = {"rating": felt, "taken": taken, "both": felt + taken}[self.rules.reward]
        parts = {} if self.rules.reward == "rating" else {"ratings": felt, "taken": taken}
        length = self.turn.astype(np.float64)
        return {"return": total, "length": length, "reward_per_turn": total / self.turn} | parts

    def _obs(self) -> dict[str, Array]:
        """Copies, because the arrays go on changing."""
        block, stays = (
            np.full((self.num_envs, 1), of, np.int32) for of in (self.rules.block, self.rules.stays)
        )
        obs = {
            "user": self.user[:, None].astype(np.int32),
            "turn": self.turn[:, None].astype(np.int32),
            "block": block,
            "stays": stays,
            "items": self.history.copy(),
            "ratings": self.ratings.copy(),
        }
        if self.belief.width:
            obs["belief"] = self.belief.mean.copy()
        if self.stream is not None:
            obs["risk"] = self.stream.risk(self.window())
        return obs

    # ---- exact resume ----

    def _kept(self) -> tuple[str, ...]:
        """The arrays that make up the rows' state."""
        names = ("user", "world", "seed", "turn", "history", "ratings", "shown")
        return names if self.rules.reward == "rating" else (*names, "takes")

    def snapshot(self) -> State:
        rest = {"belief": self.belief.state_dict(), "data": self.catalogue.labels.digest}
        if self.stream is not None:
            rest["stream"] = self.stream.state_dict()
        return {name: getattr(self, name).copy() for name in self._kept()} | rest

    def restore(self, snapshot: State) -> None:
        if snapshot["data"] != self.catalogue.labels.digest:
            raise WorldError("the ratings have changed since the run was stopped: it cannot be resumed")
        for name in self._kept():
            setattr(self, name, np.array(snapshot[name]))
        self.belief.load_state_dict(snapshot["belief"])
        if self.stream is not None:
            self.stream.load_state_dict(snapshot["stream"])

    def close(self, **_: object) -> None:
        """Nothing is open."""


def _stacked(tables: tuple[Matrix | Factors, ...]) -> Array | None:
    """All tables as one array [worlds, users, items] where they are matrices."""
    if all(isinstance(table, Matrix) for table in tables):
        return np.stack([table.values for table in tables if isinstance(table, Matrix)])
    return None
