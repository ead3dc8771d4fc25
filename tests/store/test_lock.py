"""One process at a time, on one machine and on several."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from twofold.base.errors import UserError
from twofold.store.lock import BEAT_LIMIT, RunLock


@pytest.fixture
def lock(tmp_path: Path) -> RunLock:
    return RunLock(tmp_path)


def left_by(path: Path, words: str, age: float) -> None:
    path.write_text(words)
    os.utime(path, (time.time() - age,) * 2)


def test_a_second_lock_is_refused_with_the_process_that_has_it(lock: RunLock, tmp_path: Path) -> None:
    lock.take()
    with pytest.raises(UserError, match=f"in use by process {os.getpid()}: stop it first"):
        RunLock(tmp_path).take()
    lock.release()
    RunLock(tmp_path).take()


def test_a_live_process_of_another_machine_is_respected_until_it_falls_silent(lock: RunLock) -> None:
    left_by(lock.path, "77 far.example abcd", age=10)
    with pytest.raises(UserError, match=r"process 77 on far.example \(a sign of life 10 s ago\)"):
        lock.take()
    left_by(lock.path, "77 far.example abcd", age=BEAT_LIMIT + 1)
    lock.take()


def test_a_lock_dated_in_the_future_says_what_to_do(lock: RunLock) -> None:
    left_by(lock.path, "77 far.example abcd", age=-1e8)
    with pytest.raises(
        UserError, match=r"dated 20\d\d-.*, which is to come\): .* if it is dead, remove .*lock"
    ):
        lock.take()


def test_a_lock_of_the_first_format_and_a_damaged_one_are_free(lock: RunLock) -> None:
    for words in (b"123", b"", b"\xff\xfe \x00", b"x" * 5_000):
        lock.path.write_bytes(words)
        lock.take()
        lock.check()
        lock.release()


def test_a_lock_that_another_machine_took_stops_the_first(lock: RunLock) -> None:
    lock.take()
    lock.check()
    lock.path.write_text("88 far.example ffff")  # where flock is not seen by the other
    with pytest.raises(UserError, match="lost its lock"):
        lock.check()
    lock.release()
    assert lock.path.read_text() == "88 far.example ffff"


def test_a_release_frees_the_directory_for_other_machines_too(lock: RunLock) -> None:
    lock.take()
    lock.release()
    assert lock.path.read_bytes() == b""


def test_a_beat_is_the_time_of_the_file(lock: RunLock) -> None:
    lock.take()
    os.utime(lock.path, (0, 0))
    lock.beat()
    assert time.time() - lock.path.stat().st_mtime < 60


@pytest.mark.parametrize("kind", ["link", "folder"])
def test_a_lock_is_a_regular_file_or_refused(lock: RunLock, tmp_path: Path, kind: str) -> None:
    if kind == "link":
        lock.path.symlink_to(tmp_path / "elsewhere")
    else:
        lock.path.mkdir()
    with pytest.raises(UserError, match=r"cannot write|symbolic link: refused"):
        lock.take()
    assert not (tmp_path / "elsewhere").exists()
