"""The standard streams of a command: always there, and free of anything that a terminal would obey."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from twofold.base.messages import printable


class _Page(io.TextIOBase):
    """Standard output of letters alone: no name of a file or of a stranger commands the terminal."""

    def __init__(self, below: io.TextIOWrapper) -> None:
        self._below = below

    def write(self, text: str) -> int:
        self._below.write(printable(text, sys.maxsize))
        return len(text)

    def flush(self) -> None:
        self._below.flush()

    def fileno(self) -> int:
        return self._below.fileno()

    def isatty(self) -> bool:
        return self._below.isatty()

    @property
    def encoding(self) -> str:  # type: ignore[override]  # typeshed declares a variable
        return self._below.encoding


@contextmanager
def printable_output() -> Iterator[None]:
    """Until the end, what is printed has no control characters, and a letter that the terminal lacks is no error."""
    before = sys.stdout
    if not isinstance(before, io.TextIOWrapper):  # a notebook's, say
        yield
        return
    errors = before.errors
    before.reconfigure(errors="backslashreplace")
    sys.stdout = page = _Page(before)
    try:
        yield
        page.flush()
    finally:
        sys.stdout = before
        with suppress(OSError):  # nobody reads it any more: what was wrong before that is to be told
            before.reconfigure(errors=errors)


def fill_in_streams() -> None:
    """Silent streams in place of those that were closed: no file that is opened later gets their numbers."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)


def nobody_reads() -> None:
    """Let what is still to be printed go nowhere: the pipe behind standard output is gone."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
