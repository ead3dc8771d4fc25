"""Where jobs run: processes here, tasks of a Ray cluster, or SLURM jobs. A job is the same command everywhere."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Protocol

from twofold.base.errors import UserError
from twofold.base.regular import open_log
from twofold.jobs.job import Job


class Handle(Protocol):
    """A job that was started."""

    def code(self) -> int | None:
        """How it ended, as a process would say it (negative: killed by a signal); None while it runs."""

    def stop(self) -> None:
        """Ask it to save and stop."""


class Launcher(Protocol):
    """Starts jobs; entered before anything is started, when it refuses what cannot work."""

    def __enter__(self) -> Launcher: ...
    def __exit__(self, *_: object) -> None: ...
    def start(self, job: Job, log: Path) -> Handle: ...


def launcher(on: str, folder: Path) -> Launcher:
    """`here`, `ray:auto`, `ray:HOST:PORT`, `slurm` or `slurm:partition=cpu,timeout_min=600`."""
    kind, _, rest = on.partition(":")
    if kind == "here" and not rest:
        return Processes()
    if kind == "ray" and rest:
        from twofold.jobs.on_ray import RayCluster

        return RayCluster(rest, folder)
    if kind == "slurm":
        from twofold.jobs.on_slurm import Slurm

        return Slurm(rest, folder)
    raise UserError(
        f"--on={on}: write ray:auto, ray:HOST:PORT, slurm, or slurm:partition=NAME,timeout_min=600"
    )


# ---- processes of this machine --------------------------------------------------------------------------------------


class Processes:
    """Children of this process."""

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is held."""

    def start(self, job: Job, log: Path) -> Child:
        with open_log(log) as file:
            return Child(start_child(job.argv, file))


class Child:
    """A process of this machine."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    def code(self) -> int | None:
        return self.process.returncode if ended(self.process) else None

    def stop(self) -> None:
        self.process.terminate()


def start_child(
    argv: Sequence[str],
    log_file: IO[bytes],
    cwd: str | None = None,
    variables: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """A child in a session of its own that is told to stop when this process dies."""
    leash = [sys.executable, "-m", "twofold.jobs.leash", str(os.getpid())]
    environment = {"OMP_NUM_THREADS": "1", **os.environ, **(variables or {})}
    return subprocess.Popen(
        [*leash, *argv],
        stdin=subprocess.DEVNULL,
        stdout=log_file,
        stderr=log_file,
        start_new_session=True,
        env=environment,
        cwd=cwd,
    )


def ended(process: subprocess.Popen[bytes]) -> bool:
    """True if the child is gone; whatever it left in its session goes with it."""
    if process.returncode is None:
        found = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if found is None:
            return False
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)  # before it is reaped its number cannot be anybody else's
        process.wait()
    return True
