"""Jobs of SLURM, by submitit: a job that is preempted saves, is queued again, and continues."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Protocol

from twofold.base.errors import MissingPackage, UserError
from twofold.lab import elsewhere
from twofold.lab.elsewhere import Errand, Order
from twofold.lab.experiment import Job

_NUMBERS = ("timeout_min", "mem_gb", "cpus_per_task", "gpus_per_node")
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
        cluster = self.options.pop("cluster", "slurm")
        if cluster not in _CLUSTERS:
            raise UserError(f"--on=slurm:cluster={cluster}: write slurm or local")
        self._here = elsewhere.write_token(self.folder)
        try:
            self._executor = submitit.AutoExecutor(folder=self.folder / "slurm", cluster=str(cluster))
            known = {k if k in _NUMBERS else f"slurm_{k}": v for k, v in self.options.items()}
            if cluster == "slurm":
                self._executor.update_parameters(**known)
            else:
                self._executor.update_parameters(timeout_min=int(self.options.get("timeout_min", 600)))
        except (RuntimeError, NameError, ValueError) as error:
            raise UserError(f"SLURM cannot be used from here: {error}") from None
        return self

    def __exit__(self, *_: object) -> None:
        """Jobs live in SLURM, nothing is held here."""

    def start(self, job: Job, log: Path) -> SlurmTask:
        log.touch()
        order = Order(job.argv, str(job.folder.resolve()), str(log.resolve()), os.getcwd(), self._here)
        return SlurmTask(self._executor.submit(Preemptible(order)))


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
        return self.carry_out()

    def checkpoint(self) -> object:
        """Called before the machine is taken away: save, and ask to be queued again."""
        import submitit

        self.stop()
        return submitit.helpers.DelayedSubmission(Preemptible(self.order))

    __submitit_checkpoint__ = checkpoint  # its name in newer versions


class Queued(Protocol):
    """What is used of submitit's jobs."""

    def done(self) -> bool: ...
    def result(self) -> object: ...
    def cancel(self) -> None: ...


class SlurmTask:
    """One job in the queue."""

    def __init__(self, job: Queued) -> None:
        self._job, self._asked = job, False

    def code(self) -> int | None:
        if not self._job.done():
            return None
        if self._asked:
            return 128 + signal.SIGTERM
        try:
            return int(str(self._job.result()))
        except (
            Exception
        ):  # the job is gone without a result: killed, cancelled by an administrator, out of time
            return -signal.SIGKILL

    def stop(self) -> None:
        self._asked = True
        self._job.cancel()
