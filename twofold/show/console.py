"""The one console for bars and log lines: a terminal shows where long work is, a file or pipe gets plain lines."""

from __future__ import annotations

import logging
import math
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

from twofold.base.messages import printable
from twofold.base.progress import Standing, Tell

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_WINDOW = 15.0  # seconds over which speed is measured
_PATIENCE = 0.6  # seconds after which work is worth a line
_LEAST_BAR = 6  # columns
_TIMES = "%H:%M:%S"


def duration(seconds: float) -> str:
    """Time as people say it: 40 s, 14 min, 3 h 20 min."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


@cache
def the_console() -> Console:
    """The one that everything is shown on: two of them would tear each other's lines."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)


class Line:
    """One piece of long work: a bar, how much is done, how fast, how long it takes, and what is to be said of it."""

    def __init__(self, what: str, total: int, done: int = 0) -> None:
        self.what, self.total, self.done, self.note, self.estimates = what, total, done, "", True
        self.began = time.monotonic()
        self.refresh: Callable[[], None] = lambda: None  # called before it is drawn
        self._samples: deque[tuple[float, int]] = deque([(self.began, done)])

    def at(self, done: int, note: str = "") -> None:
        """So much is done."""
        now = time.monotonic()
        self.done, self.note = done, note
        self._samples.append((now, done))
        while now - self._samples[0][0] > _WINDOW and len(self._samples) > 2:
            self._samples.popleft()

    def forget_speed(self) -> None:
        """What comes is of another speed than what was."""
        self._samples = deque([self._samples[-1]])

    @property
    def speed(self) -> float:
        (began, first), (now, last) = self._samples[0], self._samples[-1]
        return (last - first) / (now - began) if now > began else 0.0

    def parts(self) -> list[str]:
        """What stands behind the bar, the most important first."""
        if not self.total:
            return [duration(time.monotonic() - self.began)]
        count = f"{self.done:,}/{self.total:,}"
        left = (self.total - self.done) / self.speed if self.speed > 0 and self.estimates else None
        time_left = "" if left is None else f"{duration(left)} left"
        speed = f"{self.speed:,.0f}/s" if self.speed >= 10 else ""
        return [part for part in (count, time_left, self.note, speed) if part]

    def text(self, width: int) -> str:
        """The line in at most `width` columns; what does not fit beside a short bar is left out, the last first."""
        label, parts = f"{self.what} ", self.parts()
        while len(parts) > 1 and len(label) + _LEAST_BAR + len("  ".join(["", *parts])) > width:
            parts.pop()
        tail = "  ".join(["", *parts])
        room = min(40, width - len(label) - len(tail))
        if room < _LEAST_BAR:
            return f"{label}{tail.strip()}"[:width]
        full = round(room * min(self.done / self.total, 1.0)) if self.total else 0
        return f"{label}{'━' * full}{'─' * (room - full)}{tail}"


class Terminal:
    """A person's terminal: log lines above, lines of long work beneath, on one console."""

    def __init__(self, console: Console | None = None) -> None:
        from rich.live import Live

        self.console = console or the_console()
        self.lines: list[Line] = []
        both = sys.stdout.isatty()  # a pipe behind stdout gets results and nothing else
        self._live = Live(
            get_renderable=self._render, console=self.console, refresh_per_second=5, transient=True,
            redirect_stdout=both, vertical_overflow="crop",
        )  # fmt: skip

    def _render(self) -> Text:
        from rich.text import Text

        now, width = time.monotonic(), self.console.width - 4  # the terminal echoes ^C behind it
        seen = [line for line in list(self.lines) if now - line.began >= _PATIENCE]
        for line in seen:
            line.refresh()
        return Text(
            "\n".join(line.text(width) for line in seen),
            style="cyan",
            no_wrap=True,
            overflow="ellipsis",
            end="",
        )

    def put(self, line: Line) -> Line:
        """Show a line from now on."""
        self.lines.append(line)
        if len(self.lines) == 1:
            self._live.start()
        return line

    def take(self, line: Line) -> None:
        """Show it no longer."""
        if line in self.lines:
            self.lines.remove(line)
            if not self.lines:
                self._live.stop()

    @contextmanager
    def task(self, what: str, total: int) -> Iterator[Tell]:
        line = self.put(Line(what, total))
        try:
            yield line.at
        finally:
            self.take(line)

    def training(self) -> Bar:
        """The bar of a training."""
        return Bar(self)


class Bar:
    """A training's line: steps, time left, the last return and the best."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal, self._line = terminal, Line("training", 0)
        self._look: Callable[[], Standing] | None = None
        self._learning = True

    def watch(self, look: Callable[[], Standing]) -> None:
        """Ask this whenever the line is drawn."""
        self._look = look

    def start(self, done: int, total: int) -> None:
        self._line = Line("training", total, done)
        if self._look is not None:
            self._line.refresh = self._refresh
            self._learning = self._look().learning
        self._terminal.put(self._line)

    def update(self, done: int, speed: float, last_return: float) -> None:
        if self._look is None:
            self._line.at(done, returns(Standing(done, True, last_return, None)))

    def _refresh(self) -> None:
        assert self._look is not None
        now = self._look()
        if now.learning and not self._learning:
            self._line.forget_speed()
        self._learning = self._line.estimates = now.learning
        self._line.what = "training" if now.learning else "warm-up"
        self._line.at(now.step, returns(now))

    def finish(self) -> None:
        self._terminal.take(self._line)


def returns(standing: Standing) -> str:
    """The last evaluation's return and the best one."""
    if math.isnan(standing.last):
        return ""
    best = "" if standing.best is None else f" (best {standing.best:.1f})"
    return f"return {standing.last:.1f}{best}"


# ---- the log ------------------------------------------------------------------------------------------------------


class _Plain(logging.Formatter):
    """The time and the message; a word before it only where it is more than information."""

    def format(self, record: logging.LogRecord) -> str:
        level = "" if record.levelno <= logging.INFO else f"{record.levelname.lower()}: "
        return f"{self.formatTime(record, _TIMES)} {level}{printable(record.getMessage())}"


class _Above(logging.Handler):
    """Log lines on the console that the bars are on."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console
        self.setFormatter(_Plain())

    def emit(self, record: logging.LogRecord) -> None:
        from rich.text import Text

        colour = {logging.WARNING: "yellow", logging.ERROR: "red"}.get(record.levelno, "")
        text = Text(self.format(record), style=colour)
        text.stylize("dim", 0, 8)  # the time
        self._console.print(text, soft_wrap=False)


def set_up_logging(terminal: Terminal | None, *, debug: bool = False) -> None:
    """Log lines on the terminal's console, or as plain lines on stderr."""
    log = logging.getLogger("twofold")
    log.handlers.clear()
    log.propagate = False
    log.setLevel(logging.DEBUG if debug else logging.INFO)
    handler: logging.Handler = logging.StreamHandler() if terminal is None else _Above(terminal.console)
    handler.setFormatter(_Plain())
    log.addHandler(handler)
