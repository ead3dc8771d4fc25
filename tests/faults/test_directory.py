"""10. One process for each run directory, and a loud error wherever nothing can be saved."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from digest import digest
from harness import Driver, command, newest

Straight = tuple[Path, dict[str, str]]
LONG = ("trainer.steps=1_000_000", "trainer.warmup=1_000_000", "trainer.eval_every=1_000_000")


def ended(driver: Driver, folder: Path, *settings: str) -> tuple[int, str]:
    code, child = driver.run(command(folder, *settings))
    assert "Traceback" not in child.output()
    return code, child.output()


def test_second_process_is_refused_and_the_first_goes_on(
    driver: Driver, tmp_path: Path, straight: Straight
) -> None:
    folder = tmp_path / "run"
    first = driver.start(command(folder, *LONG))
    first.wait_for_step(60)
    code, output = ended(driver, folder, *LONG)
    assert code == 2 and f"is in use by process {first.pid}" in output
    os.kill(first.pid, signal.SIGTERM)
    assert first.wait() == 143
    assert newest(folder) == first.reached()


def test_lock_of_a_dead_process_is_taken_over(driver: Driver, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    first = driver.start(command(folder, *LONG))
    first.wait_for_step(60)
    os.kill(first.pid, signal.SIGKILL)
    assert first.wait() == -9
    assert (folder / "lock").read_text().split()[0] == str(first.pid)
    second = driver.start(command(folder, *LONG))
    second.wait_for_step(first.reached() + 60)
    os.kill(second.pid, signal.SIGTERM)
    assert second.wait() == 143
    assert (folder / "lock").read_text() == ""  # free, for other machines too


def test_other_settings_in_the_same_directory_are_refused(driver: Driver, straight: Straight) -> None:
    code, output = ended(driver, straight[0], "learner.gamma=0.5")
    assert code == 2 and "holds a run with other settings (learner.gamma: 0.99 there, 0.5 now)" in output
    assert digest(straight[0]) == straight[1]


def test_directory_that_is_not_a_run_is_not_touched(driver: Driver, tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("x")
    code, output = ended(driver, tmp_path / "thesis")
    assert code == 2 and "is not a run directory: nothing was touched" in output
    assert [p.name for p in (tmp_path / "thesis").iterdir()] == ["chapter.tex"]


def test_file_in_place_of_the_directory_is_a_loud_error(driver: Driver, tmp_path: Path) -> None:
    (tmp_path / "run").write_text("x")
    code, output = ended(driver, tmp_path / "run")
    assert code == 2 and "cannot make the run directory" in output
    code, output = ended(driver, tmp_path / "run" / "below")
    assert code == 2 and "cannot make the run directory" in output


def test_vanished_directory_stops_the_run(driver: Driver, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    child = driver.start(command(folder, *LONG))
    child.wait_for_step(60)
    shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)  # a file may have been written meanwhile
    assert child.wait() == 2
    assert "training stops" in child.output()  # in the middle of a save the words before it can be others
    assert str(folder) in child.output().splitlines()[-1] and "Traceback" not in child.output()


def test_vanished_lock_stops_the_run(driver: Driver, tmp_path: Path) -> None:
    """Another process could hold a new lock of the same name."""
    folder = tmp_path / "run"
    child = driver.start(command(folder, *LONG))
    child.wait_for_step(60)
    (folder / "lock").unlink()
    assert child.wait() == 2
    assert "lost its lock" in child.output()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(place)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"cannot mount a file system here: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def read_only(disk: Path) -> None:
    """From now on nothing can be written; files that are open for writing would prevent it, so wait for a gap."""
    end = time.monotonic() + 30
    while subprocess.run(
        ["mount", "-o", "remount,ro", str(disk)], capture_output=True, check=False
    ).returncode:
        assert time.monotonic() < end
        time.sleep(0.01)


def test_read_only_directory_is_a_loud_error(driver: Driver, disk: Path) -> None:
    read_only(disk)
    code, output = ended(driver, disk / "run")
    assert code == 2 and "cannot make the run directory" in output and "Read-only" in output


def test_run_that_became_read_only_is_not_gone_on_with_silently(
    driver: Driver, disk: Path, straight: Straight
) -> None:
    shutil.copytree(straight[0], disk / "run")
    (disk / "run" / "test.json").unlink()
    read_only(disk)
    code, output = ended(driver, disk / "run")
    assert code == 2 and "Read-only" in output


def test_checkpoints_that_cannot_be_written_stop_the_run(driver: Driver, tmp_path: Path) -> None:
    """A file in place of the folder: what a lost permission is for everybody but root."""
    folder = tmp_path / "run"
    child = driver.start(command(folder, *LONG, "trainer.save_every=100_000"))
    child.wait_for_step(20)
    (folder / "checkpoints").write_text("x")
    os.kill(child.pid, signal.SIGTERM)
    assert child.wait() == 2
    assert "cannot save into" in child.output() and "Traceback" not in child.output()
