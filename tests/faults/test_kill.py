"""2. kill -9 at any moment, also inside saving: the same command goes on, little is lost, the end is the same."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest
from digest import digest
from harness import Child, Driver, at, command, leftovers, newest

SAVE_EVERY = 50
MOMENTS = 190  # writes, fsyncs, links and renames of the whole tiny run, about
Straight = tuple[Path, dict[str, str]]


def killed(driver: Driver, folder: Path, chance: random.Random) -> Child | None:
    """One process that is killed inside writing or at a random time; None if it came to the end before."""
    if chance.random() < 0.6:
        code, child = driver.run(command(folder), at("moment", chance.randint(1, MOMENTS), signal.SIGKILL))
        return child if code == -9 else _finished(code, child)
    child = driver.start(command(folder))
    time.sleep(chance.uniform(0, 1.5))
    os.kill(child.pid, signal.SIGKILL)  # its parent has not waited for it yet, so the number is still its own
    code = child.wait()
    return child if code == -9 else _finished(code, child)


def _finished(code: int, child: Child) -> None:
    assert code == 0, child.output()


def kill_again_and_again(driver: Driver, tmp_path: Path, straight: Straight, kills: int, seed: int) -> None:
    """Until so many kills are spent; every run must end with the bytes of the straight run."""
    chance, spent, runs = random.Random(seed), 0, 0
    while spent < kills:
        runs += 1
        folder = tmp_path / f"run{runs}"
        while spent < kills and (child := killed(driver, folder, chance)) is not None:
            spent += 1
            assert child.reached() - newest(folder) <= SAVE_EVERY, child.output()
        code, child = driver.run(command(folder))
        assert code == 0, child.output()
        assert digest(folder) == straight[1], f"after {spent} kills (seed {seed})"
        assert leftovers(folder) == []
        assert (folder / "test.json").read_bytes() == (straight[0] / "test.json").read_bytes()


def test_run_killed_eight_times_ends_with_the_same_bytes(
    driver: Driver, tmp_path: Path, straight: Straight
) -> None:
    kill_again_and_again(driver, tmp_path, straight, kills=8, seed=3)


@pytest.mark.slow
def test_run_killed_a_hundred_times_ends_with_the_same_bytes(
    driver: Driver, tmp_path: Path, straight: Straight
) -> None:
    kill_again_and_again(driver, tmp_path, straight, kills=100, seed=4)


@pytest.mark.slow
def test_kill_at_every_single_moment_of_the_start_and_of_a_save(
    driver: Driver, tmp_path: Path, straight: Straight
) -> None:
    """From the first write of the run directory to the end of its second checkpoint, each moment once."""
    for n in range(1, 50):
        folder = tmp_path / f"moment{n}"
        code, child = driver.run(command(folder), at("moment", n, signal.SIGKILL))
        assert code == -9, child.output()
        code, child = driver.run(command(folder))
        assert code == 0, f"moment {n}: {child.output()}"
        assert digest(folder) == straight[1], f"moment {n}"


def test_kill_while_a_checkpoint_of_the_same_step_is_replaced(
    driver: Driver, tmp_path: Path, straight: Straight
) -> None:
    """A signal saves step 120, the restart is stopped at once in the same step: the first must not be lost."""
    folder = tmp_path / "run"
    # In the update of step 120 the debt is unpaid; the resumed process pays it and saves the same step again.
    code, child = driver.run(command(folder), at("update", 20, signal.SIGTERM))
    assert code == 143, child.output()
    step = newest(folder)
    for moment in range(8, 20):
        code, child = driver.run(
            command(folder), at("update", 1, signal.SIGTERM), at("moment", moment, signal.SIGKILL, after=0)
        )
        assert code in (-9, 143), child.output()
        assert newest(folder) >= step
    code, child = driver.run(command(folder))
    assert code == 0, child.output()
    assert digest(folder) == straight[1]


def test_finished_run_started_again_only_reports(driver: Driver, straight: Straight) -> None:
    before = {p: p.stat().st_mtime_ns for p in straight[0].rglob("*") if p.is_file() and p.name != "lock"}
    code, child = driver.run(command(straight[0]))
    assert code == 0
    assert "never used for choosing" in child.output()
    assert child.reached() == 0
    assert {
        p: p.stat().st_mtime_ns for p in straight[0].rglob("*") if p.is_file() and p.name != "lock"
    } == before


def test_run_killed_in_its_final_test_is_tested_when_started_again(
    driver: Driver, tmp_path: Path, straight: Straight
) -> None:
    folder = tmp_path / "run"
    code, _ = driver.run(command(folder), at("test", 1, signal.SIGKILL))
    assert code == -9 and not (folder / "test.json").exists()
    code, child = driver.run(command(folder))
    assert code == 0, child.output()
    assert child.reached() == 0  # nothing was collected again
    assert digest(folder) == straight[1]
    assert (folder / "test.json").read_bytes() == (straight[0] / "test.json").read_bytes()
