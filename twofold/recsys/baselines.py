"""Policies that need no training: the bars that a learned policy has to clear."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from twofold.core.experience import Obs
from twofold.recsys.data import Array, Dataset
from twofold.recsys.metrics import Chooses
from twofold.recsys.quit import window_of
from twofold.recsys.users import Users

Scores = Callable[[Users], Array]  # a score for every item in every row [N, items]


@dataclass
class Greedy:
    """Shows the item of highest score that is allowed; `avoid` forbids what would end the episode."""

    world: Users
    scores: Scores
    avoid: bool = False  # privileged where the world's rule is the true one

    def reset(self, rows: Array) -> None:
        """Nothing is remembered: the world is looked at."""

    def act(self, obs: Obs) -> Array:
        scores = allowed(self.world, self.scores(self.world).astype(np.float64))
        if self.avoid:
            scores[would_quit(self.world)] -= 1e6
        return np.asarray(scores.argmax(axis=1))


@dataclass
class Cycle:
    """The same items over and over, in the same order for everybody; items not allowed are passed over."""

    world: Users
    order: Array

    def reset(self, rows: Array) -> None:
        """The world's turn is the place in the cycle."""

    def act(self, obs: Obs) -> Array:
        if self.world.rules.block >= self.world.rules.max_turn:  # no repeats: the whole ranking, once
            ranks = np.empty(self.world.items)
            ranks[self.order] = -np.arange(len(self.order))
            ranks = np.where(np.isin(np.arange(self.world.items), self.order), ranks, -1e6)
            return np.asarray(allowed(self.world, np.tile(ranks, (self.world.num_envs, 1))).argmax(axis=1))
        return self.order[self.world.turn % len(self.order)]


@dataclass
class Random:
    """Uniform over the allowed items, or over a subset of them."""

    world: Users
    rng: np.random.Generator
    subset: Array | None = None

    def reset(self, rows: Array) -> None:
        """Nothing is remembered."""

    def act(self, obs: Obs) -> Array:
        scores = self.rng.random((self.world.num_envs, self.world.items))
        if self.subset is not None:
            scores[:, ~np.isin(np.arange(self.world.items), self.subset)] -= 10.0
        return np.asarray(allowed(self.world, scores).argmax(axis=1))


@dataclass
class EpsilonGreedy:
    """A greedy policy that now and then, for each row by itself, shows a random item."""

    greedy: Greedy
    random: Random
    epsilon: float

    def reset(self, rows: Array) -> None:
        """Nothing is remembered."""

    def act(self, obs: Obs) -> Array:
        swapped = self.random.rng.random(self.greedy.world.num_envs) < self.epsilon
        return np.where(swapped, self.random.act(obs), self.greedy.act(obs))


def allowed(world: Users, scores: Array) -> Array:
    """Scores with minus infinity where the world's mask forbids the item."""
    blocked = world.blocked()
    rows, columns = np.nonzero(blocked >= 0)
    scores[rows, blocked[rows, columns]] = -np.inf
    return scores


def would_quit(world: Users) -> Array:
    """Which items would end the episode now: bool [N, items]. Looks into the world's own rule."""
    rows, count = world.num_envs, world.items
    window = window_of(world.history, world.turn, world.rules.window, world.rules.quit_window)
    which = world.world if world.feelings.quit_worlds > 1 else np.zeros(rows, np.int64)
    every = np.tile(np.arange(count), rows)
    keys = np.repeat(which, count), np.repeat(world.seed, count)
    hits = world.feelings.quit_rule.hits(*keys, every, np.repeat(window, count, axis=0))
    return hits.reshape(rows, count) & (world.turn > 0)[:, None]


def popularity(data: Dataset, strength: float = 10.0) -> Array:
    """Mean training rating of every item, pulled towards the overall mean by `strength` ratings."""
    counts = np.bincount(data.train.items, minlength=data.items)
    sums = np.bincount(data.train.items, data.train.values, minlength=data.items)
    return np.asarray((sums + strength * data.train.values.mean()) / (counts + strength))


def expected_now(world: Users) -> Array:
    """Every item's expected rating by user model and episode so far; known ratings as they were given."""
    known = world.catalogue
    scores = known.user_factors[world.user] @ known.item_factors.T
    if world.belief.width:
        scores = scores + world.belief.mean @ known.belief_factors.T
    rows, turns = np.nonzero(world.history >= 0)
    scores[rows, world.history[rows, turns]] = world.ratings[rows, turns]
    return scores


def expected_before(world: Users) -> Array:
    """What every item would get by the user model alone."""
    return world.catalogue.user_factors[world.user] @ world.catalogue.item_factors.T


def true_ratings(world: Users) -> Array:
    """Privileged: what every item gets in the world itself (one-table worlds)."""
    return world.feelings.tables[0].rows(world.user).astype(np.float64)


def cautious(world: Users, price: float = 0.6) -> Array:
    """Expected ratings less a price for every window item that a candidate was never tried with."""
    return expected_now(world) - price * untried(world)


def untried(world: Users) -> Array:
    """How many items of the quit window were never near the candidate before: int [N, items]."""
    size, history, turn = world.rules.window, world.history, world.turn
    rows = np.arange(world.num_envs)
    apart = np.abs(np.arange(history.shape[1])[:, None] - np.arange(history.shape[1])) <= size
    found = np.zeros((len(rows), world.items), np.int64)
    for back in range(1, size + 1):
        there = turn >= back
        other = np.where(there, history[rows, np.maximum(turn - back, 0)], -2)
        near = (history == other[:, None]) @ apart  # [N, T]: turns within a window of that item
        row, place = np.nonzero(near & (history >= 0))
        tried = np.zeros_like(found, bool)
        tried[row, history[row, place]] = True
        found += there[:, None] & ~tried
    return found


def baselines(world: Users, data: Dataset, rng: np.random.Generator) -> dict[str, Chooses]:
    """Every baseline for this world; names with a star look at the truth."""
    order = np.argsort(-popularity(data), kind="stable")
    top = order[: min(12, len(order))]
    found: dict[str, Chooses] = {
        "random": Random(world, rng),
        "popularity": Greedy(world, lambda w: np.tile(popularity(data), (w.num_envs, 1))),
    }
    found |= {
        f"popularity cycle of {n}": Cycle(world, order[:n]) for n in (8, 9, 10, 12, 16) if n <= len(order)
    }
    found |= {
        f"cycle of 8 random of the top 12 ({draw})": Cycle(world, rng.permutation(top)[:8])
        for draw in range(3)
    }
    greedy = Greedy(world, expected_before)
    return found | {
        "random among the top 12": Random(world, rng, top),
        "greedy user model": greedy,
        "epsilon-greedy user model (0.3)": EpsilonGreedy(greedy, Random(world, rng), 0.3),
        "greedy user model with belief": Greedy(world, expected_now),
        "cautious Bayes planner": Greedy(world, cautious),
        "Bayes planner, true quit rule *": Greedy(world, expected_now, avoid=True),
        "oracle *": Greedy(world, true_ratings, avoid=True),
    }
