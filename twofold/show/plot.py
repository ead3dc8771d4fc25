"""Learning curves as a picture: one line for each run, or the mean of several seeds with its interval."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from twofold.base.errors import UserError
from twofold.base.statistics import half_interval
from twofold.show import style
from twofold.store.jsonlines import JsonLines


def has_curve(folder: Path) -> bool:
    """Whether there is anything to draw of a run."""
    return bool(JsonLines(folder / "evaluations.jsonl").read())


def curve(folder: Path, world: str | None = None, metric: str = "return") -> tuple[Any, Any]:
    """(steps, means) of the evaluations of a run."""
    records = JsonLines(folder / "evaluations.jsonl").read()
    if not records:
        raise UserError(f"{folder} has no evaluations yet: nothing to plot")
    world = world or records[0]["world"]
    chosen = [r for r in records if r["world"] == world and metric in r]
    if not chosen:
        known = sorted({r["world"] for r in records}), sorted(records[0].keys() - {"step", "world"})
        raise UserError(
            f"{folder} has no metric '{metric}' in world '{world}'; worlds {known[0]}, metrics {known[1]}"
        )
    return np.array([r["step"] for r in chosen]), np.array([r[metric]["mean"] for r in chosen])


def draw_curves(
    folders: list[Path], out: Path, *, world: str | None = None, metric: str = "return", mean: bool = False
) -> Path:
    """Write a picture of the learning curves."""
    figure, panels = style.new_figure()
    axes, curves = panels[0, 0], [curve(folder, world, metric) for folder in folders]
    if mean and len(curves) > 1:
        _draw_mean(axes, curves)
    else:
        for index, (folder, (steps, values)) in enumerate(zip(folders, curves, strict=True)):
            how = {"color": style.colour(index), "linestyle": style.dash(index), "marker": "."}
            axes.plot(steps, values, label=style.literal(folder.name), **how)
    style.title(axes, style.literal(f"{metric} on validation seeds"))
    style.steps_axis(axes)
    axes.set_ylabel(style.literal(metric))
    style.legend(axes)
    return style.write_figure(figure, out if out.suffix else out.with_suffix(".png"))


def _draw_mean(axes: Any, curves: list[tuple[Any, Any]]) -> None:
    """Every run thinly, their mean and its 95 % interval, up to where all runs have come."""
    length = min(len(steps) for steps, _ in curves)
    steps, values = curves[0][0][:length], np.stack([v[:length] for _, v in curves])
    middle = values.mean(axis=0)
    half = np.array([half_interval(s, len(values)) for s in values.std(axis=0, ddof=1)])
    colour = style.colour(0)
    axes.plot(steps, values.T, color=colour, linewidth=0.8, alpha=0.35)
    axes.plot(steps, middle, color=colour, linewidth=2.2, label=f"mean of {len(curves)} runs, 95 % interval")
    axes.fill_between(steps, middle - half, middle + half, color=colour, alpha=0.16, linewidth=0)
