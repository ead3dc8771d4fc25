"""A run stopped anywhere and resumed in new objects ends with the same bytes as one never stopped."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from parts import stop_at

from twofold.assemble import assemble
from twofold.base import tree
from twofold.core.trainer import Trainer
from twofold.settings.config import load
from twofold.store.checkpoint import pack
from twofold.store.run import Run

WORLDS = [
    ("pendulum", {}, 1),
    ("pendulum", {"learner": {"n_step": 3, "actor_average": 0.9}}, 3),
    ("halfcheetah", {}, 1),
    ("halfcheetah", {}, 2),
    ("bipedal", {}, 1),
    ("bipedal", {"learner": {"expl_noise": {"end": 0.05, "over": 9, "per": "episode"}}}, 2),
]


def built(folder: Path, env: str, settings: dict[str, Any], rows: int) -> Trainer[Any]:
    own = {"steps": 240, "rows": rows, "warmup": 100, "eval_every": 120, "eval_episodes": 1, "log_every": 50}
    resolved = load(
        "td3",
        env,
        networks={"actor_hidden": [16, 16], "critic_hidden": [16, 16]},
        replay={"batch_size": 16, "buffer_size": 200},
        trainer={**own, "tensorboard": False},
        **settings,
    )
    return assemble(Run.create(folder, resolved, "test")).trainer


def plus(folder: Path, rows: int) -> Trainer[Any]:
    """All that td3_plus adds, in a replay that is overwritten on the way."""
    own = {"steps": 240, "rows": rows, "warmup": 100, "eval_every": 120, "eval_episodes": 1, "log_every": 50}
    resolved = load(
        "td3_plus",
        "halfcheetah",
        learner={"target_every": 20, "expl_noise_hold": 4},
        networks={"width": 16, "embedding": 8},
        replay={"batch_size": 16, "buffer_size": 120, "recent_share": 0.2, "recent_items": 50},
        trainer={**own, "tensorboard": False},
    )
    return assemble(Run.create(folder, resolved, "test")).trainer


def digest(trainer: Trainer[Any]) -> dict[str, str]:
    arrays, rest = pack(trainer.learner.state_dict())
    held = trainer.replay.take(np.arange(len(trainer.replay)))
    parts = {
        "weights and optimisers": b"".join(arrays[k].tobytes() for k in sorted(arrays)) + repr(rest).encode(),
        "replay": b"".join(np.ascontiguousarray(x).tobytes() for x in tree.leaves(held)),
        "metrics": trainer.keeper.run.metrics.path.read_bytes(),
        "evaluations": trainer.keeper.run.evaluations.path.read_bytes(),
        "best": (trainer.keeper.run.folder / "best.safetensors").read_bytes(),
    }
    return {name: hashlib.sha256(content).hexdigest() for name, content in parts.items()}


@pytest.mark.parametrize(("env", "settings", "rows"), WORLDS)
def test_a_resumed_run_equals_an_uninterrupted_one(
    tmp_path: Path, env: str, settings: dict[str, Any], rows: int
) -> None:
    straight = built(tmp_path / "straight", env, settings, rows)
    straight.train()
    for step in (60, 170):  # in the warm-up, and in the middle of learning
        stop_at(built(tmp_path / "split", env, settings, rows), step)
    resumed = built(tmp_path / "split", env, settings, rows)
    resumed.train()
    assert digest(resumed) == digest(straight)


@pytest.mark.parametrize("rows", [1, 2])
def test_a_resumed_run_of_td3_plus_equals_an_uninterrupted_one(tmp_path: Path, rows: int) -> None:
    straight = plus(tmp_path / "straight", rows)
    straight.train()
    for step in (60, 173):
        stop_at(plus(tmp_path / "split", rows), step)
    resumed = plus(tmp_path / "split", rows)
    resumed.train()
    assert digest(resumed) == digest(straight)
