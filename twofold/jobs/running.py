"""Runs the jobs of a plan until all are done; can be killed and repeated at any moment.

The state of a plan is the directories of its jobs: nothing else is kept. A job is a command that goes on where it was,
so repeating is always right. Children are told to stop (SIGTERM: they save) when this process ends, however it ends.
"""

from __future__ import annotations

import fcntl
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from twofold.base.errors import UserError
from twofold.base.messages import printable
from twofold.base.regular import is_there, open_regular, open_to_write
from twofold.base.signals import Signals
from twofold.jobs.elsewhere import TOKEN
from twofold.jobs.job import Job
from twofold.jobs.launchers import Handle, Launcher, Processes
from twofold.store.lock import lock_holder

State = Literal["waiting", "running", "done", "stopped", "failed"]
_ERRORS_AT_A_STEP = 2  # an error that comes back at the same step will come back again
_KILLS_AT_A_STEP = 5  # killed by the system or by hand: may be chance, for longer
_TICK = 0.5  # seconds between looks
_SILENCE = (
    30.0  # seconds in which a job tells of the end that its files tell of; one that was cut off never does
)
_LOG_TAIL = 4_000


@dataclass
class Progress:
    """Where one job is."""

    job: Job
    state: State = "waiting"
    step: int = 0
    speed: float = 0.0  # steps a second, since it was started here
    message: str = ""
    handle: Handle | None = None
    ends: list[tuple[int, bool]] = field(default_factory=list)  # step of each end, and whether it was killed
    _began: tuple[float, int] = (0.0, 0)
    _whole: float | None = None  # when its files first said that it is done


More = Callable[[Sequence[Progress]], Sequence[Job]]  # jobs that come up while others end


class View(Protocol):
    """Shows the progress to a person."""

    def __enter__(self) -> View: ...
    def __exit__(self, *_: object) -> None: ...
    def show(self, jobs: Sequence[Progress]) -> None: ...


@dataclass(frozen=True)
class Outcome:
    """How it ended: all jobs, and the signal that stopped it, if one did."""

    jobs: tuple[Progress, ...]
    signal: int | None = None

    @property
    def failed(self) -> list[Progress]:
        return [p for p in self.jobs if p.state == "failed"]

    @property
    def done(self) -> bool:
        return all(p.state == "done" for p in self.jobs)


def run_jobs(
    jobs: Sequence[Job],
    folder: Path,
    view: View,
    *,
    limit: int = 2,
    tick: float = _TICK,
    launcher: Launcher | None = None,
    more: More | None = None,
) -> Outcome:
    """Run every job that is not done, `limit` at a time; returns when nothing is left to do, or after a signal."""
    if limit < 1:
        raise UserError(f"--jobs must be at least 1, got {limit}")
    with _made(folder), _only_one(folder), launcher or Processes() as chosen, Signals() as stop, view:
        runner = _Runner([Progress(job) for job in jobs], folder / "logs", limit, chosen)
        try:
            runner.look()
            while runner.busy(more) and not stop():
                runner.tick()
                view.show(runner.jobs)
                _sleep(tick, stop)
        finally:
            runner.stop()
            view.show(runner.jobs)
        return Outcome(tuple(runner.jobs), stop.received)


def try_out(launcher: Launcher, folder: Path) -> None:
    """Refuse a place that cannot run jobs, before anything long is prepared for it."""
    with _made(folder), launcher:
        pass


@contextmanager
def _made(folder: Path) -> Iterator[None]:
    """The folder, made if absent; where no job could begin, because a cluster is not there, it is gone again."""
    new = [place for place in (folder, *folder.parents) if not is_there(place)]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except UserError:
        for name in ("experiment.lock", TOKEN) if new else ():
            (folder / name).unlink(missing_ok=True)
        with suppress(OSError):  # not empty: something began
            for place in new:
                place.rmdir()
        raise


