"""`python -m twofold.jobs.leash PARENT COMMAND...`: become the command, and be told to stop when the parent dies.

It is a program of its own because code between fork and exec may not be run in a process that has threads.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of linux/prctl.h


def main(argv: list[str]) -> None:
    """Ask the system for SIGTERM at the parent's death, then become the command."""
    parent, command = int(argv[0]), argv[1:]
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_SET_DEATH_SIGNAL, signal.SIGTERM, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
    if os.getppid() != parent:  # it died before we asked
        raise SystemExit(143)
    os.execv(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
