"""State, starts and log of a run, however it ends."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from twofold.assemble import run_to_end
from twofold.base.errors import UserError
from twofold.base.signals import Stopped
from twofold.settings.config import load
from twofold.store.journal import Journal
from twofold.store.run import Run

SHORT = {
    "trainer.steps": 120,
    "trainer.warmup": 100,
    "trainer.eval_every": 60,
    "trainer.eval_episodes": 1,
    "trainer.tensorboard": False,
}


def state(folder: Path) -> dict[str, object]:
    return dict(json.loads((folder / "state.json").read_text()))


def lines(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / "starts.jsonl").read_text().splitlines()]


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path, steps=100, saved=lambda: 40)


def test_a_session_that_ends_well_is_finished(journal: Journal, tmp_path: Path) -> None:
    with journal.session("twofold train"):
        assert state(tmp_path)["state"] == "running"
        logging.getLogger("twofold").warning("a word")
    assert state(tmp_path) | {"state": "finished", "reason": "", "step": 40, "steps": 100} == state(tmp_path)
    start, end = lines(tmp_path)
    assert (start["command"], start["from"]) == ("twofold train", 40) and "torch" in start["packages"]  # type: ignore[operator]
    assert (end["end"], end["step"]) == ("finished", 40)
    log = (tmp_path / "log.txt").read_text()
    assert "started: twofold train" in log and "WARNING a word" in log and "finished at step 40" in log


@pytest.mark.parametrize(
    ("error", "wanted", "reason"),
    [
        (Stopped(15), "stopped", "stopped by SIGTERM"),
        (UserError("the disk\nis full"), "failed", "the disk is full"),
        (ZeroDivisionError("one"), "failed", "ZeroDivisionError: one"),
        (KeyboardInterrupt(), "failed", "KeyboardInterrupt"),
    ],
)
def test_a_session_that_ends_otherwise_says_why(
    journal: Journal, tmp_path: Path, error: BaseException, wanted: str, reason: str
) -> None:
    with pytest.raises(type(error)), journal.session("x"):
        raise error
    assert (state(tmp_path)["state"], state(tmp_path)["reason"]) == (wanted, reason)
    assert lines(tmp_path)[-1]["end"] == wanted
    assert ("Traceback" in (tmp_path / "log.txt").read_text()) == isinstance(
        error, (ZeroDivisionError, KeyboardInterrupt)
    )


def test_other_versions_at_a_resume_are_said(
    journal: Journal, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "starts.jsonl").write_text(json.dumps({"packages": {"numpy": "0.1"}}) + "\n")
    with journal.session("x"):
        pass
    assert "numpy 0.1 -> " in caplog.text


def test_a_run_without_a_test_is_finished_once_and_writes_nothing_when_repeated(tmp_path: Path) -> None:
    resolved = load("td3", "pendulum", **SHORT, **{"trainer.test_episodes": 0})
    run_to_end(Run.create(tmp_path / "run", resolved, "first"))
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "run").rglob("*") if p.name != "lock"}
    run_to_end(Run.create(tmp_path / "run", resolved, "again"))
    assert before == {p: p.stat().st_mtime_ns for p in (tmp_path / "run").rglob("*") if p.name != "lock"}


def test_a_run_that_was_good_enough_is_not_tested_again(tmp_path: Path) -> None:
    resolved = load("td3", "pendulum", **SHORT, **{"trainer.test_episodes": 1, "trainer.stop_at": -1e9})
    run_to_end(Run.create(tmp_path / "run", resolved, "first"))
    tested = (tmp_path / "run" / "test.json").stat().st_mtime_ns
    run_to_end(Run.create(tmp_path / "run", resolved, "again"))
    assert tested == (tmp_path / "run" / "test.json").stat().st_mtime_ns


def test_settings_that_change_no_byte_may_change_and_others_may_not(tmp_path: Path) -> None:
    def resolved(**more: object) -> object:
        return load("td3", "pendulum", **{**SHORT, "trainer.test_episodes": 2, **more})

    run_to_end(Run.create(tmp_path / "a", resolved(), "x"))  # type: ignore[arg-type]
    shorter = resolved(**{"trainer.save_every": 7, "trainer.keep_checkpoints": 3})
    run = Run.create(tmp_path / "a", shorter, "x")  # type: ignore[arg-type]
    assert run.changed and run.resolved.config.trainer.save_every == 7
    run_to_end(run)
    assert Run.open(tmp_path / "a").resolved.config.trainer.keep_checkpoints == 3
    with pytest.raises(UserError, match=r"trainer\.warmup: 100 there, 90 now"):
        Run.create(tmp_path / "a", resolved(**{"trainer.warmup": 90}), "x")  # type: ignore[arg-type]


def test_the_test_keeps_every_episode_in_the_order_of_its_seeds(tmp_path: Path) -> None:
    resolved = load("td3", "pendulum", **SHORT, **{"trainer.test_episodes": 3})
    found = run_to_end(Run.create(tmp_path / "run", resolved, "x")).test["eval"]["return"]
    record = json.loads((tmp_path / "run" / "test.json").read_text())["eval"]["return"]
    assert len(record["values"]) == 3 and sum(record["values"]) / 3 == pytest.approx(found["mean"])
    assert "values" not in found
