"""The lab's commands: what each asks for, and examples that work."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from twofold.base.command import Command, asks, needed, option, place, settings_given

Score = Literal["test", "last", "area"]
_ON = "where: here, ray:auto, ray:HOST:PORT or slurm"
_METRIC = "which metric of the episodes; of another evaluation world: 'WORLD: METRIC'"
_PLACES = "run directories, or folders that hold some"


@asks
class Compare:
    places: tuple[Path, ...] = place(_PLACES, "RUN ...", default=(), kind="run", at_least=1)
    score: Score = option("what a run is judged by", default="test")
    metric: str = option(_METRIC, default="return", metavar="NAME")
    baseline: str | None = option(
        "the group that others are compared with (default: the first)", default=None, metavar="NAME"
    )
    json: bool = option("all numbers as JSON", default=False)


@asks
class Report:
    places: tuple[Path, ...] = place(_PLACES, "RUN ...", default=(), kind="run", at_least=1)
    out: Path = option(
        "the folder of the report", default=Path("report"), metavar="DIR", short="-o", kind="folder"
    )
    title: str | None = option("the heading", default=None)
    score: Score = option("what a run is judged by", default="test")
    metric: str = option(_METRIC, default="return", metavar="NAME")
    baseline: str | None = option(
        "the group that others are compared with (default: the first)", default=None, metavar="NAME"
    )


@asks
class Runs:
    places: tuple[Path, ...] = place(_PLACES, "DIR ...", default=(Path("runs"),), kind="folder")
    metric: str = option(_METRIC, default="return", metavar="NAME")


@asks
class Lab:
    experiment: Path = needed("a YAML file (docs/lab.md)", "FILE.yaml", type=Path, kind="file")
    out: Path | None = option(
        "where its runs go (default runs/NAME)", default=None, metavar="DIR", short="-o", kind="folder"
    )
    jobs: int = option("trainings at once", default=2, metavar="N", least=1)
    on: str = option(_ON, default="here", metavar="PLACE")
    import_: tuple[str, ...] = option(
        "your own worlds and networks: a file.py or a module", default=(), metavar="FILE", kind="file"
    )


@asks
class Page:
    folder: Path = place("the folder that holds your runs", "DIR", default=Path("runs"), kind="folder")
    port: int = option("0: any that is free", default=8650, metavar="N", least=0, most=65_535)


@asks
class Plot:
    places: tuple[Path, ...] = place(_PLACES, "RUN ...", default=(), kind="run", at_least=1)
    out: Path | None = option(
        "PNG, SVG or PDF (default RUN/curve.png, or curves.png)",
        default=None,
        metavar="FILE",
        short="-o",
        kind="file",
    )
    metric: str = option("which metric of the evaluations", default="return", metavar="NAME")
    world: str | None = option(
        "which evaluation world (default: the one that chooses the best policy)", default=None, metavar="NAME"
    )
    mean: bool = option("", default=False)  # the mean of every group is always drawn


@asks
class Sweep:
    config: str = option(
        "the algorithm: a preset or a .yaml file", default="td3", metavar="NAME", kind="config"
    )
    env_config: str = option(
        "the environment: a preset or a .yaml file", default="pendulum", metavar="NAME", kind="env-config"
    )
    trials: int = option("runs of the search", default=30, metavar="N", least=1)
    confirm: str = option("candidates x fresh seeds; 0 for none", default="4x5", metavar="NxN")
    final: int = option("seeds of the winner and of the default settings", default=10, metavar="N", least=0)
    metric: str = option("which metric of the evaluations", default="return", metavar="NAME")
    seed: int = option("of the search", default=0, metavar="N", least=0)
    jobs: int = option("trainings at once", default=2, metavar="N", least=1)
    on: str = option(_ON, default="here", metavar="PLACE")
    sweep: Path | None = option(
        "the folder (default sweeps/CONFIG_ENV)", default=None, metavar="DIR", kind="folder"
    )
    write: Path | None = option(
        "write the winner as a preset, such as my_td3.yaml", default=None, metavar="FILE", kind="file"
    )
    import_: tuple[str, ...] = option(
        "your own worlds and networks: a file.py or a module", default=(), metavar="FILE", kind="file"
    )
    settings: dict[str, str] = settings_given(factory=dict, raw=True)


COMMANDS = (
    Command(
        "runs",
        "what is there: what differs, how far, best, test, state, age",
        Runs,
        "twofold.lab.commands:runs",
        examples=("twofold runs runs",),
    ),
    Command(
        "plot",
        "learning curves: a line and a 95 % band for each group of settings, every seed thin",
        Plot,
        "twofold.lab.commands:plot",
        examples=("twofold plot runs/first", "twofold plot runs --out=curves.png"),
    ),
    Command(
        "compare",
        "settings against each other over their seeds, with a verdict",
        Compare,
        "twofold.lab.commands:compare",
        more="Runs are grouped by all settings but the seed, and never pooled over settings, worlds, steps or physics.",
        examples=("twofold compare runs",),
    ),
    Command(
        "report",
        "one HTML file of all runs that opens without network",
        Report,
        "twofold.lab.commands:report",
        more="With tables, curves and films, and the same tables as CSV, Markdown and LaTeX.",
        examples=("twofold report runs --out=report",),
    ),
    Command(
        "lab",
        "an experiment file: variants x worlds x seeds",
        Lab,
        "twofold.lab.commands:lab",
        more="Given again, it continues; done, it only writes the report again.",
        examples=("twofold lab experiment.yaml --out=runs/experiment --jobs=2",),
    ),
    Command(
        "sweep",
        "search settings, and confirm the best on fresh seeds",
        Sweep,
        "twofold.lab.sweep.commands:sweep",
        more="The winner is compared with the default settings. Given again, it continues.",
        matters=(
            ("learner.actor_lr='log 1e-5..1e-2'", "a range, drawn on a logarithmic scale"),
            ("learner.policy_delay='int 1..4'", "whole numbers"),
            ("networks.critic_hidden='64,64|256,256'", "one of several"),
            ("trainer.steps=20_000", "the same for all"),
        ),
        examples=(
            "twofold sweep --env-config=pendulum learner.actor_lr='log 1e-5..1e-2' trainer.steps=20_000 --trials=30",
        ),
    ),
    Command(
        "page",
        "runs in the browser, live, on this machine only",
        Page,
        "twofold.lab.commands:page",
        examples=("twofold page runs",),
    ),
)
