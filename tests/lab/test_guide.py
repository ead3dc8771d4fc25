"""docs/lab.md does what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from twofold.lab.experiment import read_plan

from .made import make_group

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "lab.md").read_text()
BLOCKS = {kind: re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL) for kind in ("python", "yaml")}


def test_the_python_of_the_page_runs_as_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    make_group(tmp_path / "runs" / "a", [1.0, 2.0, 3.0, 4.0, 5.0])
    make_group(tmp_path / "runs" / "b", [1.0, 2.0, 3.0, 4.0, 5.0], settings={"learner.gamma": 0.9})
    # What waits for a person or trains for hours is named, not called.
    called = [
        re.sub(r"^(serve|conduct)\(", "callable(\\1) and (lambda *_, **__: None)(", b, flags=re.M)
        for b in BLOCKS["python"]
    ]
    names: dict[str, object] = {}
    for block in called:
        if "lab.page" not in block:
            exec(block, names)
    assert "gamma=0.9 against gamma=0.99: too few seeds" in capsys.readouterr().out
    for made in ("curves.svg", "report/report.html", "report/tables.tex", "runs/a/panels/cross_play.json"):
        assert (tmp_path / made).stat().st_size


def test_the_experiment_of_the_page_is_a_plan(tmp_path: Path) -> None:
    (tmp_path / "patience.yaml").write_text(BLOCKS["yaml"][0])
    assert len(read_plan(tmp_path / "patience.yaml", tmp_path / "runs").jobs) == 60
