"""docs/lab.md does what it says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from twofold.cli import main
from twofold.lab.experiment import read_plan

from .made import make_group

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "lab.md").read_text()
BLOCKS = {kind: re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL) for kind in ("python", "yaml", "bash")}


def test_the_python_of_the_page_runs_as_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    make_group(tmp_path / "runs" / "a", [1.0, 2.0, 3.0, 4.0, 5.0])
    make_group(tmp_path / "runs" / "b", [1.0, 2.0, 3.0, 4.0, 5.0], settings={"learner.gamma": 0.9})
    # What waits for a person or trains for hours is named, not called.
    called = [
        re.sub(r"^(conduct)\(", "callable(\\1) and (lambda *_, **__: None)(", b, flags=re.M)
        for b in BLOCKS["python"]
    ]
    names: dict[str, object] = {}
    for block in called:
        exec(block, names)
    assert "gamma=0.9 against gamma=0.99: too few seeds" in capsys.readouterr().out
    for made in ("curves.svg", "report/report.html", "report/tables.tex", "runs/a/panels/cross_play.json"):
        assert (tmp_path / made).stat().st_size


@pytest.mark.parametrize(("place", "jobs"), [(0, 10), (1, 60)])
def test_an_experiment_of_the_page_is_a_plan(tmp_path: Path, place: int, jobs: int) -> None:
    (tmp_path / "some.yaml").write_text(BLOCKS["yaml"][place])
    assert len(read_plan(tmp_path / "some.yaml", tmp_path / "runs").jobs) == jobs


def test_the_first_experiment_of_the_page_is_the_example_that_is_shipped() -> None:
    shipped = (ROOT / "examples" / "two_settings.yaml").read_text()
    assert BLOCKS["yaml"][0].partition("\n")[2] == shipped.partition("\n")[2]


@pytest.mark.docs
def test_the_commands_of_the_page_run_as_written_in_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    short = (
        "{steps: 120, eval_every: 60, warmup: 100, eval_episodes: 1, test_episodes: 1, tensorboard: false}"
    )
    text = BLOCKS["yaml"][0].partition("set:")
    rest = text[2].partition("variants:")[2]
    Path("two_settings.yaml").write_text(f"{text[0]}set: {{trainer: {short}}}\nvariants:{rest}")
    for line in [line for block in BLOCKS["bash"] for line in block.splitlines()]:
        words = shlex.split(line, comments=True)
        if words[1] != "page":  # it serves until somebody stops it
            assert main(words[1:]) == 0, line
    assert all((tmp_path / made).exists() for made in ("curves.png", "report/report.html"))
