"""Sinks show what a run logs, and can disturb none of it."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from parts import Counter

import twofold
from twofold.base.errors import UserError
from twofold.settings.config import Resolved
from twofold.store import sinks

SHORT: dict[str, Any] = {
    "env": Counter,
    "trainer": {
        "steps": 40,
        "warmup": 20,
        "log_every": 10,
        "eval_every": 20,
        "eval_episodes": 1,
        "test_episodes": 1,
    },
    "replay": {"batch_size": 8, "buffer_size": 200},
    "networks": {"actor_hidden": [8], "critic_hidden": [8]},
    "tensorboard": False,
}
FILES = ("metrics.jsonl", "evaluations.jsonl", "best.safetensors")


def scalars(run: Path) -> list[tuple[int, str, float]]:
    with open(run / "scalars.csv", newline="") as file:
        return [(int(row["step"]), row["name"], float(row["value"])) for row in csv.DictReader(file)]


def test_a_table_holds_metrics_evaluations_and_speed(tmp_path: Path) -> None:
    run = twofold.train(run=tmp_path / "r", log="csv", **SHORT)
    found = scalars(tmp_path / "r")
    assert (40, "updates", 21.0) in found and (40, "eval/return", 5.0) in found
    assert {step for step, name, _ in found if name == "timing/steps_per_second"} == {0, 10, 20, 30, 40}
    assert run.settings["trainer.sinks"] == ("csv",)


def test_a_resumed_run_cuts_its_table_back(tmp_path: Path) -> None:
    for now in twofold.iterate(run=tmp_path / "r", log="csv", **SHORT):
        if now.step == 20:
            break
    with open(tmp_path / "r" / "scalars.csv", "a") as file:
        file.write("30,updates,99.0\r\n")  # what was logged after the checkpoint and before a kill
    twofold.train(run=tmp_path / "r", log="csv", **SHORT)
    found = [(step, value) for step, name, value in scalars(tmp_path / "r") if name == "updates"]
    assert found == [(0, 0.0), (10, 0.0), (20, 1.0), (30, 11.0), (40, 21.0)]


class Broken:
    """A sink that fails when it starts, at its second value, or at its end."""

    at = ""

    def __init__(self, folder: Path, resolved: Resolved, step: int) -> None:
        self.values = 0
        self.fail("start")

    def fail(self, moment: str) -> None:
        if self.at == moment:
            raise RuntimeError("the other side hung up\nwith a long story")

    def scalars(self, step: int, values: dict[str, float]) -> None:
        self.values += 1
        if self.values == 2:
            self.fail("value")

    def close(self) -> None:
        self.fail("end")


@pytest.mark.parametrize("moment", ["start", "value", "end"])
def test_a_sink_that_fails_is_named_once_and_changes_no_byte(
    moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    twofold.train(run=tmp_path / "alone", **SHORT)
    monkeypatch.setattr(Broken, "at", moment)
    monkeypatch.setitem(sinks.MAKERS, "wandb", Broken)
    twofold.train(run=tmp_path / "beside", log="wandb", **SHORT)
    said = [record.getMessage() for record in caplog.records if "wandb" in record.getMessage()]
    assert said == ["metrics cannot be written to wandb (the other side hung up): continuing without it"]
    assert (tmp_path / "alone" / FILES[0]).read_bytes() == (tmp_path / "beside" / FILES[0]).read_bytes()
    assert (tmp_path / "alone" / FILES[1]).read_bytes() == (tmp_path / "beside" / FILES[1]).read_bytes()


def test_a_run_resumes_with_other_sinks(tmp_path: Path) -> None:
    twofold.train(run=tmp_path / "r", **SHORT)
    longer = SHORT | {"trainer": SHORT["trainer"] | {"steps": 60}}
    twofold.train(run=tmp_path / "r", log="csv", **longer)
    assert scalars(tmp_path / "r")[0][0] == 50


def test_a_package_that_is_absent_is_named_and_the_run_ends_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    assert twofold.train(run=tmp_path / "r", log="wandb", **SHORT).finished
    assert "needs the package 'wandb'" in caplog.text


def test_an_unknown_sink_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"trainer\.sinks.*csv, wandb, mlflow"):
        twofold.train(run=tmp_path / "r", log="comet", **SHORT)


def test_wandb_gets_the_run_offline(tmp_path: Path) -> None:
    """In a process of its own: W&B writes its file when the process ends."""
    pytest.importorskip("wandb", reason="wandb is optional: the extra 'wandb'")
    words = "train --env-config=pendulum --run=r --log=wandb trainer.steps=40 trainer.warmup=20 trainer.eval_episodes=1"
    words += " trainer.test_episodes=1 replay.batch_size=8 trainer.tensorboard=false"
    env = os.environ | {"WANDB_MODE": "offline", "PYTHONPATH": str(Path(twofold.__file__).parents[1])}
    command = [sys.executable, "-m", "twofold", *words.split()]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "wandb" not in done.stderr, done.stderr
    kept = list((tmp_path / "r" / "wandb").glob("offline-run-*/run-*.wandb"))
    assert len(kept) == 1 and sinks._identity(tmp_path / "r") in kept[0].name
    assert b"eval/return" in kept[0].read_bytes() and b"critic/loss" in kept[0].read_bytes()


def test_mlflow_gets_the_run_in_its_file_store_and_keeps_its_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mlflow", reason="mlflow is optional: the extra 'mlflow'")
    from mlflow.tracking import MlflowClient

    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    twofold.train(run=tmp_path / "r", log="mlflow", **SHORT)
    longer = SHORT | {"trainer": SHORT["trainer"] | {"steps": 60}}
    twofold.train(run=tmp_path / "r", log="mlflow", **longer)
    assert "MLFLOW_ALLOW_FILE_STORE" not in os.environ
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    client = MlflowClient((tmp_path / "r" / "mlruns").as_uri())
    known = client.get_experiment_by_name("twofold")
    assert known is not None
    (found,) = client.search_runs([known.experiment_id])
    history = client.get_metric_history(found.info.run_id, "updates")
    assert [(m.step, m.value) for m in history][-1] == (60, 41.0)
    assert found.data.params["learner.gamma"] == "0.99" and found.info.status == "FINISHED"
