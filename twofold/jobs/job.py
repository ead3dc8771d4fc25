"""What a job is: a command that can be repeated until it is done, and then does nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol


class Job(Protocol):
    """A command with its own directory, whose files say how far it is."""

    @property
    def name(self) -> str:
        """For people and for its log: different for every job of a plan, and fit for a file."""

    @property
    def folder(self) -> Path:
        """Where it works; a process that holds `lock` in it is at it already."""

    @property
    def steps(self) -> int:
        """How many there are to do, of whatever it does."""

    @property
    def argv(self) -> tuple[str, ...]:
        """The command; the first word is a program by its whole path."""

    def reached(self) -> int:
        """How many steps are done."""

    def finished(self) -> bool:
        """True if there is nothing left to do."""
