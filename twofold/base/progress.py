"""How a person sees where long work is; nothing is shown unless somebody put up a screen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol, TypeVar, runtime_checkable

Element = TypeVar("Element")


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


@dataclass(frozen=True)
class Standing:
    """Where a training is."""

    step: int
    learning: bool  # False in the warm-up, whose speed says nothing about the rest
    last: float  # mean return of the last evaluation, NaN before the first
    best: float | None  # the best of them


@runtime_checkable
class Watching(Protocol):
    """Progress that looks by the clock, so that a slow world moves its bar as often as a fast one."""

    def watch(self, look: Callable[[], Standing]) -> None: ...


# ---- long work of any kind ----------------------------------------------------------------------------------------


class Tell(Protocol):
    """Called with how many pieces are done, and what is to be said of them."""

    def __call__(self, done: int, note: str = "") -> None: ...


class Screen(Protocol):
    """Where long work is shown."""

    def task(self, what: str, total: int) -> AbstractContextManager[Tell]: ...
    def training(self) -> Progress: ...


_SCREEN: ContextVar[Screen | None] = ContextVar("screen", default=None)


@contextmanager
def shown_on(screen: Screen) -> Iterator[None]:
    """Long work inside is shown there."""
    before = _SCREEN.set(screen)
    try:
        yield
    finally:
        _SCREEN.reset(before)


def training() -> Progress:
    """What shows a training here."""
    screen = _SCREEN.get()
    return Quiet() if screen is None else screen.training()


@contextmanager
def task(what: str, total: int = 0) -> Iterator[Tell]:
    """Work that may take seconds: call what is given with the number of pieces done; of 0, only time is shown."""
    screen = _SCREEN.get()
    if screen is None:
        yield _nobody
        return
    with screen.task(what, total) as tell:
        yield tell


def _nobody(done: int, note: str = "") -> None:
    """Nobody looks."""


def tracked(elements: Iterable[Element], what: str, total: int) -> Iterator[Element]:
    """The elements, one by one, and how many were taken."""
    with task(what, total) as tell:
        for done, element in enumerate(elements):
            tell(done)
            yield element
