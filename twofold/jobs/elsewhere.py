"""What runs on another machine: the check that it is like this one, and the command itself."""

from __future__ import annotations

import os
import platform
import socket
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from twofold.base.errors import UserError
from twofold.base.regular import open_log, read_regular
from twofold.jobs.launchers import ended, start_child
from twofold.store import files
from twofold.store.lock import BEAT_LIMIT, holder
from twofold.store.provenance import versions

TOKEN = ".shared"  # the file that every machine must see in the folder of the runs
UNLIKE = 3  # exit code of a job whose machine is unlike the one that sent it


@dataclass(frozen=True)
class Facts:
    """What must be the same on every machine for the same bytes, and whether the folder is shared."""

    host: str
    python: str
    packages: dict[str, str]
    token: str  # what the file of the coordinator holds, as seen from here


@dataclass(frozen=True)
class Order:
    """A command with all that it needs on another machine."""

    argv: tuple[str, ...]
    folder: str  # of the run
    log: str
    cwd: str
    facts: Facts


def facts(token_file: str) -> Facts:
    """This machine, as a job would find it."""
    try:
        token = read_regular(Path(token_file), 1_000).decode(errors="replace")
    except UserError:
        token = ""
    return Facts(socket.gethostname(), platform.python_version(), versions(), token)


def difference(here: Facts, there: Facts) -> str:
    """Why a machine cannot run a job of ours, or nothing."""
    if there.token != here.token:
        return f"{there.host} does not see the folder of the runs: put it on storage that all machines share"
    if there.python != here.python:
        return f"{there.host} has Python {there.python}, {here.host} {here.python}: results would differ"
    for name in sorted(here.packages.keys() | there.packages.keys()):
        ours, theirs = here.packages.get(name, "none"), there.packages.get(name, "none")
        if ours != theirs:
            return (
                f"{there.host} has {name} {theirs}, {here.host} {ours}: install the same versions everywhere"
            )
    return ""


class Errand:
    """A command on its way on another machine."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.child: subprocess.Popen[bytes] | None = None

    def carry_out(self) -> int:
        """Run the command to its end; its exit code. Whatever interrupts this asks the command to save and stop."""
        order = self.order
        here = facts(str(Path(order.log).parent.parent / TOKEN))
        with open_log(Path(order.log)) as log:
            if problem := difference(order.facts, here):
                log.write(f"twofold: {problem}\n".encode())
                return UNLIKE
            _wait_for_silence(Path(order.folder))
            self.child = start_child(order.argv, log, order.cwd)
        try:
            while not ended(self.child):
                time.sleep(0.05)
            return int(self.child.returncode)
        finally:
            self.stop()

    def stop(self) -> None:
        """Ask a command that still runs to save and stop, and wait for it."""
        if self.child is not None and not ended(self.child):
            with suppress(ProcessLookupError):
                self.child.terminate()
            while not ended(self.child):
                time.sleep(0.02)


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
    return facts(str(path))
