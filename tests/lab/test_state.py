"""What a run is said to be doing, by what it wrote last and who holds its lock."""

from __future__ import annotations

import json
import os
import socket
import time
from pathlib import Path

import pytest

from twofold.base.errors import CheckpointError
from twofold.lab.state import Known, RunState, Said, read_state, state_now
from twofold.store.lock import BEAT_LIMIT

HERE = socket.gethostname()


def known(folder: Path, state: RunState, reason: str = "", host: str = HERE, over: bool = False) -> Known:
    return Known(folder, Said(state, reason, host, 77, 100), 40, over)


def test_whoever_holds_the_lock_runs(tmp_path: Path) -> None:
    assert state_now(known(tmp_path, "failed", "x"), 5) == ("running", "process 5")


def test_a_run_that_began_here_and_wrote_no_end_was_killed(tmp_path: Path) -> None:
    assert state_now(known(tmp_path, "running"), None) == ("stopped", "killed after step 40")


def test_a_run_on_another_machine_runs_while_it_gives_signs_of_life(tmp_path: Path) -> None:
    (tmp_path / "lock").touch()
    far = known(tmp_path, "running", host="far")
    assert state_now(far, None) == ("running", "process 77 on far")
    os.utime(tmp_path / "lock", (time.time() - BEAT_LIMIT - 1,) * 2)
    assert state_now(far, None) == ("stopped", "no sign of life from far since step 40")


def test_the_reason_is_what_the_run_said(tmp_path: Path) -> None:
    assert state_now(known(tmp_path, "failed", "the disk is full"), None) == ("failed", "the disk is full")
    assert state_now(known(tmp_path, "stopped", "stopped by SIGTERM"), None) == (
        "stopped",
        "stopped by SIGTERM",
    )


def test_a_finished_run_whose_steps_were_raised_or_whose_test_is_gone_is_not_finished(tmp_path: Path) -> None:
    assert state_now(known(tmp_path, "finished", over=True), None) == ("finished", "")
    assert state_now(known(tmp_path, "finished", over=False), None) == ("stopped", "at step 40")


GOOD = {"state": "failed", "reason": "", "host": "", "pid": 1, "steps": 1}


@pytest.mark.parametrize(
    "record", [[], {}, {**GOOD, "state": "dancing"}, {**GOOD, "reason": 7}, {**GOOD, "pid": "1"}]
)
def test_a_damaged_note_is_refused(tmp_path: Path, record: object) -> None:
    (tmp_path / "state.json").write_text(json.dumps(record))
    with pytest.raises(CheckpointError, match="damaged"):
        read_state(tmp_path / "state.json")
