"""Jobs of SLURM, by submitit: a job that is preempted saves, is queued again, and continues."""

from __future__ import annotations

import logging
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Protocol

from twofold.base.errors import MissingPackage, UserError
from twofold.base.regular import is_there
from twofold.jobs import elsewhere
from twofold.jobs.elsewhere import Errand, Order
from twofold.jobs.job import Job

_NUMBERS = ("timeout_min", "mem_gb", "cpus_per_task", "gpus_per_node")
_MINUTES = 1_440  # of a job where nothing is said; one that needs more is queued again and goes on
_TIMEOUTS = 1_000  # how often
_KILL_WAIT = 120.0  # seconds in which a queue that said SIGTERM kills the rest; else it was somebody else
_LOOK = 10.0  # seconds between questions to the queue
_OVER = ("CANCELLED", "COMPLETED", "FAILED", "TIMEOUT", "NODE_FAIL", "BOOT_FAIL", "OUT_OF_MEMORY", "DEADLINE")
_CLUSTERS = ("slurm", "local")  # local: submitit's own executor, for trying it out


class Slurm:
    """`slurm:partition=cpu,timeout_min=600`: what sbatch is told."""

    def __init__(self, options: str, folder: Path) -> None:
        self.folder = folder
        self.options = _options(options)

    def __enter__(self) -> Slurm:
        try:
            import submitit
        except ModuleNotFoundError:
            raise MissingPackage("submitit", "slurm", "--on=slurm") from None
        logging.getLogger("submitit").setLevel(
            logging.ERROR
        )  # that there is no accounting; squeue is asked too
        cluster = self.options.pop("cluster", "slurm")
        if cluster not in _CLUSTERS:
            raise UserError(f"--on=slurm:cluster={cluster}: write slurm or local")
        self._real = cluster == "slurm"
        if self._real and shutil.which("sinfo"):
            _refuse_silence()
        self._here = elsewhere.write_token(self.folder)
        try:
            timeouts = {"slurm_max_num_timeout": _TIMEOUTS} if self._real else {}
            self._executor = submitit.AutoExecutor(self.folder / "slurm", cluster=str(cluster), **timeouts)
            known = {k if k in _NUMBERS else f"slurm_{k}": v for k, v in self.options.items()}
            wanted = {"timeout_min": _MINUTES, **(known if self._real else {})}  # submitit's own are five
            self._executor.update_parameters(**wanted)
        except (RuntimeError, NameError, ValueError) as error:
            raise UserError(f"SLURM cannot be used from here: {_first_line(error)}") from None
        return self

    def __exit__(self, *_: object) -> None:
        """Jobs live in SLURM, nothing is held here."""

    def start(self, job: Job, log: Path) -> SlurmTask:
        log.touch()
        _stop_mark(str(log.resolve())).unlink(missing_ok=True)
        order = Order.of(job, log, self._here)
        try:
            queued = self._executor.submit(Preemptible(order))
        except Exception as error:  # submitit raises what sbatch said
            raise UserError(f"SLURM refused a job: {_first_line(error)}") from None
        return SlurmTask(queued, log, partial(_listed, queued.job_id) if self._real else lambda: True)


def _refuse_silence() -> None:
    """A queue that nobody runs is told before anything is sent to it."""
    try:
        found = subprocess.run(
            ["sinfo", "--noheader"], capture_output=True, text=True, timeout=60, check=False
        )
        problem = found.stderr.strip().partition("\n")[0] or "sinfo failed" if found.returncode else ""
    except (OSError, subprocess.TimeoutExpired) as error:
        problem = type(error).__name__
    if problem:
        raise UserError(f"SLURM does not answer ({problem[:200]}): are you on a machine that submits jobs?")


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if "error:" in line]
    return (told or lines or [type(error).__name__])[0][:200]


def _options(text: str) -> dict[str, str | float]:
    found: dict[str, str | float] = {}
    for part in filter(None, text.split(",")):
        name, equals, value = part.partition("=")
        if not equals or not name.isidentifier():
            raise UserError(
                f"--on=slurm:{text}: write NAME=VALUE,NAME=VALUE, such as partition=cpu,timeout_min=600"
            )
        found[name] = _number(name, value) if name in _NUMBERS else value
    return found


def _number(name: str, value: str) -> float:
    try:
        return int(value) if value.isdigit() else float(value)
    except ValueError:
        raise UserError(f"--on=slurm: {name} must be a number, got '{value}'") from None


class Preemptible(Errand):
    """The command, as submitit wants a job that can be sent back into the queue."""

    def __call__(self) -> int:
        code = self.carry_out()
        # SIGTERM came from the queue, which takes the machine away: what is returned now would count as the result.
        until = time.monotonic() + _KILL_WAIT
        while (
            code == 128 + signal.SIGTERM
            and time.monotonic() < until
            and not is_there(_stop_mark(self.order.log))
        ):
            time.sleep(0.2)
        return code

    def wanted(self) -> bool:
        """The signal by which submitit cancels may be ignored; the word of the coordinator is not."""
        return not is_there(_stop_mark(self.order.log))

    def checkpoint(self) -> object:
        """Called before the machine is taken away: save, and ask to be queued again."""
        import submitit

        self.stop()
        return submitit.helpers.DelayedSubmission(Preemptible(self.order))

    __submitit_checkpoint__ = checkpoint  # its name in newer versions


def _stop_mark(log: str) -> Path:
    """What lies beside the log of a job that its coordinator asked to stop."""
    return Path(f"{log}.stop")


class Queued(Protocol):
    """What is used of submitit's jobs."""

    def done(self) -> bool: ...
    def result(self) -> object: ...
    def cancel(self) -> None: ...


class SlurmTask:
    """One job in the queue; `listed` says whether the queue still knows it, where it can be asked."""

    def __init__(self, job: Queued, log: Path, listed: Callable[[], bool] = lambda: True) -> None:
        self._job, self._log, self._asked = job, log, False
        self._listed, self._looked, self._missed = listed, time.monotonic(), 0

    def code(self) -> int | None:
        if not self._job.done() and not self._gone():
            return None
        if self._asked:
            return 128 + signal.SIGTERM
        if not self._job.done():
            return -signal.SIGKILL
        try:
            return int(str(self._job.result()))
        except (
            Exception
        ):  # the job is gone without a result: killed, cancelled by an administrator, out of time
            return -signal.SIGKILL

    def _gone(self) -> bool:
        """True if the queue twice did not know the job; submitit asks every ten minutes, and only accounting."""
        if time.monotonic() - self._looked > _LOOK:
            self._looked = time.monotonic()
            self._missed = 0 if self._listed() else self._missed + 1
        return self._missed >= 2

    def stop(self) -> None:
        self._asked = True
        _stop_mark(str(self._log.resolve())).touch()
        self._job.cancel()


def _listed(job_id: str) -> bool:
    """Whether the queue knows a job that is not over; a queue that does not answer may know it."""
    try:
        command = ["squeue", "--noheader", f"--jobs={job_id}", "--states=all", "--format=%T"]
        found = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return True
    if found.returncode:
        return "Invalid job id" not in found.stderr
    return not found.stdout.strip().startswith(_OVER)
