"""Policies that need no training: the bars that a learned policy has to clear."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from twofold.core.experience import Obs
from twofold.recsys.data import Array, Dataset
from twofold.recsys.metrics import Chooses
from twofold.recsys.users import Users

Scores = Callable[[Users], Array]  # a score for every item in every row [N, items]


@dataclass(frozen=True)
class Kind:
    """A row of the tables that needs no training: its name, and what the tables have to know of it."""

    name: str
    drawn: bool = False  # throws dice: another seed is another policy; to the others it is nothing new
    privileged: bool = False  # looks at the truth: never the bar, and marked by a star

    @property
    def label(self) -> str:
        return f"{self.name} *" if self.privileged else self.name


@dataclass(frozen=True)
class Baseline:
    """One row in one world: a policy, or several draws of one."""

    kind: Kind
    policies: tuple[Chooses, ...]


TRUE_RULE = Kind("Bayes planner, true quit rule", privileged=True)
ORACLE = Kind("oracle", privileged=True)
PRIVILEGED = frozenset(kind.label for kind in (TRUE_RULE, ORACLE))


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
    """The first `size` items of a ranking over and over, for everybody; where nothing may come again, all once."""

    world: Users
    ranking: Array  # of all items
    size: int

    def reset(self, rows: Array) -> None:
        """The world's turn is the place in the cycle."""

    def act(self, obs: Obs) -> Array:
        size = len(self.ranking) if _never_again(self.world) else self.size
        return self.ranking[self.world.turn % size]


def _never_again(world: Users) -> bool:
    """Whether no item may be shown twice."""
    return world.rules.block >= world.rules.max_turn


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
    every = np.tile(np.arange(count), rows)
    which, seeds = (np.repeat(key, count) for key in world.quit_keys())
    window = np.repeat(world.window(), count, axis=0)
    hits = world.feelings.quit_rule.hits(which, seeds, every, window)
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


def remembering(world: Users) -> Array:
    """Expected ratings less what is lost if the user quits now, by the memory that all users share."""
    if world.stream is None:
        raise ValueError("only users who come in a stream share a memory")
    scores = expected_now(world)
    left = (world.rules.limit - world.turn - 1)[:, None]
    lost = world.stream.risk(world.window()) * left * scores.max(axis=1, keepdims=True)
    return np.asarray(scores - lost)


def untried(world: Users) -> Array:
    """How many items of the quit window were never near the candidate before: int [N, items]."""
    return np.asarray(sum(never.astype(np.int64) for _, never in _pairs(world)))


def _pairs(world: Users) -> Iterator[tuple[Array, Array]]:
    """The items of the quit window [N], one place after another, and who was never near them: bool [N, items]."""
    size, history, turn = world.rules.window, world.history, world.turn
    rows = np.arange(world.num_envs)
    apart = np.abs(np.arange(history.shape[1])[:, None] - np.arange(history.shape[1])) <= size
    for back in range(1, size + 1):
        there = turn >= back
        other = np.where(there, history[rows, np.maximum(turn - back, 0)], -2)
        near = (history == other[:, None]) @ apart  # [N, T]: turns within a window of that item
        row, place = np.nonzero(near & (history >= 0))
        tried = np.zeros((len(rows), world.items), bool)
        tried[row, history[row, place]] = True
        yield other, there[:, None] & ~tried


@dataclass(frozen=True)
class ByClosePairs:
    """Expected ratings less what is lost if the user quits now, by the close pairs that training assumes."""

    close: Array  # chance that two items are close [items, items]

    def __call__(self, world: Users) -> Array:
        scores = expected_now(world)
        stays = np.ones_like(scores)
        for other, never in _pairs(world):
            stays *= 1.0 - np.where(never, self.close[other], 0.0)
        left = (world.rules.limit - world.turn - 1)[:, None]
        return np.asarray(scores - (1.0 - stays) * left * scores.max(axis=1, keepdims=True))


def baselines(
    world: Users, data: Dataset, rng: np.random.Generator, close: Array | None = None
) -> list[Baseline]:
    """Every baseline for this world. `close` is what training assumes of pairs."""
    order = np.argsort(-popularity(data), kind="stable")
    top = order[: min(12, len(order))]
    greedy = Greedy(world, expected_before)
    planner = () if close is None else (Greedy(world, ByClosePairs(close)),)
    return [
        Baseline(Kind("random", drawn=True), (Random(world, rng),)),
        _one("popularity", Greedy(world, lambda w: np.tile(popularity(data), (w.num_envs, 1)))),
        *_cycles(world, order, rng),
        Baseline(Kind("random among the top 12", drawn=True), (Random(world, rng, top),)),
        _one("greedy user model", greedy),
        Baseline(
            Kind("epsilon-greedy user model (0.3)", drawn=True),
            (EpsilonGreedy(greedy, Random(world, rng), 0.3),),
        ),
        _one("greedy user model with belief", Greedy(world, expected_now)),
        _one("cautious Bayes planner", Greedy(world, cautious)),
        *(_one("Bayes planner, assumed close pairs", policy) for policy in planner),
        Baseline(TRUE_RULE, (Greedy(world, expected_now, avoid=True),)),
        Baseline(ORACLE, (Greedy(world, true_ratings, avoid=True),)),
    ]


def _one(name: str, policy: Chooses) -> Baseline:
    """One that always does the same and looks at no truth."""
    return Baseline(Kind(name), (policy,))


def _cycles(world: Users, order: Array, rng: np.random.Generator) -> Iterator[Baseline]:
    """The most popular items over and over; where none may come again they are popularity, but for random starts."""
    draws = [rng.permutation(min(12, len(order)))[:8] for _ in range(3)]
    rankings = [np.concatenate([order[drawn], np.delete(order, drawn)]) for drawn in draws]
    if not _never_again(world):
        sizes = [size for size in (8, 9, 10, 12, 16) if size <= len(order)]
        yield from (_one(f"popularity cycle of {size}", Cycle(world, order, size)) for size in sizes)
    yield Baseline(
        Kind("cycle of 8 random of the top 12", drawn=True),
        tuple(Cycle(world, ranking, 8) for ranking in rankings),
    )
