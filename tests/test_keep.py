"""Records of runs, kept without their weights."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))

from keep import keep, typed

from twofold import api
from twofold.lab.runs import read_runs


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs, one of them not finished."""
    folder = tmp_path_factory.mktemp("runs")
    small = {
        "trainer.steps": 400,
        "trainer.warmup": 200,
        "trainer.eval_every": 200,
        "trainer.eval_episodes": 1,
    }
    for seed in (1, 2):
        api.train_with("td3", "pendulum", small | {"seed": seed}, run=folder / "pendulum" / f"seed_{seed}")
    said = folder / "pendulum" / "seed_2" / "state.json"
    said.write_text(said.read_text().replace("finished", "stopped"))
    return folder


def test_a_record_says_what_its_run_says(runs: Path, tmp_path: Path) -> None:
    (kept,) = keep(runs, tmp_path / "kept")
    assert kept == tmp_path / "kept" / "pendulum" / "seed_1"
    (ours,), (theirs,) = (read_runs([place]).runs for place in (kept, runs / "pendulum" / "seed_1"))
    assert ours.state == theirs.state == "finished" and ours.step == theirs.step == 400
    assert ours.test == theirs.test and ours.settings == theirs.settings
    assert ours.curves["eval"]["return"].mean.tolist() == theirs.curves["eval"]["return"].mean.tolist()
    assert not list(kept.glob("*.safetensors")) and not (kept / "checkpoints").exists()
    assert list(keep(runs, tmp_path / "kept")) == []  # what is kept stays as it is


def test_a_record_has_no_word_of_its_machine(runs: Path, tmp_path: Path) -> None:
    (kept,) = keep(runs, tmp_path)
    said, made = (json.loads((kept / name).read_text()) for name in ("state.json", "provenance.json"))
    assert said["host"] == "" and said["pid"] == 0
    assert made["command"].startswith("twofold") and str(runs) not in made["command"]
    whole = "somewhere/bin/twofold train --config=td3 --run=elsewhere/a seed=3"
    assert typed(whole) == "twofold train --config=td3 seed=3"
