"""Whether a run is finished, running, stopped or failed, and why."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from twofold.base.errors import CheckpointError
from twofold.base.foreign_json import names, read_json
from twofold.store.lock import BEAT_LIMIT

RunState = Literal["finished", "running", "stopped", "failed"]
_LONGEST_REASON = 1_000


@dataclass(frozen=True)
class Said:
    """What a run last said of itself."""

    state: RunState
    reason: str
    host: str
    pid: int
    steps: int


@dataclass(frozen=True)
class Known:
    """What the files of a run tell of its state."""

    folder: Path
    said: Said | None  # None: a run of before state.json
    step: int
    at_its_end: bool


def read_state(path: Path) -> Said:
    """state.json, checked."""
    record = names(read_json(path), path)
    known: dict[object, RunState] = {state: state for state in get_args(RunState)}
    state, reason, host = known.get(str(record.get("state"))), record.get("reason"), record.get("host")
    pid, steps = record.get("pid"), record.get("steps")
    if state is None or not isinstance(reason, str) or not isinstance(host, str):
        raise CheckpointError(f"{path} is damaged: no state, reason or host in it")
    if not isinstance(pid, int) or not isinstance(steps, int):
        raise CheckpointError(f"{path} is damaged: process and steps must be whole numbers")
    return Said(state, reason[:_LONGEST_REASON], host[:200], pid, steps)


def state_now(known: Known, holder: int | None) -> tuple[RunState, str]:
    """The state and its reason; `holder` is the process on this machine that has the lock."""
    if holder is not None:
        return "running", f"process {holder}"
    if known.said is None:
        return _guessed(known)
    said = known.said
    if said.state == "running":
        return _unended(known, said)
    if (
        said.state == "finished" and not known.at_its_end
    ):  # more steps were asked for since, or its test is gone
        return "stopped", f"at step {known.step:,}"
    return said.state, said.reason or ("" if said.state == "finished" else f"at step {known.step:,}")


def _unended(known: Known, said: Said) -> tuple[RunState, str]:
    """A run that began and wrote no end: killed, or alive on another machine."""
    if said.host == socket.gethostname():
        return "stopped", f"killed after step {known.step:,}"
    try:
        silent = time.time() - os.lstat(known.folder / "lock").st_mtime
    except OSError:
        silent = BEAT_LIMIT
    if silent < BEAT_LIMIT:
        return "running", f"process {said.pid} on {said.host}"
    return "stopped", f"no sign of life from {said.host} since step {known.step:,}"


def _guessed(known: Known) -> tuple[RunState, str]:
    """The state of a run that says nothing of it."""
    if known.at_its_end:
        return "finished", ""
    if os.path.lexists(known.folder / "bad_batch.safetensors"):
        return "failed", "a value that is not finite: see bad_batch.safetensors"
    return "stopped", f"at step {known.step:,}"
