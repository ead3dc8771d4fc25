"""Policies side by side where users come one after another and share a memory: a table of its own, FB_stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from twofold.assemble import fits
from twofold.base.progress import tracked
from twofold.recsys.baselines import TRUE_RULE, Greedy, expected_now, popularity, remembering
from twofold.recsys.config import UsersConfig
from twofold.recsys.data import Array, Dataset
from twofold.recsys.metrics import Chooses, over_seeds, play_stream
from twofold.recsys.quit import QuitRule
from twofold.recsys.users import Feelings, Users
from twofold.recsys.worlds import make
from twofold.store.policy_file import LoadedPolicy

PLANNER = "planner with shared pair memory"
ROWS = 10  # users served at the same time
Means = dict[str, dict[str, float]]  # metric -> mean, half, std


def planners(world: Users, data: Dataset) -> dict[str, Chooses]:
    """Those that need no training; a star looks at the truth."""
    liked = popularity(data)
    return {
        "popularity": Greedy(world, lambda w: np.tile(liked, (w.num_envs, 1))),
        "greedy user model with belief": Greedy(world, expected_now),
        PLANNER: Greedy(world, remembering),
        TRUE_RULE.label: Greedy(world, expected_now, avoid=True),
    }


def stream_world(cfg: UsersConfig, rows: int = ROWS, rule: QuitRule | None = None) -> Users:
    """True users in a stream, by their own quit rule or another."""
    world = make(replace(cfg, stream=True), rows=rows, purpose="FB_stream")
    if rule is not None:
        world.feelings = Feelings(world.feelings.tables, rule, 1)
    return world


def streamed(
    world: Users, data: Dataset, runs: Sequence[tuple[str, LoadedPolicy]], orders: int
) -> dict[str, Means]:
    """Every policy over the same random orders of all users, with what the first and the last of them got."""
    found: dict[str, list[dict[str, float]]] = {}
    players = [*planners(world, data).items(), *((kind, player(world, run)) for kind, run in runs)]
    for name, policy in tracked(players, "serving users one after another", len(players)):
        for seed in range(orders):
            order = np.random.default_rng(seed).permutation(world.users)
            found.setdefault(name, []).append(served(play_stream(world, policy, order)))
    return {name: over_seeds(results) for name, results in found.items()}


def player(world: Users, run: LoadedPolicy) -> Chooses:
    """A trained policy in this world."""
    fits(run, world)
    return run.learner.policy(explore=False, rows=world.num_envs, rng=np.random.default_rng(0))


def served(episodes: dict[str, Array]) -> dict[str, float]:
    """Means over all users, over the first tenth of them, and over the second half."""
    returns = episodes["return"]
    return {
        "return": float(returns.mean()),
        "length": float(episodes["length"].mean()),
        "first tenth": float(returns[: max(1, len(returns) // 10)].mean()),
        "second half": float(returns[len(returns) // 2 :].mean()),
    }
