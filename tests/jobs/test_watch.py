"""What a person sees of running jobs: a table in a terminal, lines elsewhere, and an honest time left."""

from __future__ import annotations

import io
import logging
from pathlib import Path

import pytest
from rich.console import Console

from twofold.jobs.running import Progress
from twofold.jobs.watch import Board, Lines, duration, seconds_left, summary
from twofold.lab.experiment import Job


def progress(seed: int, state: str, step: int = 0, speed: float = 0.0, message: str = "") -> Progress:
    job = Job("pendulum", "default", seed, Path(f"/runs/{seed}"), 1000, ())
    return Progress(job, state, step, speed, message)  # type: ignore[arg-type]


JOBS = [
    progress(1, "done", 1000),
    progress(2, "running", 400, 10.0),
    progress(3, "running", 0),
    progress(4, "waiting"),
    progress(5, "failed", 300, message="[bold]the world broke"),
]


def test_the_time_left_counts_all_steps_at_the_speed_of_all_that_run() -> None:
    assert seconds_left(JOBS) == (600 + 1000 + 1000) / 20
    assert seconds_left([progress(1, "running")]) is None
    assert summary(JOBS) == "1 of 5 done, 2 running, 1 waiting, 1 failed, 2 min left"


def test_durations_are_said_as_people_say_them() -> None:
    assert [duration(s) for s in (40, 840, 12_000)] == ["40 s", "14 min", "3 h 20 min"]


def drawn(jobs: list[Progress], height: int) -> str:
    console = Console(file=io.StringIO(), width=110, height=height, force_terminal=True)
    board = Board(console)
    console.print(board.table(jobs))
    return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]


def test_the_board_has_a_bar_for_each_job_and_shows_messages_as_they_are() -> None:
    text = drawn(JOBS, 40)
    assert text.count("━") > 4 * 20
    assert "400/1k" in text
    assert "[bold]the world broke" in text


def test_a_long_list_shows_what_matters_now() -> None:
    many = [progress(i, "done", 1000) for i in range(100)] + [progress(100, "running", 1, 1.0)]
    text = drawn(many, 20)
    assert text.count("pendulum") == 12
    assert "running" in text and "100 of 101 done" in text


def test_lines_tell_every_change_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    logger = logging.getLogger("twofold")
    monkeypatch.setattr(logger, "propagate", True)
    monkeypatch.setattr(logger, "handlers", [])  # whatever commands of other tests left there
    caplog.set_level(logging.INFO, "twofold")
    view = Lines()
    view.show(JOBS)
    view.show(JOBS)
    assert [r.getMessage() for r in caplog.records] == [
        "pendulum default seed 1 done at step 1000",
        "pendulum default seed 2 running at step 400",
        "pendulum default seed 3 running at step 0",
        "pendulum default seed 5 failed at step 300: [bold]the world broke",
        "1 of 5 done, 2 running, 1 waiting, 1 failed, 2 min left",
    ]
