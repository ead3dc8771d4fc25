"""Speed of the recommendation domain: user steps/s and TD3 updates/s, medians of interleaved rounds.

python benchmarks/recsys_speed.py --rounds 5 --out benchmarks/results/recsys_speed.json
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from twofold.core.config import load
from twofold.core.experience import Steps
from twofold.core.policy_file import make_learner
from twofold.core.run import provenance
from twofold.core.seeding import Generators
from twofold.recsys.catalogue import Catalogue
from twofold.recsys.quit import close_by_distance
from twofold.recsys.truth import Matrix
from twofold.recsys.users import Feelings, Rules, Users

REFERENCE = {"user steps/s": 5900, "updates/s": 15, "seconds for 1M steps": 8657}


def coat_sized(rows: int, belief: int) -> Users:
    """A world of Coat's size (290 users, 300 items, window 7, 30 turns) with made-up ratings."""
    rng = np.random.default_rng(0)
    table = Matrix(rng.integers(1, 6, (290, 300)).astype(np.float32))
    vectors = rng.normal(size=(300, 32)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    factors = (
        rng.normal(0, 0.1, (291, 32)).astype(np.float32),
        rng.normal(0, 0.1, (300, 32)).astype(np.float32),
    )
    known = Catalogue(vectors, *factors, rng.normal(0, 0.1, (300, belief)).astype(np.float32), 0.5)
    return Users(
        rows,
        known,
        Feelings((table,), close_by_distance(table, 20.0), 1),
        Rules(30, 30, 7, "intended", 7, 1, 5),
    )


def user_steps(world: Users, actions: Any, steps: int = 100) -> float:
    """Steps of all rows per second, resets included."""
    rows = world.num_envs
    seeds = list(range(rows))
    world.reset(seed=seeds, options={"reset_mask": np.ones(rows, bool)})
    begin = time.perf_counter()
    for step in range(steps):
        _, _, terminated, truncated, _ = world.step(actions[step % len(actions)])
        done = terminated | truncated
        if done.any():
            world.reset(seed=seeds, options={"reset_mask": done})
    return steps * rows / (time.perf_counter() - begin)


def learner_and_batch(**settings: Any) -> tuple[Any, Any]:
    """TD3 over items of a Coat-sized world, and a batch of 64."""
    world = coat_sized(64, belief=8)
    config = load("td3_rec", "synthetic_users", **settings).config
    learner: Any = make_learner(config, world.single_observation_space, world.single_action_space)
    policy = learner.policy(explore=True, rows=64, rng=Generators(0)["explore"])
    writer = learner.writer(64)
    obs, _ = world.reset(seed=list(range(64)), options={"reset_mask": np.ones(64, bool)})
    items = []
    for _ in range(8):
        action = policy.random(obs)
        after, reward, terminated, truncated, _ = world.step(action)
        items.append(writer.step(Steps(obs, action, reward, after, terminated, truncated, np.ones(64, bool))))
        obs = after
    return learner, [part for part in items if part is not None]


def updates(learner: Any, batches: list[Any], count: int = 60) -> float:
    begin = time.perf_counter()
    for index in range(count):
        learner.update(batches[index % len(batches)])
    return count / (time.perf_counter() - begin)


VARIANTS: dict[str, dict[str, Any]] = {
    "avg, no re-rank": {"networks.rerank": 1},
    "avg, no re-rank, plain critic": {
        "networks.rerank": 1,
        "networks.memory": False,
        "networks.learn_pairs": False,
        "networks.guide": False,
    },
    "avg, top-10 re-rank": {},
    "gru, no re-rank": {"networks.rerank": 1, "networks.tracker": "gru"},
    "sasrec, no re-rank": {"networks.rerank": 1, "networks.tracker": "sasrec"},
}


def main() -> None:
    typed = argparse.ArgumentParser(description=__doc__)
    typed.add_argument("--rounds", type=int, default=5)
    typed.add_argument("--out", type=Path)
    options = typed.parse_args()
    torch.set_num_threads(1)
    rng = np.random.default_rng(1)
    numbers = rng.integers(300, size=(20, 1000))
    points = rng.normal(size=(4, 1000, 32)).astype(np.float32)
    plain, believing = coat_sized(1000, 0), coat_sized(1000, 8)
    made = {name: learner_and_batch(**settings) for name, settings in VARIANTS.items()}
    found: dict[str, list[float]] = {}
    for _ in range(options.rounds):
        found.setdefault("user steps/s, item numbers", []).append(user_steps(plain, numbers))
        found.setdefault("user steps/s, points and belief", []).append(user_steps(believing, points))
        for name, (learner, batches) in made.items():
            found.setdefault(f"updates/s, batch 64, {name}", []).append(updates(learner, batches))
    middle = {name: round(median(values), 1) for name, values in found.items()}
    best = {name: round(max(values), 1) for name, values in found.items()}
    for name in middle:
        print(f"{name:<55} median {middle[name]:>12,.1f}   best {best[name]:>12,.1f}")
    if options.out:
        record = {
            "provenance": provenance("recsys_speed.py"),
            "median": middle,
            "best": best,
            "reference": REFERENCE,
        }
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
