"""Jobs by submitit's local executor, which preempts as SLURM does."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from twofold.base.errors import UserError
from twofold.lab.launchers import launcher
from twofold.lab.on_slurm import Slurm

from .test_jobs import content, job, jobs_in, run, wait_until

pytest.importorskip("submitit", reason="SLURM needs the extra `slurm`")


def test_a_preempted_job_continues_to_the_same_bytes(tmp_path: Path) -> None:
    assert run(jobs_in(tmp_path / "calm", 1, 60, 0.0), tmp_path / "calm").done
    folder = tmp_path / "wild"
    (folder / "logs").mkdir(parents=True)
    with Slurm("cluster=local", folder) as queue:
        task = queue.start(job(folder, 1, 60, 0.05), folder / "logs" / "a.txt")
        wait_until(lambda: (folder / "seed_1" / "metrics.jsonl").exists(), 60)
        task._job._interrupt()  # what a preempting cluster does
        wait_until(lambda: task.code() is not None, 60)
        assert task.code() == 0, (folder / "logs" / "a.txt").read_text()
    assert content(folder) == content(tmp_path / "calm")


def test_a_stopped_job_is_told_to_save(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    with Slurm("cluster=local", tmp_path) as queue:
        task = queue.start(job(tmp_path, 1, 10_000, 0.02), tmp_path / "logs" / "a.txt")
        wait_until(lambda: (tmp_path / "seed_1" / "metrics.jsonl").exists(), 60)
        task.stop()
        wait_until(lambda: task.code() is not None, 60)
    assert task.code() == 143
    before = (tmp_path / "seed_1" / "metrics.jsonl").stat().st_size
    time.sleep(0.5)
    assert (tmp_path / "seed_1" / "metrics.jsonl").stat().st_size == before


def test_without_slurm_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="SLURM cannot be used from here"), Slurm("", tmp_path):
        pass


@pytest.mark.parametrize(
    ("on", "message"),
    [
        ("slurm:partition", "write NAME=VALUE"),
        ("slurm:timeout_min=soon", "timeout_min must be a number, got 'soon'"),
        ("moon", "--on=moon: write ray:auto"),
        ("ray", "--on=ray: write ray:auto"),
    ],
)
def test_wrong_places_are_one_line(tmp_path: Path, on: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        launcher(on, tmp_path)
