"""The lab from the command line: an experiment, its runs, a comparison and a report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from twofold.cli import main

EXPERIMENT = """
title: two noises
env_config: pendulum
config: td3
set: {trainer.steps: 60, trainer.warmup: 20, trainer.eval_every: 60, trainer.eval_episodes: 1,
      trainer.test_episodes: 1, trainer.tensorboard: false, replay.batch_size: 8}
seeds: [1]
variants:
  calm: {learner.expl_noise: 0.05}
  bold: {learner.expl_noise: 0.4}
"""


@pytest.mark.xdist_group("lab")
def test_an_experiment_is_run_listed_compared_and_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "noises.yaml").write_text(EXPERIMENT)
    assert main(["lab", "noises.yaml", "--jobs=2"]) == 0
    assert "report     runs/noises/report/report.html" in capsys.readouterr().out
    assert main(["runs", "runs/noises"]) == 0
    listed = capsys.readouterr().out
    assert listed.count("60/60") == 2 and "2 runs" in listed
    assert main(["compare", "runs/noises", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["tables"]) == 1
    assert main(["report", "runs/noises", "--out=page", "--title=Noises"]) == 0
    assert "Noises" in (tmp_path / "page" / "report.html").read_text()


def test_what_is_not_there_is_one_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(tmp_path / "nothing")]) == 2
    assert "is not a directory" in capsys.readouterr().err
    assert main(["lab", str(tmp_path / "nothing.yaml")]) == 2


def test_the_lab_stands_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(f"  {name} " in shown for name in ("compare", "report", "runs", "lab", "page"))
