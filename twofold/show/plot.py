"""Learning curves as a picture: one line for each run, or the mean of several seeds with its interval."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np

from twofold.base.errors import UserError
from twofold.base.statistics import half_interval
from twofold.store.files import replace_bytes
from twofold.store.jsonlines import JsonLines


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
    """Write a PNG of the learning curves."""
    from matplotlib.figure import Figure  # not pyplot, whose state is the caller's

    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    curves = [curve(folder, world, metric) for folder in folders]
    if mean and len(curves) > 1:
        _draw_mean(axes, curves)
    else:
        for folder, (steps, values) in zip(folders, curves, strict=True):
            axes.plot(steps, values, marker=".", label=folder.name)
    axes.set_xlabel("world steps")
    axes.set_ylabel(f"{metric} (mean of the evaluation episodes)")
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    picture = io.BytesIO()
    figure.savefig(picture, dpi=130, format=out.suffix[1:] or "png")
    replace_bytes(out, picture.getvalue())
    return out


def _draw_mean(axes: Any, curves: list[tuple[Any, Any]]) -> None:
    """Every run thinly, their mean and its 95 % interval, up to where all runs have come."""
    length = min(len(steps) for steps, _ in curves)
    steps, values = curves[0][0][:length], np.stack([v[:length] for _, v in curves])
    middle = values.mean(axis=0)
    half = np.array([half_interval(s, len(values)) for s in values.std(axis=0, ddof=1)])
    axes.plot(steps, values.T, color="grey", linewidth=0.7, alpha=0.7)
    axes.plot(steps, middle, label=f"mean of {len(curves)} runs")
    axes.fill_between(steps, middle - half, middle + half, alpha=0.2, label="95 % interval")
