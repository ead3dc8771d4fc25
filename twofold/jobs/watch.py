"""What a person sees while jobs run: one table with a bar for each in a terminal, plain lines elsewhere."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from twofold.jobs.running import Progress, State, View
from twofold.show.console import duration, the_console
from twofold.show.style import short_count

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

log = logging.getLogger("twofold")
_COLOURS = {
    "running": "cyan",
    "done": "green",
    "failed": "red",
    "stopped": "yellow",
    "waiting": "bright_black",
}
_LINES_BESIDE = 8  # of a terminal: head, summary, prompt


def summary(jobs: Sequence[Progress]) -> str:
    """`12 of 20 done, 2 running, 6 waiting, 14 min left`."""
    count = {state: sum(p.state == state for p in jobs) for state in _COLOURS}
    parts = [f"{count['done']} of {len(jobs)} done"]
    parts += [f"{count[s]} {s}" for s in ("running", "waiting", "stopped", "failed") if count[s]]
    left = seconds_left(jobs)
    return ", ".join([*parts, *([f"{duration(left)} left"] if left else [])])


def seconds_left(jobs: Sequence[Progress]) -> float | None:
    """All steps that are still to do, at the speed of those that run; None before there is a speed."""
    speeds = [p.speed for p in jobs if p.state == "running" and p.speed > 0]
    if not speeds:
        return None
    steps = sum(max(0, p.job.steps - p.step) for p in jobs if p.state in ("running", "waiting"))
    running = sum(p.state == "running" for p in jobs)
    return steps / (sum(speeds) / len(speeds) * running)


def shown_here() -> Board | Lines:
    """The table in a terminal, lines elsewhere."""
    return Board() if sys.stderr.isatty() else Lines()


class Lines:
    """A line of the log whenever the state of a job changes, and now and then how far all are."""

    def __init__(self, every: float = 60.0) -> None:
        self._every, self._last = every, time.monotonic()
        self._states: dict[str, State] = {}

    def __enter__(self) -> View:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to end."""

    def show(self, jobs: Sequence[Progress]) -> None:
        changed = [p for p in jobs if self._states.get(p.job.name, "waiting") != p.state]
        for progress in changed:
            said = f": {progress.message}" if progress.message else ""
            log.info("%s %s at step %d%s", progress.job.name, progress.state, progress.step, said)
        self._states = {p.job.name: p.state for p in jobs}
        if changed or time.monotonic() - self._last > self._every:
            self._last = time.monotonic()
            log.info("%s", summary(jobs))


class Board:
    """A table that stays in its place: a bar, the speed and the time left of each job."""

    def __init__(self, console: Console | None = None) -> None:
        from rich.live import Live

        self._console = console or the_console()
        self._live = Live(console=self._console, refresh_per_second=4, transient=False)

    def __enter__(self) -> View:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self, jobs: Sequence[Progress]) -> None:
        self._live.update(self.table(jobs))

    def table(self, jobs: Sequence[Progress]) -> Table:
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, caption=Text(summary(jobs)), caption_justify="left")
        for name in ("job", "", "step", "steps/s", "left", "state"):
            table.add_column(name, justify="right" if name in ("step", "steps/s", "left") else "left")
        for progress in self._seen(jobs):
            table.add_row(*_cells(progress))
        return table

    def _seen(self, jobs: Sequence[Progress]) -> list[Progress]:
        """All jobs if they fit; else those that matter now, in their order."""
        room = max(4, self._console.size.height - _LINES_BESIDE)
        if len(jobs) <= room:
            return list(jobs)
        rank = {"running": 0, "failed": 1, "stopped": 2, "waiting": 3, "done": 4}
        chosen = sorted(range(len(jobs)), key=lambda i: (rank[jobs[i].state], i))[:room]
        return [jobs[i] for i in sorted(chosen)]


def _cells(progress: Progress) -> list[RenderableType]:
    from rich.progress_bar import ProgressBar
    from rich.text import Text

    job, colour = progress.job, _COLOURS[progress.state]
    left = (job.steps - progress.step) / progress.speed if progress.speed else None
    said = progress.state + (f": {progress.message}" if progress.message else "")
    done = job.steps if progress.state == "done" else min(progress.step, job.steps)
    return [
        Text(job.name),
        ProgressBar(
            total=max(1, job.steps), completed=done, width=24, complete_style=colour, finished_style=colour
        ),
        f"{short_count(done)}/{short_count(job.steps)}",
        f"{progress.speed:,.0f}" if progress.speed else "",
        duration(left) if left and progress.state == "running" else "",
        Text(said, style=colour, overflow="ellipsis", no_wrap=True),
    ]
