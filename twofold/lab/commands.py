"""The lab's commands: compare, report, runs, lab, page."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from twofold.lab.compare import Score
    from twofold.lab.conduct import Conducted

    Settings = Mapping[str, object]

COMMANDS = {
    "compare": (
        "twofold.lab.commands:compare",
        "settings against each other     twofold compare runs/a runs/b",
    ),
    "report": (
        "twofold.lab.commands:report",
        "one HTML file of all runs       twofold report runs --out=report",
    ),
    "plot": (
        "twofold.lab.commands:plot",
        "learning curves by group        twofold plot runs --out=curves.png",
    ),
    "runs": ("twofold.lab.commands:runs", "what is there and how far       twofold runs runs"),
    "lab": (
        "twofold.lab.commands:lab",
        "variants x worlds x seeds       twofold lab experiment.yaml --jobs=2",
    ),
    "sweep": (
        "twofold.lab.sweep.commands:sweep",
        "search settings, honestly       twofold sweep learner.actor_lr='log 1e-5..1e-2' --trials=30",
    ),
    "page": ("twofold.lab.commands:page", "runs in the browser, live       twofold page runs"),
}


def _parser(name: str, about: str, example: str) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(
        prog=f"twofold {name}",
        description=about,
        epilog=f"example: {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def _scoring(typed: argparse.ArgumentParser) -> None:
    typed.add_argument("places", nargs="+", type=Path, help="run directories, or folders that hold some")
    typed.add_argument(
        "--score", choices=("test", "last", "area"), default="test", help="what a run is judged by"
    )
    typed.add_argument("--metric", default="return", help="which metric of the episodes")
    typed.add_argument("--baseline", help="the group that others are compared with; default: the first")


def compare(argv: list[str]) -> int:
    """Groups of runs against each other, with a verdict."""
    typed = _parser(
        "compare",
        "Compare settings over their seeds: runs are grouped by all settings but the seed and never pooled over "
        "settings, worlds, steps or physics.",
        "twofold compare runs/pendulum",
    )
    _scoring(typed)
    typed.add_argument("--json", action="store_true", help="all numbers as JSON")
    options = typed.parse_args(argv)
    from twofold.lab import compare as comparing
    from twofold.lab.text import render

    found = comparing.compare(options.places, **_asked(options))
    print(json.dumps(comparing.to_data(found), indent=1) if options.json else render(found))
    return 0


class _Scoring(TypedDict):
    score: Score
    metric: str
    baseline: str | None


def _asked(options: argparse.Namespace) -> _Scoring:
    return {"score": options.score, "metric": options.metric, "baseline": options.baseline}


def report(argv: list[str]) -> int:
    """One HTML file with tables, curves and films, and the same tables as CSV, Markdown and LaTeX."""
    typed = _parser(
        "report", "Write one HTML file of all runs that opens without network.", "twofold report runs"
    )
    _scoring(typed)
    typed.add_argument("--out", type=Path, default=Path("report"), help="the folder of the report")
    typed.add_argument("--title", help="the heading")
    options = typed.parse_args(argv)
    from twofold.lab.report import write_report

    written = write_report(options.places, options.out, title=options.title, **_asked(options))
    print(f"report     {written.page}")
    return 0


def plot(argv: list[str]) -> int:
    """Learning curves of groups of runs."""
    typed = _parser(
        "plot",
        "Draw learning curves: a line and a 95 % band for each group of settings, every seed thin.",
        "twofold plot runs/pendulum --out=curves.png",
    )
    typed.add_argument("places", nargs="+", type=Path, help="run directories, or folders that hold some")
    typed.add_argument(
        "--out", type=Path, help="PNG, SVG or PDF; default: curve.png of the run, else curves.png"
    )
    typed.add_argument("--metric", default="return", help="which metric of the evaluations")
    typed.add_argument(
        "--world", help="which evaluation world; default: the one that chooses the best policy"
    )
    typed.add_argument("--mean", action="store_true", help=argparse.SUPPRESS)  # always drawn, by group
    options = typed.parse_args(argv)
    from twofold.base.regular import is_there
    from twofold.lab.figures import draw_curves

    one = len(options.places) == 1 and is_there(options.places[0] / "config.json")
    out = options.out or (options.places[0] / "curve.png" if one else Path("curves.png"))
    drawn, notes = draw_curves(options.places, out, metric=options.metric, world=options.world)
    for note in notes:
        print(f"left out   {note}", file=sys.stderr)
    print(f"curve      {drawn}")
    return 0


def train_seeds(
    names: tuple[str, str], settings: Settings, seeds: str, runs: Path, *, jobs: int, imports: tuple[str, ...]
) -> int:
    """`train --seeds=1..10 --jobs=2`: every seed a run of its own, then the report."""
    from twofold.lab.conduct import conduct_seeds
    from twofold.lab.experiment import plan_seeds
    from twofold.lab.watch import Board, Lines

    plan = plan_seeds(*names, settings, seeds, runs, imports)
    with Board() if sys.stderr.isatty() else Lines() as view:
        return _told(conduct_seeds(plan, view, jobs=jobs))


def runs(argv: list[str]) -> int:
    """A table of the runs below some folders."""
    typed = _parser(
        "runs", "What is there: what differs, how far, best, test, state, age.", "twofold runs runs"
    )
    typed.add_argument("places", nargs="*", type=Path, default=[Path("runs")])
    typed.add_argument("--metric", default="return")
    options = typed.parse_args(argv)
    from twofold.lab.listing import list_runs, render

    print(render(*list_runs(options.places or [Path("runs")], metric=options.metric)))
    return 0


def lab(argv: list[str]) -> int:
    """Run an experiment file: variants x worlds x seeds."""
    typed = _parser(
        "lab",
        "Run an experiment file. Given again, it continues; done, it only writes the report again.",
        "twofold lab experiment.yaml --out=runs/experiment --jobs=2",
    )
    typed.add_argument("experiment", type=Path, help="a YAML file (docs/lab.md)")
    typed.add_argument("--out", type=Path, help="where its runs go; default: runs/NAME")
    typed.add_argument("--jobs", type=int, default=2, help="trainings at once")
    typed.add_argument(
        "--import", dest="imports", action="append", default=[], help="your own worlds and networks"
    )
    options = typed.parse_args(argv)
    from twofold.lab.conduct import conduct
    from twofold.lab.watch import Board, Lines

    folder = options.out or Path("runs") / options.experiment.stem
    with Board() if sys.stderr.isatty() else Lines() as view:
        done = conduct(options.experiment, folder, view, jobs=options.jobs, imports=tuple(options.imports))
    return _told(done)


def _told(done: Conducted) -> int:
    """Say where the report is, and what did not come to its end."""
    if done.report is not None:
        print(f"report     {done.report.page}")
    else:
        print(f"report     none: {done.why_no_report}")
    for job in done.outcome.failed:
        print(f"failed     {job.job.folder}", file=sys.stderr)
    return int(done.exit_code)


def page(argv: list[str]) -> int:
    """The live page."""
    typed = _parser(
        "page",
        "Show the runs below a folder in the browser, live; on this machine only.",
        "twofold page runs",
    )
    typed.add_argument("place", nargs="?", type=Path, default=Path("runs"))
    typed.add_argument("--port", type=int, default=8650)
    options = typed.parse_args(argv)
    from twofold.base.errors import MissingPackage

    try:
        from twofold.lab.page.server import serve
    except ModuleNotFoundError as error:
        raise MissingPackage(str(error.name), "lab", "the page") from None
    serve(options.place, options.port, announce=lambda address: print(f"page       {address}", flush=True))
    return 0
