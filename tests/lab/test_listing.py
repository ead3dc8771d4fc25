"""The list of runs: told apart by what differs, with state, scores and age."""

from __future__ import annotations

from pathlib import Path

from twofold.lab.listing import list_runs, render

from .made import make_run


def test_every_run_is_one_line_told_apart_by_what_differs(tmp_path: Path) -> None:
    make_run(tmp_path / "a", seed=1, score=5.0, curve=[0.0, 7.0, 5.0])
    make_run(tmp_path / "b", seed=2, score=None, settings={"learner.gamma": 0.9})
    (make_run(tmp_path / "broken") / "config.json").write_text("[]")
    lines, problems = list_runs([tmp_path])
    assert [(line.group, line.seed, line.step, line.best, line.test) for line in lines] == [
        ("gamma=0.99", 1, 1000, 7.0, 5.0),
        ("gamma=0.9", 2, 500, 0.0, None),
    ]
    text = render(lines, problems)
    assert "stopped: at step 500" in text
    assert "2 runs" in text and "left out" in text


def test_the_age_is_since_the_last_line(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a")
    newest = max(p.stat().st_mtime for p in run.iterdir())
    lines, _ = list_runs([tmp_path], now=newest + 7200)
    assert lines[0].age == 7200
    assert "2 h" in render(lines, ())
