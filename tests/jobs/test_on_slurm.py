"""Jobs by submitit's local executor, which preempts as SLURM does."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

import pytest

from twofold.base.errors import UserError
from twofold.jobs import on_slurm
from twofold.jobs.launchers import launcher
from twofold.jobs.on_slurm import Preemptible, Slurm, SlurmTask

from .test_elsewhere import order
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


def test_without_slurm_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="SLURM cannot be used from here"), Slurm("", tmp_path):
        pass


def test_a_queue_that_does_not_answer_is_one_line_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("srun", "sinfo"):
        (tmp_path / name).write_text(
            "#!/bin/sh\necho 'slurm_load_partitions: Unable to contact' >&2; exit 1\n"
        )
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    with (
        pytest.raises(UserError, match=r"does not answer \(slurm_load_partitions: Unable to contact\)"),
        Slurm("", tmp_path),
    ):
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


# ---- what a real queue does, without one ---------------------------------------------------------------------------


class Lost:
    """A job of submitit that never has a result."""

    cancelled = False

    def done(self) -> bool:
        return False

    def result(self) -> object:
        raise AssertionError("there is none")

    def cancel(self) -> None:
        self.cancelled = True


def test_a_job_that_the_queue_does_not_know_any_more_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_slurm, "_LOOK", -1.0)
    known = [True, False, True, False, False]
    task = SlurmTask(Lost(), tmp_path / "log", lambda: known.pop(0))
    assert [task.code() for _ in range(5)] == [None, None, None, None, -9]


def test_a_job_that_was_asked_to_stop_has_stopped_when_it_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_slurm, "_LOOK", -1.0)
    job = Lost()
    task = SlurmTask(job, tmp_path / "log", lambda: False)
    task.stop()
    assert job.cancelled and task.code() is None and task.code() == 143


@pytest.mark.parametrize(
    ("script", "known"),
    [
        ("echo RUNNING", True),
        ("echo PENDING", True),
        ("echo COMPLETING", True),
        ("echo CANCELLED", False),
        ("echo TIMEOUT", False),
        ("echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1", False),
        ("echo 'Unable to contact slurm controller' >&2; exit 1", True),
    ],
)
def test_the_queue_is_asked_whether_it_knows_a_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, known: bool
) -> None:
    (tmp_path / "squeue").write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / "squeue").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert on_slurm._listed("7") is known


def test_a_sigterm_of_the_queue_is_no_result_and_one_of_ours_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = order(tmp_path, sys.executable, "-c", "raise SystemExit(143)")
    waited: list[float] = []
    monkeypatch.setattr(on_slurm, "_KILL_WAIT", 0.5)
    monkeypatch.setattr(on_slurm.time, "sleep", waited.append)
    assert Preemptible(asked)() == 143
    assert 0.2 in waited
    on_slurm._stop_mark(asked.log).touch()
    waited.clear()
    assert Preemptible(asked)() in (143, -signal.SIGTERM) and 0.2 not in waited  # stopped as soon as it began
