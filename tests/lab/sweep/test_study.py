"""The journal survives what kills it, and an interrupted search makes the same choices."""

from __future__ import annotations

from pathlib import Path

import pytest

from twofold.base.errors import UserError
from twofold.lab.sweep.space import Choice, Span
from twofold.lab.sweep.study import Study, Trial

pytest.importorskip("optuna", reason="sweeps need the extra `sweep`")

AXES = {"a": Span(1e-5, 1e-2, "log"), "b": Choice(("256,256", "512,512")), "c": Span(1, 8, "int")}


def score(trial: Trial) -> float:
    return -abs(float(str(trial.values["a"])) - 1e-3) * 100 - float(str(trial.values["c"]))


def whole(folder: Path, trials: int) -> list[Trial]:
    folder.mkdir()
    study = Study(folder, AXES, seed=3)
    for _ in range(trials):
        trial = study.ask()
        study.tell(trial.number, score(trial))
    return study.trials()


def test_values_are_of_their_kinds(tmp_path: Path) -> None:
    for trial in whole(tmp_path / "a", 4):
        assert 1e-5 <= float(str(trial.values["a"])) <= 1e-2
        assert trial.values["b"] in ([256, 256], [512, 512])
        assert isinstance(trial.values["c"], int) and trial.score == score(trial)


def test_a_search_interrupted_after_every_trial_and_in_one_makes_the_same_choices(tmp_path: Path) -> None:
    wanted = whole(tmp_path / "straight", 13)  # TPE begins to choose after ten
    folder = tmp_path / "interrupted"
    folder.mkdir()
    for number in range(13):
        study = Study(folder, AXES, seed=3)
        trial = study.ask()
        if number in (4, 11):  # killed while the trial runs, and while the journal is written
            with open(folder / "journal.jsonl", "ab") as file:
                file.write(b'{"op_code": 4, "work')
            study = Study(folder, AXES, seed=3)
            (trial,) = [t for t in study.trials() if t.score is None]
        study.tell(trial.number, score(trial))
    assert Study(folder, AXES, seed=3).trials() == wanted


def test_a_lock_of_a_dead_process_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "journal.jsonl.lock").touch()
    Study(tmp_path, AXES, seed=0).ask()


def test_failed_trials_are_kept_as_failed(tmp_path: Path) -> None:
    study = Study(tmp_path, AXES, seed=0)
    study.tell(study.ask().number, None)
    assert [t.failed for t in study.trials()] == [True]


def test_a_damaged_journal_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "journal.jsonl").write_bytes(b"nonsense\n")
    with pytest.raises(UserError, match="is damaged"):
        Study(tmp_path, AXES, seed=0)


def test_importance_needs_ten_trials(tmp_path: Path) -> None:
    whole(tmp_path / "few", 9)
    assert Study(tmp_path / "few", AXES, 3).importance() == {}
    whole(tmp_path / "many", 12)
    shares = Study(tmp_path / "many", AXES, 3).importance()
    assert set(shares) == set(AXES) and sum(shares.values()) == pytest.approx(1)
