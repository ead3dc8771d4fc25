"""What runs on another machine: the check that it is like this one, and the command itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from twofold.base.errors import UserError
from twofold.base.regular import is_folder, open_log, read_regular
from twofold.jobs.job import Job
from twofold.jobs.launchers import ended, start_child
from twofold.store import files
from twofold.store.alike import Software, software, unlike
from twofold.store.lock import BEAT_LIMIT, holder

TOKEN = ".shared"  # the file that every machine must see in the folder of the runs
UNLIKE = 3  # exit code of a job whose machine is unlike the one that sent it


_OURS = "TWOFOLD_"  # how the names of the environment's variables begin that change what a command finds


@dataclass(frozen=True)
class Facts:
    """What must be the same on every machine for the same bytes, and whether it sees the folders of the jobs."""

    software: Software
    token: str  # what the file of the coordinator holds, as seen from here
    cwd: bool = True  # whether the folder is there in which the command was given


@dataclass(frozen=True)
class Order:
    """A command with all that it needs on another machine."""

    argv: tuple[str, ...]
    folder: str  # of the run
    log: str
    cwd: str
    facts: Facts
    python: str = ""  # of the one who gives it: elsewhere it may lie in another place
    environment: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, job: Job, log: Path, here: Facts) -> Order:
        """A job as it would run in this process's place."""
        ours = tuple((name, value) for name, value in sorted(os.environ.items()) if name.startswith(_OURS))
        places = str(job.folder.resolve()), str(log.resolve()), os.getcwd()
        return cls(job.argv, *places, here, sys.executable, ours)

    def command(self) -> tuple[str, ...]:
        """The words, with the Python of this machine."""
        same = self.argv[0] == self.python
        return (sys.executable, *self.argv[1:]) if same else self.argv


def facts(token_file: str, cwd: str) -> Facts:
    """This machine, as a job would find it."""
    try:
        token = read_regular(Path(token_file), 1_000).decode(errors="replace")
    except UserError:
        token = ""
    return Facts(software(), token, is_folder(cwd))


def difference(here: Facts, there: Facts) -> str:
    """Why a machine cannot run a job of ours, or nothing."""
    host = there.software.host
    if there.token != here.token:
        return f"{host} does not see the folder of the runs: put it on storage that all machines share"
    if problem := unlike(here.software, there.software):
        return problem
    if not there.cwd:
        return f"{host} does not see the folder from which this was started: start from one that all machines share"
    return ""


class Errand:
    """A command on its way on another machine."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.child: subprocess.Popen[bytes] | None = None

    def carry_out(self) -> int:
        """Run the command to its end; its exit code. Whatever interrupts this asks the command to save and stop."""
        with _interruptible():
            return self._carry_out()

    def _carry_out(self) -> int:
        order = self.order
        here = facts(str(Path(order.log).parent.parent / TOKEN), order.cwd)
        with open_log(Path(order.log)) as log:
            if problem := difference(order.facts, here):
                log.write(f"twofold: {problem}\n".encode())
                return UNLIKE
            _wait_for_silence(Path(order.folder))
            self.child = start_child(order.command(), log, order.cwd, dict(order.environment))
        try:
            while not ended(self.child) and self.wanted():
                time.sleep(0.05)
            self.stop()
            return int(self.child.returncode)
        finally:
            self.stop()

    def wanted(self) -> bool:
        """False where somebody has left word that it shall stop."""
        return True

    def stop(self) -> None:
        """Ask a command that still runs to save and stop, and wait for it."""
        if self.child is not None and not ended(self.child):
            with suppress(ProcessLookupError):
                self.child.terminate()
            while not ended(self.child):
                time.sleep(0.02)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Ray and submitit stop a job by SIGINT, which whatever a script starts with & was told to ignore."""
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    if not ignored or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def carry_out(order: Order) -> int:
    """The errand as one function."""
    return Errand(order).carry_out()


def _wait_for_silence(folder: Path) -> None:
    """A machine that vanished leaves a lock that still looks alive: wait until it has been silent for long enough."""
    until = time.monotonic() + BEAT_LIMIT + 5
    while time.monotonic() < until and holder(folder).alive_elsewhere:
        time.sleep(0.5)


def write_token(folder: Path) -> Facts:
    """Leave a word in the folder of the runs that every machine must be able to read; the facts of this one."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / TOKEN
    files.replace_bytes(path, os.urandom(8).hex().encode())
    return facts(str(path), os.getcwd())
