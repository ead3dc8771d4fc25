"""A run keeps the engine it began with unless another is asked for, and its provenance tells which."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from native_parts import needs_native
from parts import stop_at

from twofold.assemble import assemble
from twofold.core.trainer import Trainer
from twofold.settings.config import load
from twofold.store.run import Run


def made(folder: Path, engine: str) -> Trainer[Any]:
    own = {"steps": 200, "warmup": 50, "eval_every": 200, "eval_episodes": 1, "tensorboard": False}
    resolved = load(
        "td3",
        "pendulum",
        networks={"actor_hidden": [8], "critic_hidden": [8]},
        replay={"batch_size": 16, "buffer_size": 200},
        trainer=own,
        learner={"engine": engine},
    )
    return assemble(Run.create(folder, resolved, "test")).trainer


def provenance(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "provenance.json").read_text())
    return found


def test_the_provenance_names_the_engine_that_ran(tmp_path: Path) -> None:
    made(tmp_path / "run", "autograd").train()
    assert provenance(tmp_path / "run")["engine"] == "autograd"
    assert provenance(tmp_path / "run")["command"] == "test"


@needs_native
def test_a_resume_goes_on_with_the_engine_of_the_checkpoint_unless_asked(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    first = made(folder, "fused")
    stop_at(first, 80)
    first.keeper.run.close()
    resumed = made(folder, "auto")
    stop_at(resumed, 120)
    resumed.keeper.run.close()
    assert resumed.learner.engine_name == "fused" and provenance(folder)["engine"] == "fused"
    asked = made(folder, "native")
    asked.train()
    assert asked.learner.engine_name == "native" and asked.steps == 200
    assert provenance(folder)["engine"] == "fused, from step 120 on native"


def test_a_lost_or_damaged_provenance_stops_no_run(tmp_path: Path) -> None:
    for name, content in (("lost", None), ("damaged", b"[")):
        trainer = made(tmp_path / name, "autograd")
        path = tmp_path / name / "provenance.json"
        path.unlink()
        if content is not None:
            path.write_bytes(content)
        trainer.train()
        assert trainer.steps == 200
