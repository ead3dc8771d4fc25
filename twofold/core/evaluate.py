"""K seeded episodes in a world of its own; returns and info["episode"] are averaged blindly."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from twofold.core.experience import Array
from twofold.core.protocols import Policy, World

# Two-sided 95 % quantiles of Student's t for 1..30 degrees of freedom.
_T95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
        2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
        2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042)  # fmt: skip


class Interrupted(Exception):
    """A signal asked to stop in the middle of an evaluation."""


def evaluate(
    world: World, policy: Policy, seeds: list[int], stop: Callable[[], bool] = lambda: False
) -> dict[str, Array]:
    """Play one episode for each seed; every metric as an array in the order of the seeds."""
    rows = world.num_envs
    waiting = list(enumerate(seeds))
    playing = [waiting.pop(0) if waiting else (-1, seeds[0]) for _ in range(rows)]
    found: dict[str, Array] = {}
    all_rows = np.ones(rows, bool)
    obs, _ = world.reset(seed=[seed for _, seed in playing], options={"reset_mask": all_rows})
    policy.reset(all_rows)
    returns, lengths = np.zeros(rows), np.zeros(rows)
    left = len(seeds)
    while left:
        if stop():
            raise Interrupted
        obs, reward, terminated, truncated, info = world.step(policy.act(obs))
        returns += reward
        lengths += 1
        done = terminated | truncated
        if not done.any():
            continue
        values = {"return": returns.copy(), "length": lengths.copy(), **info.get("episode", {})}
        for row in np.flatnonzero(done):
            episode = playing[row][0]
            if episode >= 0:
                left -= 1
                for name, value in values.items():
                    found.setdefault(name, np.full(len(seeds), np.nan))[episode] = value[row]
            playing[row] = waiting.pop(0) if waiting else (-1, seeds[0])
        returns[done] = lengths[done] = 0
        if left:
            obs, _ = world.reset(seed=[seed for _, seed in playing], options={"reset_mask": done})
            policy.reset(done)
    return found


def summary(values: Array) -> dict[str, float]:
    """Mean, standard deviation and 95 % confidence interval of the mean over episodes."""
    values = values[np.isfinite(values)]
    count = len(values)
    mean = float(values.mean()) if count else math.nan
    std = float(values.std(ddof=1)) if count > 1 else 0.0
    half = half_interval(std, count)
    worst = float(values.min()) if count else math.nan
    interval = {"low": mean - half, "high": mean + half}
    return {"mean": mean, "std": std, **interval, "min": worst, "episodes": count}


def half_interval(std: float, count: int) -> float:
    """Half the width of the 95 % interval of a mean of `count` values."""
    if count < 2:
        return 0.0
    return (_T95[count - 2] if count <= len(_T95) + 1 else 1.96) * std / math.sqrt(count)


def summaries(found: dict[str, Array]) -> dict[str, dict[str, float]]:
    return {name: summary(values) for name, values in found.items()}
