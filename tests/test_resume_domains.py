"""Exact resume in every domain: stopped in the middle of episodes, gone on with in new objects, the same bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from digest import digest
from parts import stop_at

from twofold.assemble import assemble
from twofold.core.trainer import Trainer
from twofold.settings.config import load
from twofold.store.run import Run

SMALL = {"eval_episodes": 2, "eval_rows": 1, "test_episodes": 0, "tensorboard": False}
VECTOR = {"actor_hidden": [16], "critic_hidden": [16]}
# Preset, world, settings, and the steps at which the run is stopped.
RUNS: dict[str, tuple[str, str, dict[str, Any], tuple[int, int]]] = {
    "recsys": (
        "td3_rec",
        "synthetic_users",
        {
            "env_args": {"synthetic": {"users": 40, "items": 30, "ratings_per_user": 12}},
            "trainer": {"steps": 600, "rows": 10, "warmup": 200, "eval_every": 300, "updates_per_item": 0.1},
            "replay": {"batch_size": 16, "buffer_size": 500},
        },
        (130, 410),
    ),
    "recsys, dropout": (
        "td3_rec",
        "synthetic_users",
        {
            "env_args": {"synthetic": {"users": 40, "items": 30, "ratings_per_user": 12}},
            "trainer": {"steps": 600, "rows": 10, "warmup": 200, "eval_every": 300, "updates_per_item": 0.1},
            "replay": {"batch_size": 16, "buffer_size": 500},
            "networks": {"tracker": "sasrec", "dropout_rate": 0.2, "embedding_dim": 8},
        },
        (290, 410),
    ),
    "crystal": (
        "td3_crystal",
        "crystal",
        {
            "env_args": {"sets": {"elements": {"structures": ["Cu"], "rattle": [0.02, 0.2]}}},
            "trainer": {"steps": 60, "rows": 2, "warmup": 20, "eval_every": 30},
            "replay": {"batch_size": 8, "buffer_size": 100},
            "networks": VECTOR,
        },
        (14, 40),
    ),
    "team, one agent network": (
        "qmix",
        "skirmish",
        {
            "env_args": {"map_name": "3m"},
            "trainer": {"steps": 400, "rows": 2, "eval_every": 200, "updates_per_item": 0.5},
            "replay": {"batch_size": 2, "buffer_size": 20},
        },
        (90, 250),
    ),
    "team, policy gradient": (
        "coma",
        "two_step",
        {
            "trainer": {"steps": 200, "rows": 4, "eval_every": 100},
            "replay": {"batch_size": 4, "buffer_size": 4},
        },
        (50, 130),
    ),
}


def built(folder: Path, name: str) -> Trainer:
    alg, env, settings, _ = RUNS[name]
    settings = {**settings, "trainer": SMALL | settings["trainer"]}
    return assemble(Run.create(folder, load(alg, env, **settings), "test")).trainer


def close(trainer: Trainer) -> None:
    for world in (trainer.collector.world, *trainer.evaluations.values()):
        world.close()


@pytest.mark.parametrize("name", RUNS)
def test_a_resumed_run_of_any_domain_equals_an_uninterrupted_one(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip({"crystal": "ase"}.get(name, "numpy"))
    monkeypatch.chdir(tmp_path)  # a user model that is fitted first is kept beside the runs
    straight = built(tmp_path / "straight", name)
    straight.train()
    close(straight)
    for step in RUNS[name][3]:
        stopped = built(tmp_path / "split", name)
        stop_at(stopped, step)
        close(stopped)
    resumed = built(tmp_path / "split", name)
    resumed.train()
    close(resumed)
    assert resumed.learner.updates == straight.learner.updates > 0
    assert digest(tmp_path / "split") == digest(tmp_path / "straight")
