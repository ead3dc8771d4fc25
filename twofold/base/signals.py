"""Signals that ask to stop: a training saves first; everything else unwinds, so that nothing is left half done."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn


class Stopped(Exception):
    """A signal asked to stop; everything is saved."""

    def __init__(self, signum: int) -> None:
        super().__init__(f"stopped by {signal.Signals(signum).name}")
        self.exit_code = 128 + signum


class Terminated(BaseException):
    """A signal asked to stop where nothing needs saving; no `except Exception` on the way holds it up."""

    def __init__(self, signum: int) -> None:
        super().__init__(f"stopped by {signal.Signals(signum).name}")
        self.exit_code = 128 + signum


@contextmanager
def unwinding() -> Iterator[None]:
    """Inside, SIGTERM and SIGHUP raise `Terminated`, as Ctrl-C raises KeyboardInterrupt; a second one ends at once."""
    before: dict[int, Callable[[int, FrameType | None], object] | int | None] = {}

    def unwind(signum: int, _: FrameType | None) -> NoReturn:
        signal.signal(signum, signal.SIG_DFL)
        raise Terminated(signum)

    try:
        for asking in _asking():
            if asking != signal.SIGINT:
                before[asking] = signal.signal(asking, unwind)
    except ValueError:
        before = {}  # not the main thread: signals are its owner's business
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


def _asking() -> list[signal.Signals]:
    """The signals that ask to stop: also that of a closed terminal, unless under nohup."""
    closed = [] if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else [signal.SIGHUP]
    return [signal.SIGTERM, signal.SIGINT, *closed]


class Signals:
    """The first SIGTERM, SIGINT or SIGHUP asks to stop; the second stops at once."""

    def __init__(self) -> None:
        self.received: int | None = None
        self._before: dict[int, Callable[[int, FrameType | None], object] | int | None] = {}

    def __enter__(self) -> Signals:
        try:
            self._before = {s: signal.signal(s, self._on) for s in _asking()}
        except ValueError:
            self._before = {}  # not the main thread: signals are its owner's business
        return self

    def __exit__(self, *_: object) -> None:
        for signum, handler in self._before.items():
            signal.signal(signum, handler)

    @contextmanager
    def released(self) -> Iterator[None]:
        """Inside, signals go to whoever had them before."""
        self.__exit__()
        try:
            yield
        finally:
            self.__enter__()

    def _on(self, signum: int, _: FrameType | None) -> None:
        if self.received is not None:
            signal.signal(signum, signal.SIG_DFL)
            signal.raise_signal(signum)
        self.received = signum

    def __call__(self) -> bool:
        return self.received is not None
