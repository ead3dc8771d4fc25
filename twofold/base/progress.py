"""How a run shows where it is."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """What a person sees of a run."""

    def start(self, done: int, total: int) -> None: ...
    def update(self, done: int, speed: float, last_return: float) -> None: ...
    def finish(self) -> None: ...


class Quiet:
    """Nothing: for pipes, files and tests."""

    def start(self, done: int, total: int) -> None:
        """Nothing to show."""

    def update(self, done: int, speed: float, last_return: float) -> None:
        """Nothing to show."""

    def finish(self) -> None:
        """Nothing to end."""
