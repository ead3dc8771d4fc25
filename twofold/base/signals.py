"""Signals that ask a run to stop: the first is honoured when everything is saved, the second at once."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class Stopped(Exception):
    """A signal asked to stop; everything is saved."""

    def __init__(self, signum: int) -> None:
        super().__init__(f"stopped by {signal.Signals(signum).name}")
        self.exit_code = 128 + signum


class Signals:
    """The first SIGTERM, SIGINT or SIGHUP asks to stop; the second stops at once."""

    def __init__(self) -> None:
        self.received: int | None = None
        self._before: dict[int, Callable[[int, FrameType | None], object] | int | None] = {}

    def __enter__(self) -> Signals:
        try:
            wanted = [signal.SIGTERM, signal.SIGINT]
            if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # a closed terminal, unless under nohup
                wanted.append(signal.SIGHUP)
            self._before = {s: signal.signal(s, self._on) for s in wanted}
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
