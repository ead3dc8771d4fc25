"""K seeded episodes in a world of its own; returns and info["episode"] are averaged blindly."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from twofold.base.arrivals import Arrivals
from twofold.core.experience import Array, blank_like
from twofold.core.protocols import Policy, World


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
    arrivals = Arrivals(world, blank_like(world.single_observation_space, rows), rows)
    arrivals.of_reset(obs, 0)
    policy.reset(all_rows)
    returns, lengths = np.zeros(rows), np.zeros(rows)
    step, left = 0, len(seeds)
    while left:
        if stop():
            raise Interrupted
        arrivals.must_be_finite(obs, step)
        step += 1
        obs, reward, terminated, truncated, info = world.step(policy.act(obs))
        arrivals.of_step(obs, reward, terminated, truncated, step)
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
