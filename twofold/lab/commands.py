"""The lab's commands: compare, report, runs, lab, page."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from twofold.base.messages import printable
from twofold.lab import menu

if TYPE_CHECKING:
    from collections.abc import Mapping

    from twofold.lab.conduct import Conducted

    Settings = Mapping[str, object]


def compare(asked: menu.Compare) -> int:
    """Groups of runs against each other, with a verdict."""
    from twofold.base.progress import task
    from twofold.lab import compare as comparing
    from twofold.lab.text import render

    with task("reading runs"):
        found = comparing.compare(
            asked.places, score=asked.score, metric=asked.metric, baseline=asked.baseline
        )
    print(json.dumps(comparing.to_data(found), indent=1) if asked.json else render(found))
    return 0


def report(asked: menu.Report) -> int:
    """One HTML file with tables, curves and films, and the same tables as CSV, Markdown and LaTeX."""
    from twofold.base.progress import task
    from twofold.lab.report import write_report

    with task("writing the report"):
        written = write_report(
            asked.places, asked.out, title=asked.title,
            score=asked.score, metric=asked.metric, baseline=asked.baseline,
        )  # fmt: skip
    print(f"report     {written.page}")
    return 0


def plot(asked: menu.Plot) -> int:
    """Learning curves of groups of runs; runs that have none are named and left out."""
    from twofold.base.progress import task
    from twofold.base.regular import is_there
    from twofold.lab.figures import draw_curves

    one = len(asked.places) == 1 and is_there(asked.places[0] / "config.json")
    out = asked.out or (asked.places[0] / "curve.png" if one else Path("curves.png"))
    with task("drawing"):
        drawn, notes = draw_curves(asked.places, out, metric=asked.metric, world=asked.world)
    for note in notes:
        print(printable(f"left out   {note}"), file=sys.stderr)
    print(f"curve      {drawn}")
    return 0


def train_seeds(
    names: tuple[str, str],
    settings: Settings,
    seeds: str,
    runs: Path,
    *,
    jobs: int,
    on: str,
    imports: tuple[str, ...],
) -> int:
    """`train --seeds=1..10 --jobs=2`: every seed a run of its own, then the report."""
    from twofold.jobs.watch import shown_here
    from twofold.lab.conduct import conduct_seeds
    from twofold.lab.experiment import plan_seeds

    plan = plan_seeds(*names, settings, seeds, runs, imports)
    with shown_here() as view:
        return _told(conduct_seeds(plan, view, jobs=jobs, on=on))


def runs(asked: menu.Runs) -> int:
    """A table of the runs below some folders."""
    from twofold.lab.listing import list_runs, render

    print(render(*list_runs(asked.places, metric=asked.metric)))
    return 0


def lab(asked: menu.Lab) -> int:
    """Run an experiment file: variants x worlds x seeds."""
    from twofold.jobs.watch import shown_here
    from twofold.lab.conduct import conduct

    folder = asked.out or Path("runs") / asked.experiment.stem
    with shown_here() as view:
        done = conduct(asked.experiment, folder, view, jobs=asked.jobs, imports=asked.import_, on=asked.on)
    return _told(done)


def _told(done: Conducted) -> int:
    """Say where the report is, and what did not come to its end."""
    if done.report is not None:
        print(f"report     {done.report.page}")
    else:
        print(f"report     none: {done.why_no_report}")
    for job in done.outcome.failed:
        print(printable(f"failed     {job.job.folder}"), file=sys.stderr)
    if done.outcome.signal is not None:
        print("stopped: all trainings have saved; the same command continues", file=sys.stderr)
    return int(done.exit_code)


def page(asked: menu.Page) -> int:
    """The live page."""
    from twofold.base.errors import MissingPackage

    try:
        from twofold.lab.page.server import serve
    except ModuleNotFoundError as error:
        raise MissingPackage(str(error.name), "lab", "the page") from None
    serve(asked.folder, asked.port, announce=lambda address: print(f"page       {address}", flush=True))
    return 0
