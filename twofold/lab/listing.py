"""`runs`: every run of a folder in one table, told apart by what differs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from twofold.lab import numbers
from twofold.lab.groups import Group, group_runs
from twofold.lab.runs import Problem, RunRecord, read_runs
from twofold.lab.text import aligned
from twofold.show.style import short_count


@dataclass(frozen=True)
class Line:
    """One run as the list shows it."""

    world: str
    group: str
    seed: int
    step: int
    steps: int
    best: float | None  # of all evaluations on validation seeds
    test: float | None
    state: str
    age: float  # seconds since it last wrote
    folder: Path


def list_runs(
    places: Sequence[Path], *, metric: str = "return", now: float | None = None
) -> tuple[list[Line], tuple[Problem, ...]]:
    """All runs below the places by world, group and seed, and what could not be read."""
    found = read_runs(places)
    moment = time.time() if now is None else now
    lines = []
    for group in group_runs(found.runs):
        for run in sorted([*group.runs, *group.copies], key=lambda r: r.seed):
            lines.append(_line(group, run, metric, moment))
    return sorted(lines, key=lambda line: line.world), found.problems


def _line(group: Group, run: RunRecord, metric: str, now: float) -> Line:
    curve = run.curve(metric)
    tested = run.tested(metric)
    return Line(
        group.world,
        group.name,
        run.seed,
        run.step,
        run.steps,
        None if curve is None else float(curve.mean.max()),
        None if tested is None else tested.mean,
        run.state if run.state in ("finished", "running") or not run.reason else f"{run.state}: {run.reason}",
        now - run.changed,
        run.folder,
    )


def render(lines: Sequence[Line], problems: Sequence[Problem]) -> str:
    """The table as text."""
    head = ["world", "what differs", "seed", "step", "best", "test", "age", "state", "run"]
    digits = {
        w: numbers.decimals(*(v for o in lines if o.world == w for v in (o.best, o.test)))
        for w in worlds_of(lines)
    }
    shown = [head, *(_cells(line, digits[line.world]) for line in lines)]
    count = f"{len(lines)} run{'s' if len(lines) != 1 else ''}"
    return "\n".join(
        [*aligned(shown, left=(0, 1, 7, 8)), count, *(f"left out: {p.message}" for p in problems)]
    )


def worlds_of(lines: Sequence[Line]) -> list[str]:
    return list(dict.fromkeys(line.world for line in lines))


def _cells(line: Line, digits: int) -> list[str]:
    return [
        line.world,
        line.group,
        str(line.seed),
        f"{short_count(line.step)}/{short_count(line.steps)}",
        "-" if line.best is None else numbers.number(line.best, digits),
        "-" if line.test is None else numbers.number(line.test, digits),
        numbers.age(line.age),
        line.state,
        str(line.folder),
    ]
