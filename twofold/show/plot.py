"""The learning curve of a run as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from twofold.base.errors import UserError
from twofold.base.values import Array, number, text
from twofold.show import style
from twofold.store.jsonlines import JsonLines

if TYPE_CHECKING:
    pass


def curve(folder: Path, world: str | None = None, metric: str = "return") -> tuple[Array, Array]:
    """(steps, means) of the evaluations of a run."""
    records = JsonLines(folder / "evaluations.jsonl").read()
    if not records:
        raise UserError(f"{folder} has no evaluations yet: nothing to plot")
    world = world or text(records[0], "world")
    chosen = [r for r in records if r["world"] == world and metric in r]
    if not chosen:
        known = sorted({text(r, "world") for r in records}), sorted(records[0].keys() - {"step", "world"})
        raise UserError(
            f"{folder} has no metric '{metric}' in world '{world}'; worlds {known[0]}, metrics {known[1]}"
        )
    return np.array([number(r, "step") for r in chosen]), np.array(
        [number(r, metric, "mean") for r in chosen]
    )


def draw_curve(folder: Path, out: Path, metric: str = "return") -> Path:
    """Write a picture of the learning curve of one run; pictures of several are the lab's."""
    steps, values = curve(folder, None, metric)
    figure, panels = style.new_figure()
    axes = panels[0, 0]
    axes.plot(steps, values, color=style.colour(0), marker=".")
    style.title(axes, style.literal(f"{metric} on validation seeds"))
    style.steps_axis(axes)
    axes.set_ylabel(style.literal(metric))
    return style.write_figure(figure, out)
