"""Search, confirm, final: whose seeds are whose, and who may be called a winner."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest
from jobs.test_jobs import FAKE, Silent

from twofold.base.errors import UserError
from twofold.cli import main
from twofold.jobs.running import run_jobs
from twofold.lab.experiment import Job
from twofold.lab.sweep import phases
from twofold.lab.sweep.phases import Sweep, Wanted
from twofold.lab.sweep.space import Space, Span
from twofold.lab.sweep.telling import words, write_preset, write_record, write_result

pytest.importorskip("optuna", reason="sweeps need the extra `sweep`")

SPACE = Space("td3", "pendulum", {"learner.gamma": Span(0.9, 0.99, "linear")}, {"trainer.steps": 3})


@pytest.fixture(autouse=True)
def fake_runs(monkeypatch: pytest.MonkeyPatch) -> list[Mapping[str, object]]:
    """Commands that train nothing: the score of a run is its seed."""
    asked: list[Mapping[str, object]] = []

    def make(folder: Path, world: str, name: str, seed: int, env: str, variant: object, *_: object) -> Job:
        asked.append({"name": name, "seed": seed, "settings": variant.settings})  # type: ignore[attr-defined]
        place = folder / world / name / f"seed_{seed}"
        words = (str(place), str(seed), "3", "0.0", "-1")
        return Job(world, name, seed, place, 3, (sys.executable, str(FAKE), *words))

    monkeypatch.setattr(phases, "make_job", make)
    monkeypatch.setattr(phases, "run_jobs", partial(run_jobs, tick=0.02))
    return asked


def sweep(folder: Path, **wanted: object) -> Sweep:
    given = {"trials": 3, "candidates": 2, "confirm_seeds": 2, "final_seeds": (1, 2), **wanted}
    return Sweep(folder, SPACE, Wanted(**given))  # type: ignore[arg-type]


def test_every_phase_has_seeds_of_its_own_and_only_the_final_sees_test_seeds(
    tmp_path: Path, fake_runs: list[Mapping[str, object]]
) -> None:
    found = sweep(tmp_path / "s").run(Silent())
    by_phase = {"search": set(), "confirm": set(), "final": set()}  # type: dict[str, set[object]]
    for job in fake_runs:
        settings = job["settings"]
        assert isinstance(settings, Mapping)
        phase = "final" if "trainer.test_episodes" not in settings else "search"
        phase = "confirm" if phase == "search" and int(str(job["seed"])) >= 20_000 else phase
        by_phase[phase].add(job["seed"])
        assert settings["trainer.steps"] == 3
    assert by_phase == {"search": {10_000, 10_001, 10_002}, "confirm": {20_000, 20_001}, "final": {1, 2}}
    assert found.comparison is not None and found.winner is not None
    assert found.winner.confirmed is not None and found.winner.confirmed.value == 20_000.5


def test_without_a_confirmation_nobody_is_a_winner(tmp_path: Path) -> None:
    made = sweep(tmp_path / "s", confirm_seeds=0)
    found = made.run(Silent())
    assert found.winner is None and "none named" in words(found)
    with pytest.raises(UserError, match="no winner was confirmed"):
        write_preset(made, found, tmp_path / "mine.yaml")


def test_repeated_it_does_nothing_and_more_trials_continue(tmp_path: Path) -> None:
    first = sweep(tmp_path / "s", trials=2, confirm_seeds=0).run(Silent())
    again = sweep(tmp_path / "s", trials=2, confirm_seeds=0).run(Silent())
    assert again.trials == first.trials
    more = sweep(tmp_path / "s", trials=4, confirm_seeds=0).run(Silent())
    assert more.trials[:2] == first.trials and len(more.trials) == 4


def test_a_trial_that_was_running_is_adopted(tmp_path: Path) -> None:
    made = sweep(tmp_path / "s", trials=2, confirm_seeds=0)
    begun = made.study.ask()
    found = sweep(tmp_path / "s", trials=2, confirm_seeds=0).run(Silent(), jobs=1)
    assert [t.number for t in found.trials] == [0, 1]
    assert found.trials[0].values == begun.values and found.trials[0].score == 10_000


def test_a_folder_of_another_sweep_or_of_something_else_is_refused(tmp_path: Path) -> None:
    sweep(tmp_path / "s")
    with pytest.raises(UserError, match="holds another sweep"):
        sweep(tmp_path / "s", metric="length")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    with pytest.raises(UserError, match="is not a sweep: nothing was touched"):
        sweep(tmp_path / "mine")


def test_the_result_is_written_with_its_picture_and_a_preset_that_can_be_used(tmp_path: Path) -> None:
    from twofold.settings.config import load

    made = sweep(tmp_path / "s")
    found = made.run(Silent())
    record = json.loads(write_result(made, found).read_text())
    assert len(record["trials"]) == 3 and record["winner"] == dict(found.winner.values)  # type: ignore[union-attr]
    assert (tmp_path / "s" / "sweep.png").stat().st_size > 1_000
    preset = write_preset(made, found, tmp_path / "mine.yaml")
    loaded = load(str(preset), "pendulum")
    assert loaded.values["learner.gamma"] == found.winner.values["learner.gamma"]  # type: ignore[union-attr]
    assert loaded.config.trainer.steps == 3
    assert write_preset(made, found, preset) == preset  # repeated, it is there already
    preset.write_text("# mine\n" + preset.read_text())
    with pytest.raises(UserError, match="exists: nothing was written"):
        write_preset(made, found, preset)


def test_a_preset_that_could_not_be_written_is_refused_before_the_search(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = tmp_path / "there.yaml"
    there.write_text("mine")
    words = ["sweep", "--config=td3", "--env-config=pendulum", "learner.gamma=0.9..0.99"]
    for place, message in (
        (tmp_path / "no" / "x.yaml", "there is no folder"),
        (tmp_path / "my_td3", "ends with .yaml"),
        (there, "would not be overwritten"),
    ):
        assert main([*words, f"--sweep={tmp_path / 's'}", f"--write={place}"]) == 2
        told = capsys.readouterr().err
        assert message in told and len(told.strip().splitlines()) == 1
    assert not (tmp_path / "s").exists() and there.read_text() == "mine"


def test_what_is_known_is_told_while_it_goes_on_and_a_winner_only_when_it_is_confirmed(
    tmp_path: Path,
) -> None:
    made, told = sweep(tmp_path / "s"), []
    found = made.run(Silent(), jobs=1, told=told.append)
    assert [swept.phase for swept in told[-2:]] == ["confirm", "final"] and found.phase == "done"
    searching = [swept for swept in told if swept.phase == "search"]
    assert [sum(t.score is not None for t in swept.trials) for swept in searching] == [0, 1, 2, 3]
    assert all(swept.winner is None for swept in told[:-1]) and told[-1].winner == found.winner
    record = json.loads(write_record(made, told[0]).read_text())
    assert record["phase"] == "search" and record["wanted"]["trials"] == 3 and record["winner"] is None
