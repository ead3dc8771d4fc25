"""What a policy did to a set of users: reward, length, coverage, diversity, novelty, dominant categories."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from twofold.base.statistics import half_interval
from twofold.core.experience import Obs
from twofold.recsys.data import Array, Dataset, dominant_categories
from twofold.recsys.users import Users


class Chooses(Protocol):
    """Whatever shows items to users: a trained policy or a baseline."""

    def reset(self, rows: Array) -> None: ...

    def act(self, obs: Obs) -> Array: ...


def play(world: Users, policy: Chooses, seeds: list[int]) -> dict[str, Array]:
    """One episode for each seed, all at once: histories [n, T] and ratings [n, T], -1 and 0 after the end."""
    assert len(seeds) == world.num_envs
    rows = np.ones(world.num_envs, bool)
    obs, _ = world.reset(seed=list(seeds), options={"reset_mask": rows})
    policy.reset(rows)
    history = np.full_like(world.history, -1)
    ratings = np.zeros_like(world.ratings)
    alive = rows.copy()
    for turn in range(world.rules.limit):
        obs, _, terminated, truncated, info = world.step(policy.act(obs))
        history[alive, turn] = info["item"][alive]
        ratings[alive, turn] = info["rating"][alive]
        alive &= ~(terminated | truncated)
        if not alive.any():
            break
    return {"items": history, "ratings": ratings}


def measure(episodes: dict[str, Array], data: Dataset, vectors: Array, liked: float) -> dict[str, float]:
    """All metrics of one set of episodes."""
    items, ratings = episodes["items"], episodes["ratings"]
    shown = items >= 0
    lengths = shown.sum(axis=1)
    returns = ratings.sum(axis=1)
    flat = items[shown]
    found = {
        "return": float(returns.mean()),
        "length": float(lengths.mean()),
        "reward_per_turn": float(returns.mean() / lengths.mean()),
        "coverage": len(np.unique(flat)) / data.items,
        "coverage_per_turn": len(np.unique(flat)) / len(flat),
        "diversity": float(np.mean([diversity(vectors[row[row >= 0]]) for row in items])),
        "novelty": float(novelty(data)[flat].mean()),
    }
    if data.categories is not None:
        main = dominant_categories(data, 0.8, liked)
        found["dominant_categories"] = float(np.isin(data.categories[flat], main).any(axis=1).mean())
    return found


def diversity(vectors: Array) -> float:
    """Mean over pairs of 1 - cosine similarity; 0 for a single item."""
    count = len(vectors)
    if count < 2:
        return 0.0
    similar = vectors @ vectors.T
    return float(1.0 - (similar.sum() - np.trace(similar)) / (count * (count - 1)))


def novelty(data: Dataset) -> Array:
    """-ln of the share of users who rated the item (one rating added, so that none is infinite): [items]."""
    counts = np.bincount(data.train.items, minlength=data.items)
    return -np.log((counts + 1) / (data.users + 1))


def over_seeds(results: list[dict[str, float]]) -> dict[str, dict[str, float]]:
    """Mean and half the 95 % interval over seeds, for every metric."""
    found = {}
    for name in results[0]:
        values = np.array([result[name] for result in results])
        spread = float(values.std(ddof=1)) if len(values) > 1 else 0.0
        found[name] = {
            "mean": float(values.mean()),
            "half": half_interval(spread, len(values)),
            "std": spread,
        }
    return found
