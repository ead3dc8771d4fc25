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


def play(world: Users, policy: Chooses, seeds: list[int], absent: Array | None = None) -> dict[str, Array]:
    """One episode for each seed, all at once: histories [n, T] and ratings [n, T], -1 and 0 after the end.

    From rows that are `absent` a memory of the world learns nothing.
    """
    assert len(seeds) == world.num_envs
    rows = np.ones(world.num_envs, bool)
    obs, _ = world.reset(seed=list(seeds), options={"reset_mask": rows})
    if world.stream is not None and absent is not None:
        world.stream.leave(absent)
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


def play_stream(world: Users, policy: Chooses, order: Array) -> dict[str, Array]:
    """Every user of `order` once, as many at a time as the world has rows: return and length of each, as they came."""
    if world.stream is None:
        raise ValueError("users who share no memory do not come in a stream")
    world.stream.restart()
    rows, parts = world.num_envs, []
    for start in range(0, len(order), rows):
        some = order[start : start + rows]
        # Rows that are left over at the end play somebody again; nobody learns from them.
        episodes = play(world, policy, np.resize(some, rows).tolist(), np.arange(rows) >= len(some))
        parts.append({name: leaf[: len(some)] for name, leaf in episodes.items()})
    items, ratings = (np.concatenate([part[name] for part in parts]) for name in ("items", "ratings"))
    return {"return": ratings.sum(axis=1, dtype=np.float64), "length": (items >= 0).sum(axis=1).astype(float)}


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
