"""A real queue: one training of two seeds, one of them sent back into the queue in the middle; the same bytes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from digest import digest
from lab.test_conduct import TINY
from slurm_here import slurm, why_not

from twofold.store.records import last_step

pytest.importorskip("submitit", reason="SLURM needs the extra `slurm`")
pytestmark = [
    pytest.mark.scale,
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "-"),
    pytest.mark.xdist_group("slurm"),
]
STEPS = 3_000


@pytest.fixture(scope="module")
def queue() -> Iterator[dict[str, str]]:
    with slurm() as environment:
        yield environment


def said(environment: dict[str, str], *command: str) -> str:
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def train(folder: Path, environment: dict[str, str], on: str) -> subprocess.Popen[bytes]:
    settings = {**TINY, "trainer.steps": STEPS}
    words = [f"{key}={json.dumps(value)}" for key, value in settings.items()]
    command = [
        sys.executable,
        "-m",
        "twofold",
        "train",
        "--env-config=pendulum",
        "--seeds=1..2",
        f"--runs={folder}",
    ]
    return subprocess.Popen([*command, f"--on={on}", "--jobs=2", *words], env=environment)


def wait_for(claim: object, process: subprocess.Popen[bytes], seconds: float = 120.0) -> None:
    until = time.monotonic() + seconds
    while not claim():  # type: ignore[operator]
        assert time.monotonic() < until and process.poll() is None
        time.sleep(0.05)


def runs_in(folder: Path) -> list[Path]:
    return sorted(path.parent for path in folder.rglob("config.json"))


def test_a_requeued_job_ends_in_the_bytes_of_a_run_here(queue: dict[str, str], tmp_path: Path) -> None:
    process = train(tmp_path / "far", queue, "slurm:partition=cpu")
    wait_for(lambda: any(500 < last_step(run) < STEPS for run in runs_in(tmp_path / "far")), process)
    first = said(queue, "squeue", "-h", "-t", "R", "-o", "%i").split()[0]
    said(queue, "scontrol", "requeue", first)
    wait_for(lambda: "Restarts=1" in said(queue, "scontrol", "show", "job", first), process)
    assert process.wait(300) == 0
    assert train(tmp_path / "near", dict(os.environ), "here").wait(300) == 0
    far, near = runs_in(tmp_path / "far"), runs_in(tmp_path / "near")
    assert len(far) == 2 and [digest(run) for run in far] == [digest(run) for run in near]


def test_a_cancelled_job_is_noticed_and_started_again(queue: dict[str, str], tmp_path: Path) -> None:
    process = train(tmp_path / "far", queue, "slurm:partition=cpu")
    wait_for(lambda: any(200 < last_step(run) < STEPS for run in runs_in(tmp_path / "far")), process)
    said(queue, "scancel", *said(queue, "squeue", "-h", "-t", "R", "-o", "%i").split())
    assert process.wait(300) == 0
    assert [last_step(run) for run in runs_in(tmp_path / "far")] == [STEPS, STEPS]


def test_a_stopped_coordinator_leaves_no_job_in_the_queue(queue: dict[str, str], tmp_path: Path) -> None:
    process = train(tmp_path / "far", queue, "slurm:partition=cpu")
    wait_for(lambda: any(last_step(run) > 100 for run in runs_in(tmp_path / "far")), process)
    process.terminate()
    assert process.wait(120) == 143
    wait_for(lambda: not said(queue, "squeue", "-h", "-o", "%i").strip(), process)


def test_a_partition_that_is_not_there_is_one_line(queue: dict[str, str], tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "twofold",
        "train",
        "--env-config=pendulum",
        "--seeds=1",
        f"--runs={tmp_path}",
    ]
    found = subprocess.run(
        [*command, "--on=slurm:partition=moon"], env=queue, capture_output=True, text=True, check=False
    )
    assert found.returncode == 2
    assert "invalid partition" in found.stderr.lower() and "Traceback" not in found.stderr
