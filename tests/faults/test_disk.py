"""6. A full disk: the last good checkpoint still loads, the message has the bytes, and saving works again later."""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from digest import digest
from harness import Driver, command, newest

from twofold.assemble import assemble
from twofold.base.errors import UserError
from twofold.core.trainer import Trainer
from twofold.settings import config
from twofold.store import files
from twofold.store.jsonlines import JsonLines
from twofold.store.run import Run

Straight = tuple[Path, dict[str, str]]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 24 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(place)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"cannot mount a small file system here: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def fill(disk: Path, leave: int) -> Path:
    """Take the disk up to the last `leave` bytes."""
    path = disk / "filler"
    with open(path, "wb") as file:
        os.posix_fallocate(file.fileno(), 0, shutil.disk_usage(disk).free - leave)
    return path


def trainer(folder: Path, **more: Any) -> Trainer:
    trained = {
        "steps": 300,
        "warmup": 50,
        "eval_every": 100,
        "eval_episodes": 1,
        "log_every": 10,
        "save_every": 20,
    }
    resolved = config.load(
        "td3",
        "pendulum",
        networks={"actor_hidden": [8], "critic_hidden": [8]},
        replay={"batch_size": 16, "buffer_size": 300},
        trainer={**trained, "tensorboard": False, **more},
    )
    return assemble(Run.create(folder, resolved, "test")).trainer


def at_steps(made: Trainer, actions: dict[int, Any]) -> None:
    """Do something when the collector is about to make these steps."""
    collect = made._collect

    def collected() -> None:
        actions.get(made.steps, lambda: None)()
        collect()

    made._collect = collected  # type: ignore[method-assign]


def test_training_goes_on_over_a_full_disk_and_saves_when_there_is_space(
    small_disk: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    quiet = trainer(tmp_path / "quiet")
    quiet.train()
    quiet.keeper.run.close()
    made, held = trainer(small_disk / "run"), []
    seen: dict[str, Any] = {}

    def look() -> None:
        seen["newest"] = newest(small_disk / "run")
        seen["state"] = made.keeper.run.checkpoints.read(seen["newest"])[0]

    free = {130: lambda: held.append(fill(small_disk, 8192)), 230: look, 235: lambda: held[0].unlink()}
    at_steps(made, free)
    with caplog.at_level(logging.ERROR):
        made.train()
    made.keeper.run.close()
    assert (
        seen["newest"] == 120 and int(seen["state"]["collector"]["steps"]) == 120
    )  # the last good one still loads
    failed = [r.getMessage() for r in caplog.records if "checkpoint not saved" in r.getMessage()]
    assert len(failed) == 5  # at 140, 160, 180, 200, 220
    needed = re.search(r"disk full: .* needs about ([\d,]+) bytes, ([\d,]+) are free", failed[0])
    assert needed is not None and int(needed[1].replace(",", "")) > int(needed[2].replace(",", ""))
    assert newest(small_disk / "run") == 300
    assert digest(small_disk / "run") == digest(
        tmp_path / "quiet"
    )  # metrics and best policy too: nothing was lost


def test_full_disk_at_the_end_says_so_and_the_last_checkpoint_goes_on(
    small_disk: Path, tmp_path: Path
) -> None:
    made = trainer(small_disk / "run")
    held: list[Path] = []
    at_steps(made, {290: lambda: held.append(fill(small_disk, 4096))})
    with pytest.raises(UserError, match=r"disk full: .* needs about [\d,]+ bytes"):
        made.train()
    made.keeper.run.close()
    held[0].unlink()
    again = trainer(small_disk / "run")
    again.train()
    again.keeper.run.close()
    quiet = trainer(tmp_path / "quiet")
    quiet.train()
    quiet.keeper.run.close()
    assert digest(small_disk / "run") == digest(tmp_path / "quiet")


def test_file_size_limit_stops_cleanly_and_harms_no_checkpoint(
    driver: Driver, tmp_path: Path, straight: Straight
) -> None:
    folder = tmp_path / "run"
    code, child = driver.run(command(folder), rlimit={"RLIMIT_FSIZE": 9000})
    assert code == 2, child.output()
    assert "disk full" in child.output() and "Traceback" not in child.output()
    code, child = driver.run(command(folder))
    assert code == 0, child.output()
    assert digest(folder) == straight[1]


def test_run_that_cannot_fit_is_refused_before_it_starts(small_disk: Path) -> None:
    fill(small_disk, 2 << 20)
    made = trainer(small_disk / "run")
    with pytest.raises(
        UserError, match=r"disk too full: checkpoints in .* need up to [\d,]+ bytes, [\d,]+ are free"
    ):
        made.train()
    made.keeper.run.close()
    assert made.steps == 0 and made.keeper.run.checkpoints.steps() == []


def test_log_keeps_lines_in_memory_while_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write that stops in the middle of a line is finished later, not repeated."""
    log, write, room = JsonLines(tmp_path / "log"), os.write, [7]

    def short(handle: int, content: bytes) -> int:
        if room[0] == 0:
            raise OSError(28, "No space left on device")
        done = write(handle, content[: room[0]])
        room[0] -= done
        return done

    monkeypatch.setattr(os, "write", short)
    log.append({"step": 1})
    log.append({"step": 2})
    assert (tmp_path / "log").read_bytes() == b'{"step"'
    assert log.read() == []
    with pytest.raises(OSError, match="No space"):
        log.length()  # a checkpoint must not be made before the lines are on the disk
    room[0] = 1000
    assert log.length() == 24
    assert log.read() == [{"step": 1}, {"step": 2}]


def test_replacing_a_file_on_a_full_disk_keeps_the_old_one(small_disk: Path) -> None:
    path = small_disk / "policy"
    files.replace_bytes(path, b"good")
    fill(small_disk, 0)
    with (
        pytest.raises(files.DiskFull, match=r"needs about 1,000,000 bytes"),
        files.disk_full_explained(small_disk, 1_000_000),
    ):
        files.replace_bytes(path, b"x" * 1_000_000)
    assert path.read_bytes() == b"good"
    assert sorted(p.name for p in small_disk.iterdir()) == ["filler", "policy"]


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnhandledThreadExceptionWarning"
)  # of TensorBoard's own thread
def test_tensorboard_on_a_full_disk_does_not_stop_training(small_disk: Path) -> None:
    made = trainer(small_disk / "run", tensorboard=True, log_every=5)
    held: list[Path] = []
    at_steps(made, {100: lambda: held.append(fill(small_disk, 0)), 200: lambda: held[0].unlink()})
    made.train()
    made.keeper.run.close()
    assert newest(small_disk / "run") == 300
    assert len(made.keeper.run.metrics.read()) == 61