@contextmanager
def _only_one(folder: Path) -> Iterator[None]:
    """Refuse a second process on the same experiment; the lock of a dead one is free by itself."""
    try:
        handle = open_to_write(folder / "experiment.lock", os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise UserError(f"cannot write {folder / 'experiment.lock'}: {error.strerror}") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise UserError(f"another process runs the jobs in {folder}: stop it first") from None
    try:
        yield
    finally:
        os.close(handle)


def _sleep(seconds: float, stop: Callable[[], bool]) -> None:
    until = time.monotonic() + seconds
    while not stop() and (left := until - time.monotonic()) > 0:
        time.sleep(min(left, 0.1))


class _Runner:
    """The children and what is known of each job."""

    def __init__(self, jobs: list[Progress], logs: Path, limit: int, launcher: Launcher) -> None:
        self.jobs, self.logs, self.limit, self.launcher = jobs, logs, limit, launcher

    def look(self) -> None:
        """Which jobs are done already: their directories say so."""
        for progress in self.jobs:
            progress.step = progress.job.reached()
            if progress.job.finished():
                progress.state = "done"

    def busy(self, more: More | None) -> bool:
        """True while there is something to do, now that more was asked for."""
        self.jobs += [Progress(job) for job in more(self.jobs)] if more else []
        return any(p.state in ("waiting", "running") for p in self.jobs)

    def tick(self) -> None:
        """Notice what ended, start what may start, see how far the others are."""
        for progress in self.jobs:
            if progress.state == "running":
                self._watch(progress)
        free = self.limit - sum(p.state == "running" for p in self.jobs)
        for progress in [p for p in self.jobs if p.state == "waiting"]:
            if free <= 0:
                break
            free -= self._start(progress)

    def _start(self, progress: Progress) -> bool:
        """Start a job, unless a process of before still holds its directory: then it is asked again later."""
        if holder := lock_holder(progress.job.folder / "lock"):
            progress.message = f"process {holder} still has it"
            return False
        self.logs.mkdir(exist_ok=True)
        progress.handle = self.launcher.start(progress.job, _log_path(self.logs, progress.job))
        progress.state, progress.message = "running", ""
        progress.step = progress.job.reached()
        progress._began = (time.monotonic(), progress.step)
        return True

    def _watch(self, progress: Progress) -> None:
        step = progress.job.reached()
        began, first = progress._began
        if step != progress.step and step > first:
            progress.speed = (step - first) / (time.monotonic() - began)
        progress.step = step
        assert progress.handle is not None
        if (code := progress.handle.code()) is not None:
            self._end(progress, code)
        elif progress.step >= progress.job.steps and self._silent(progress):
            self._end(progress, 0)

    def _silent(self, progress: Progress) -> bool:
        """True if the files of a job have said for long that it is done."""
        if not progress.job.finished():
            return False
        progress._whole = progress._whole or time.monotonic()
        return time.monotonic() - progress._whole > _SILENCE

    def _end(self, progress: Progress, code: int) -> None:
        """Done; or stopped by somebody; or to be repeated; or failed for good."""
        progress.handle, progress.speed = None, 0.0
        over = code == 0 or progress.job.finished()  # some end with a code that is about their results
        progress.message = "" if over else last_words(_log_path(self.logs, progress.job))
        if over:
            progress.state = "done"
        elif code in (128 + signal.SIGTERM, 128 + signal.SIGINT, -signal.SIGTERM, -signal.SIGINT):
            progress.state, progress.message = (
                "stopped",
                "it was stopped from outside; repeat the command to continue",
            )
        else:
            killed = code < 0
            progress.ends.append((progress.step, killed))
            often = _KILLS_AT_A_STEP if killed else _ERRORS_AT_A_STEP
            again = progress.ends.count((progress.step, killed)) < often
            progress.state = "waiting" if again else "failed"
            if killed:
                progress.message = f"killed by {signal.Signals(-code).name}"

    def stop(self) -> None:
        """Ask all children to save and stop, and wait for them."""
        running = [(p, p.handle) for p in self.jobs if p.handle is not None]
        for _, handle in running:
            handle.stop()
        for progress, handle in running:
            while handle.code() is None:
                time.sleep(0.02)
            progress.handle, progress.state = None, "stopped"
            progress.step = progress.job.reached()


def _log_path(logs: Path, job: Job) -> Path:
    return logs / f"{job.name.replace(' ', '_')}.txt"


def last_words(path: Path) -> str:
    """The last line that a child wrote: the reason, if it failed."""
    try:
        with open_regular(path) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _LOG_TAIL))
            lines = file.read(_LOG_TAIL).decode(errors="replace").strip().splitlines()
    except (OSError, UserError):
        return ""
    return printable(lines[-1].strip()) if lines else ""
