"""Stop and resume from the page: a signal to the process that holds the run, a command that resumes it."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

from twofold.base.errors import UserError
from twofold.base.regular import open_to_write
from twofold.lab.runs import RunRecord
from twofold.store.lock import lock_holder


def stop(run: RunRecord) -> int:
    """Ask the process that holds this run's lock to save and stop; its number."""
    holder = lock_holder(run.folder / "lock")
    if holder is None:
        raise UserError("no process is running it")
    try:
        if os.stat(f"/proc/{holder}").st_uid != os.getuid():
            raise UserError(f"process {holder} belongs to another user")
        os.kill(holder, signal.SIGTERM)
    except ProcessLookupError:
        raise UserError("it has just ended") from None
    except OSError as error:
        raise UserError(f"process {holder} cannot be asked: {error.strerror}") from None
    return holder


def resume_command(run: RunRecord) -> list[str]:
    """The command that resumes a run, as a list of words."""
    return ["twofold", "resume", str(run.folder)]


def resume(run: RunRecord) -> subprocess.Popen[bytes]:
    """Go on with a run in a process of its own, which lives on when the page ends."""
    if run.state == "finished":
        raise UserError("it is finished")
    if lock_holder(run.folder / "lock") is not None:
        raise UserError("it is running")
    if "--import" in run.provenance.command:
        # A page never imports somebody's code because a file says so.
        typed = shlex.join([*resume_command(run), "--import=..."])
        raise UserError(f"it needs code of its own: run `{typed}` yourself, with the --import of its command")
    return subprocess.Popen(
        [sys.executable, "-m", "twofold", *resume_command(run)[1:]],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=_log(run.folder),
        start_new_session=True,
    )


def _log(folder: Path) -> int:
    """Where a resumed process complains; nothing is followed."""
    try:
        return open_to_write(folder / "resume.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    except (OSError, UserError):
        return subprocess.DEVNULL
