"""Run directories are read strictly: damage is told and left out, and nothing in them is trusted."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path

import pytest

from twofold.base.errors import UserError
from twofold.lab.runs import MAX_DEPTH, Found, find_runs, read_run, read_runs
from twofold.store.lock import lock_holder
from twofold.store.records import last_step

from .made import make_group, make_run, write


def read(*places: Path) -> Found:
    return read_runs(list(places))


def test_a_finished_run_is_read_whole(tmp_path: Path) -> None:
    run = read(make_run(tmp_path / "r", seed=3, score=7.0, curve=[1.0, 2.0, 4.0])).runs[0]
    assert (run.seed, run.steps, run.step, run.state, run.headline) == (3, 1000, 1000, "finished", "eval")
    assert run.curves["eval"]["return"].steps.tolist() == [0, 500, 1000]
    assert run.curves["eval"]["return"].mean.tolist() == [1.0, 2.0, 4.0]
    assert run.test["eval"]["return"].mean == 7.0
    assert run.provenance.packages["gymnasium"] == "1.4.0"


def test_runs_are_found_at_any_depth_and_in_order(tmp_path: Path) -> None:
    make_group(tmp_path / "b" / "deep", [1.0, 2.0])
    make_run(tmp_path / "a")
    assert [f.name for f in find_runs([tmp_path])] == ["a", "seed_1", "seed_2"]
    assert find_runs([tmp_path / "a", tmp_path / "a"]) == [tmp_path / "a"]


def test_links_hidden_folders_and_bottomless_trees_are_not_walked(tmp_path: Path) -> None:
    make_run(tmp_path / "elsewhere" / "r")
    place = tmp_path / "place"
    (place / Path(*["d"] * (MAX_DEPTH + 1))).mkdir(parents=True)
    make_run(place / Path(*["d"] * (MAX_DEPTH + 1)) / "r")
    make_run(place / ".hidden" / "r")
    (place / "link").symlink_to(tmp_path / "elsewhere")
    (place / "loop").symlink_to(place)
    assert find_runs([place]) == []


def test_a_place_that_is_no_directory_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not a directory"):
        find_runs([tmp_path / "absent"])


DAMAGE = {
    "not json": ("config.json", b"{"),
    "a list": ("config.json", b"[]"),
    "no values": ("config.json", b"{}"),
    "a seed in words": ("config.json", b'{"values": {"seed": "one"}}'),
    "deep": ("config.json", b"[" * 200_000),
    "an infinite mean": ("evaluations.jsonl", b'{"step": 0, "world": "e", "return": {"mean": Infinity}}\n'),
    "a NaN": ("evaluations.jsonl", b'{"step": 0, "world": "e", "return": {"mean": NaN}}\n'),
    "a mean in words": ("evaluations.jsonl", b'{"step": 0, "world": "e", "return": {"mean": "much"}}\n'),
    "a giant number": (
        "evaluations.jsonl",
        b'{"step": 0, "world": "e", "return": {"mean": 1' + b"0" * 999 + b"}}\n",
    ),
    "steps that fall": (
        "evaluations.jsonl",
        b'{"step": 9, "world": "e", "r": {"mean": 1}}\n{"step": 9, "world": "e", "r": {"mean": 1}}\n',
    ),
    "a negative step": ("evaluations.jsonl", b'{"step": -1, "world": "e"}\n'),
    "no world": ("evaluations.jsonl", b'{"step": 1}\n'),
    "a giant line": ("evaluations.jsonl", b'{"step": 1, "world": "' + b"x" * 5_000_000 + b'"}\n'),
    "half a record a line": ("evaluations.jsonl", b'{"step": 1\n"world": "e"}\n'),
    "bytes": ("evaluations.jsonl", b"\xff\xfe\n"),
    "a thousand names": (
        "evaluations.jsonl",
        json.dumps({"step": 1, "world": "e", **{f"m{i}": {"mean": 1} for i in range(1000)}}).encode() + b"\n",
    ),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_run_is_told_and_left_out(tmp_path: Path, kind: str) -> None:
    make_run(tmp_path / "good", seed=1)
    name, content = DAMAGE[kind]
    (make_run(tmp_path / "bad", seed=2) / name).write_bytes(content)
    found = read(tmp_path)
    assert [run.folder.name for run in found.runs] == ["good"]
    assert [problem.place.name for problem in found.problems] == ["bad"]
    assert len(found.problems[0].message) < 400


@pytest.mark.parametrize("name", ["test.json", "provenance.json"])
def test_a_damaged_side_file_is_told_and_the_run_kept(tmp_path: Path, name: str) -> None:
    (make_run(tmp_path / "r") / name).write_text("[1, 2")
    found = read(tmp_path)
    assert len(found.runs) == 1
    assert found.problems[0].place.name == name
    assert (found.runs[0].state == "finished") == (name != "test.json")


def test_links_and_pipes_in_a_run_directory_are_refused(tmp_path: Path) -> None:
    secret = tmp_path / "secret.json"
    write(secret, {"values": {"seed": 1}})
    one, two = tmp_path / "runs" / "one", make_run(tmp_path / "runs" / "two")
    one.mkdir()
    (one / "config.json").symlink_to(secret)
    (two / "evaluations.jsonl").unlink()
    os.mkfifo(two / "evaluations.jsonl")
    found = read(tmp_path / "runs")
    assert found.runs == ()
    assert ["symbolic link" in p.message or "regular" in p.message for p in found.problems] == [True, True]


def test_a_half_written_last_line_is_left_out(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "r", curve=[1.0, 2.0])
    with open(folder / "evaluations.jsonl", "a") as file:
        file.write('{"step": 2000, "wor')
    assert read(tmp_path).runs[0].curves["eval"]["return"].steps.tolist() == [0, 1000]


def test_a_run_without_evaluations_is_stopped_not_broken(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "r", score=None)
    (folder / "evaluations.jsonl").unlink()
    (folder / "metrics.jsonl").unlink()
    run = read(tmp_path).runs[0]
    assert (run.state, run.reason, run.step) == ("stopped", "at step 0", 0)


def test_states_follow_from_what_is_there(tmp_path: Path) -> None:
    stopped = make_run(tmp_path / "a", score=None)
    failed = make_run(tmp_path / "b", score=None)
    (failed / "bad_batch.safetensors").write_bytes(b"")
    early = make_run(tmp_path / "c", score=4.0, settings={"trainer.stop_at": 4.0, "trainer.steps": 9000})
    (early / "metrics.jsonl").unlink()
    untested = make_run(tmp_path / "d", settings={"trainer.test_episodes": 0})
    (untested / "test.json").unlink()
    assert [read_run(f)[0].state for f in (stopped, failed, early, untested)] == [
        "stopped",
        "failed",
        "finished",
        "finished",
    ]


def test_a_held_lock_means_running_and_is_not_disturbed(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "r", score=None)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert lock_holder(folder / "lock") == os.getpid()
        assert read_run(folder)[0].state == "running"
    assert read_run(folder)[0].state == "stopped"


def test_the_last_step_is_read_from_the_end_of_a_long_log(tmp_path: Path) -> None:
    lines = "".join(json.dumps({"step": i, "x": "y" * 100}) + "\n" for i in range(5000))
    (tmp_path / "metrics.jsonl").write_text(lines + '{"step": 9')
    assert last_step(tmp_path) == 4999
    (tmp_path / "metrics.jsonl").write_text("garbage\n")
    assert last_step(tmp_path) == 0


def test_the_score_of_a_shorter_run_is_not_that_of_the_longer_one(tmp_path: Path) -> None:
    """A run made longer and killed in its last test still holds the shorter one's test.json."""
    folder = make_run(tmp_path / "r", score=7.0, settings={"trainer.steps": 2000})
    scored = json.loads((folder / "test.json").read_text())
    write(folder / "test.json", {**scored, "step": 1000})
    found = read(folder)
    assert found.runs[0].test == {} and found.runs[0].state != "finished"
    assert "is of step 1,000, the run is at 2,000: not counted" in found.problems[0].message
