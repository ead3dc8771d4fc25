"""The run directory: locked before anything is written, and never a folder of the user's."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from twofold.base.errors import CheckpointError, UserError
from twofold.settings.config import load
from twofold.store import files
from twofold.store.lock import RunLock
from twofold.store.records import read_provenance
from twofold.store.run import Run


def made(folder: Path, seed: int = 0) -> Run:
    return Run.create(folder, load("td3", "pendulum", seed=seed), "twofold train")


def test_a_start_that_is_refused_by_the_lock_has_written_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    other = RunLock(folder)
    other.take()  # another process is about to write its settings
    with pytest.raises(UserError, match="is in use by process"):
        made(folder)
    assert [path.name for path in folder.iterdir()] == ["lock"]


def test_a_run_is_read_again_whatever_the_files_are_called_that_made_it(tmp_path: Path) -> None:
    config = tmp_path / os.fsdecode(b"\xff.yaml")  # of a disk whose names are not UTF-8
    config.write_text("extends: td3\n")
    resolved, command = load(str(config), "pendulum"), f"twofold train --config={config}"
    Run.create(tmp_path / "run", resolved, command, (os.fsdecode(b"\xfe.py"),)).close()
    assert Run.open(tmp_path / "run").resolved.values == resolved.values
    assert "\\udcff.yaml" in read_provenance(tmp_path / "run" / "provenance.json").command


def test_the_lock_is_held_from_the_first_write_on(tmp_path: Path) -> None:
    run = made(tmp_path / "run")
    with pytest.raises(UserError, match="is in use by process"):
        made(tmp_path / "run")
    run.close()
    made(tmp_path / "run").close()


def test_a_run_that_nobody_went_on_with_keeps_nobody_out(tmp_path: Path) -> None:
    made(tmp_path / "run")
    made(tmp_path / "run").close()


def test_other_settings_are_refused_and_leave_the_first_ones(tmp_path: Path) -> None:
    made(tmp_path / "run", seed=1).close()
    with pytest.raises(UserError, match="other settings"):
        made(tmp_path / "run", seed=2)
    assert Run.open(tmp_path / "run").resolved.config.seed == 1


THEIRS: dict[str, Callable[[Path], object]] = {
    "a thesis": lambda folder: (folder / "thesis.tex").write_text("x"),
    "a lock of another program": lambda folder: (folder / "lock").write_text("apt-get"),
    "a provenance.json of another program": lambda folder: (folder / "provenance.json").write_text(
        '{"a": 1}'
    ),
    "a provenance.json that is no JSON": lambda folder: (folder / "provenance.json").write_text("art"),
    "a lock that is a pipe": lambda folder: os.mkfifo(folder / "lock"),
    "a hidden file": lambda folder: (folder / ".git").mkdir(),
}


@pytest.mark.parametrize("put", THEIRS.values(), ids=THEIRS.keys())
def test_a_folder_of_the_user_is_not_written_into(put: Callable[[Path], object], tmp_path: Path) -> None:
    put(tmp_path)
    before = {path.name: path.read_text() for path in tmp_path.iterdir() if path.is_file()}
    names = sorted(os.listdir(tmp_path))
    with pytest.raises(UserError, match="not a run directory: nothing was touched"):
        made(tmp_path)
    assert sorted(os.listdir(tmp_path)) == names
    assert {path.name: path.read_text() for path in tmp_path.iterdir() if path.is_file()} == before


def test_what_an_interrupted_start_left_is_gone_on_with(tmp_path: Path) -> None:
    made(tmp_path / "run").close()
    (tmp_path / "run" / "config.json").unlink()
    made(tmp_path / "run").close()
    assert files.is_run(tmp_path / "run")


def test_a_file_in_place_of_the_folder_is_said(tmp_path: Path) -> None:
    (tmp_path / "run").touch()
    with pytest.raises(UserError, match="something else has that name"):
        made(tmp_path / "run")


def test_a_folder_of_the_temporary_kind_stops_nobody(tmp_path: Path) -> None:
    made(tmp_path / "run").close()
    (tmp_path / "run" / ".foo.tmp").mkdir()
    made(tmp_path / "run").close()


def test_results_go_into_new_empty_or_own_folders_only(tmp_path: Path) -> None:
    files.own_folder(tmp_path / "new", "table.md")
    (tmp_path / "new" / "table.md").touch()
    files.own_folder(tmp_path / "new", "table.md")
    (tmp_path / "new" / "mine.txt").touch()
    with pytest.raises(UserError, match=r"holds other files \(mine.txt\): nothing was touched"):
        files.own_folder(tmp_path / "new", "table.md")


def test_a_config_of_another_program_makes_no_run(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"name": "web", "values": 3}))
    with pytest.raises(UserError, match="holds other files"):
        files.own_folder(tmp_path)


@pytest.mark.parametrize("name", ["x.json", ".x.json.tmp"])
def test_a_folder_in_place_of_what_is_written_whole_is_one_line(name: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(CheckpointError, match=r"cannot write .*directory"):
        files.replace_bytes(tmp_path / "x.json", b"{}")
    assert (tmp_path / name).is_dir()


@pytest.mark.parametrize("content", ["[]", "3", '{"eval": 5}', '{"eval": {"return": {}}}', "NaN", ""])
def test_a_damaged_test_says_how_to_have_it_made_again(content: str, tmp_path: Path) -> None:
    run = made(tmp_path / "run")
    run.checkpoints.save(run.resolved.config.trainer.steps, {}, None)
    (tmp_path / "run" / "test.json").write_text(content)
    with pytest.raises(CheckpointError, match="remove it to have it made again"):
        run.test_scores()


def test_a_test_of_fewer_steps_is_made_again(tmp_path: Path) -> None:
    run = made(tmp_path / "run")
    steps = run.resolved.config.trainer.steps
    run.checkpoints.save(steps, {}, None)
    (tmp_path / "run" / "test.json").write_text(json.dumps({"step": steps, "policy": ""}))
    assert run.test_scores() == {}
    (tmp_path / "run" / "test.json").write_text(json.dumps({"step": steps - 1, "policy": ""}))
    assert run.test_scores() is None


@pytest.mark.parametrize("path", [Path(), Path("/")])
def test_a_folder_in_place_of_a_name_is_one_line(path: Path) -> None:
    with pytest.raises(UserError, match="Is a directory: give the name of a file"):
        files.replace_bytes(path, b"")
