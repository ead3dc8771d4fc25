"""Pictures of groups of runs: learning curves, the score of every seed, performance profiles."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from twofold.base.errors import UserError
from twofold.core.experience import Array
from twofold.lab import statistics
from twofold.lab.compare import Comparison, References, Row, Table, normalised
from twofold.lab.groups import Group, group_runs
from twofold.lab.runs import RunRecord, read_runs
from twofold.lab.statistics import FEW
from twofold.show import style
from twofold.store.records import Curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Bounds = tuple[float, float]
BAND_SEEDS = 3  # fewer have an interval so wide that only the seeds themselves say something
WIDTH = 7.2  # inches
_SHARES = ("success", "won", "share", "accuracy")


# ---- learning curves ------------------------------------------------------------------------------------------------


def curves_figure(
    groups: Sequence[Group],
    metric: str = "return",
    *,
    world: str | None = None,
    bounds: Bounds | None = None,
    width: float = WIDTH,
) -> Figure:
    """A panel for each world: a line and a band for each group, every seed thin."""
    worlds = list(dict.fromkeys((g.world, g.steps) for g in groups))
    columns = min(len(worlds), 2)
    rows = -(-len(worlds) // columns)
    figure, axes = style.new_figure(width if columns == 1 else 1.5 * width, 4.0 * rows, (rows, columns))
    for panel, place in zip(axes.flat, worlds, strict=False):
        _curves(panel, [g for g in groups if (g.world, g.steps) == place], metric, world, bounds)
    for unused in axes.flat[len(worlds) :]:
        unused.set_visible(False)
    return figure


def _curves(
    axes: Axes, groups: Sequence[Group], metric: str, world: str | None, bounds: Bounds | None
) -> None:
    limits = bounds or possible(groups, metric, world)
    for index, group in enumerate(groups):
        _curve(axes, group, index, metric, world, limits)
    name = groups[0].world + (f" ({world})" if world else "")
    style.title(
        axes,
        style.literal(name),
        f"{style.literal(metric)}: mean over seeds, 95 % interval",
    )
    style.steps_axis(axes)
    axes.set_ylabel(f"{style.literal(metric)} on validation seeds")
    style.legend(axes)


def _curve(
    axes: Axes, group: Group, index: int, metric: str, world: str | None, limits: Bounds | None
) -> None:
    colour, dash = style.colour(index), style.dash(index)
    shown = [run for run in group.runs if _points(run, metric, world) is not None]
    for run in shown:
        curve = _there(run, metric, world)
        axes.plot(curve.steps, curve.mean, color=colour, linestyle=dash, linewidth=0.8, alpha=0.35)
    counted = averaged(shown)
    steps, values = aligned(counted, metric, world)
    if len(steps):
        label = style.literal(f"{group.name}, {len(counted)} seed{'s' if len(counted) != 1 else ''}")
        axes.plot(steps, values.mean(axis=0), color=colour, linestyle=dash, linewidth=2.2, label=label)
        if len(counted) >= BAND_SEEDS:
            low, high = band(values, limits)
            axes.fill_between(steps, low, high, color=colour, alpha=0.16, linewidth=0)


def _points(run: RunRecord, metric: str, world: str | None) -> Curve | None:
    return run.curve(f"{world}: {metric}" if world else metric)


def _there(run: RunRecord, metric: str, world: str | None) -> Curve:
    curve = _points(run, metric, world)
    if curve is None:
        raise KeyError(f"{run.folder} has no '{metric}'")
    return curve


def averaged(runs: Sequence[RunRecord]) -> list[RunRecord]:
    """The runs that a mean is made of: those that have ended, or all as far as they have come if none has."""
    return [run for run in runs if run.state in ("finished", "failed")] or list(runs)


def aligned(runs: Sequence[RunRecord], metric: str, world: str | None = None) -> tuple[Array, Array]:
    """The steps at which every run was evaluated, and its values there: ([t], [runs, t]).

    A failed run keeps its last value, so that the mean does not rise because a seed broke down.
    """
    curves = [_extended(run, runs, metric, world) for run in runs]
    common = sorted(set.intersection(*(set(c) for c in curves))) if curves else []
    return np.array(common), np.array([[c[step] for step in common] for c in curves])


def _extended(run: RunRecord, runs: Sequence[RunRecord], metric: str, world: str | None) -> dict[int, float]:
    curve = _there(run, metric, world)
    values = dict(zip(curve.steps.tolist(), curve.mean.tolist(), strict=True))
    if run.state == "failed":
        later = {s for other in runs for s in _there(other, metric, world).steps.tolist()}
        values |= {step: float(curve.mean[-1]) for step in later if step > curve.steps[-1]}
    return values


def band(values: Array, limits: Bounds | None) -> tuple[Array, Array]:
    """Student's interval of the mean at every step, never beyond what is possible: values [runs, t]."""
    estimates = [statistics.mean_interval(column) for column in np.asarray(values).T]
    low, high = np.array([e.low for e in estimates]), np.array([e.high for e in estimates])
    return (low, high) if limits is None else (np.clip(low, *limits), np.clip(high, *limits))


def possible(groups: Sequence[Group], metric: str, world: str | None = None) -> Bounds | None:
    """[0, 1] for a share; else the range of all evaluations in the picture: a mean is not beyond all of its parts."""
    found = [c.mean for g in groups for run in g.runs if (c := _points(run, metric, world)) is not None]
    if not found:
        return None
    values = np.concatenate(found)
    return _share_bounds(metric, values) or (float(values.min()), float(values.max()))


def _share_bounds(metric: str, values: Sequence[float] | Array) -> Bounds | None:
    """[0, 1] if the metric is a share by its name and by its values."""
    share = any(word in metric for word in _SHARES) and min(values) >= 0 and max(values) <= 1
    return (0.0, 1.0) if share else None


def draw_curves(
    places: Sequence[Path],
    out: Path,
    *,
    metric: str = "return",
    world: str | None = None,
    bounds: Bounds | None = None,
) -> tuple[Path, list[str]]:
    """What `plot` does: the curves of all runs below the places; also what was left out, in words."""
    found = read_runs(places)
    notes = [problem.message for problem in found.problems]
    runs = [run for run in found.runs if _points(run, metric, world) is not None]
    drawn = {run.folder for run in runs}
    notes += [
        f"{run.folder} has no '{metric}' yet: left out" for run in found.runs if run.folder not in drawn
    ]
    if not runs:
        metrics = sorted({m for run in found.runs for by_name in run.curves.values() for m in by_name})
        known = f"; known are {', '.join(metrics)}" if metrics else ""
        known += f" ({found.problems[0].message})" if found.problems else ""
        raise UserError(f"no run below {', '.join(map(str, places))} has a metric '{metric}'{known}")
    figure = curves_figure(group_runs(runs), metric, world=world, bounds=bounds)
    return style.write_figure(figure, out), notes


# ---- scores and profiles --------------------------------------------------------------------------------------------


def scores_figure(table: Table, comparison: Comparison, width: float = WIDTH) -> Figure:
    """The score of every seed as a dot, the mean with its interval beside it, a row for each group."""
    figure, axes = style.new_figure(width, 1.25 + 0.55 * len(table.rows))
    panel = axes[0, 0]
    limits = _share_bounds(comparison.metric, [score for row in table.rows for score in row.scores])
    for index, row in enumerate(table.rows):
        _score_row(panel, row, index, limits)
    panel.set_yticks(
        range(len(table.rows)), [style.literal(f"{r.name}  n={len(r.seeds)}") for r in table.rows]
    )
    panel.set_ylim(len(table.rows) - 0.5, -0.5)
    panel.tick_params(axis="y", labelcolor=style.INK, length=0)
    panel.grid(axis="y", visible=False)
    panel.set_xlabel(_score_label(comparison))
    style.title(panel, style.literal(table.world), "every seed, mean and 95 % interval")
    return figure


def _score_row(axes: Axes, row: Row, index: int, limits: Bounds | None) -> None:
    colour = style.colour(index)
    seeds = np.full(len(row.scores), index + 0.14)
    axes.scatter(row.scores, seeds, s=30, color=colour, alpha=0.55, linewidth=0, zorder=3)
    low, high = row.mean.low, row.mean.high
    if low is not None and high is not None:
        ends = np.clip([low, high], *limits) if limits else [low, high]
        axes.plot(ends, [index - 0.14] * 2, color=colour, linewidth=2.2, solid_capstyle="round", zorder=2)
    axes.plot([row.mean.value], [index - 0.14], marker="D", markersize=6, color=colour, zorder=4)


def _score_label(comparison: Comparison) -> str:
    where = {"test": "on test seeds", "last": "of the last policy", "area": "over the whole curve"}
    return f"{style.literal(comparison.metric)} {where[comparison.score]}"


def profile_figure(
    tables: Sequence[Table],
    comparison: Comparison,
    references: References | None = None,
    width: float = WIDTH,
) -> Figure | None:
    """The share of seeds above each score; over several worlds on normalised scores. None below five seeds."""
    found = _profile_scores(tables, references or {})
    if not found or min(len(s) for scores in found.values() for s in scores) < FEW:
        return None
    values = np.concatenate([s for scores in found.values() for s in scores])
    margin = 0.04 * (float(np.ptp(values)) or 1.0)
    thresholds = np.unique([values.min() - margin, *values, values.max() + margin])
    figure, axes = style.new_figure(width, 3.6)
    for index, (name, scores) in enumerate(found.items()):
        _profile(axes[0, 0], name, scores, thresholds, index)
    one = len(tables) == 1
    style.title(
        axes[0, 0],
        style.literal(tables[0].world) if one else f"{len(tables)} worlds",
        "share of seeds that score more, 95 % interval",
    )
    axes[0, 0].set_xlabel(_score_label(comparison) if one else "normalised score")
    axes[0, 0].set_ylabel("share of seeds above")
    axes[0, 0].set_ylim(-0.02, 1.02)
    style.legend(axes[0, 0])
    return figure


def _profile(axes: Axes, name: str, scores: list[Array], thresholds: Array, index: int) -> None:
    colour = style.colour(index)
    shares = statistics.profile(scores, thresholds)
    axes.plot(
        thresholds, shares, color=colour, linewidth=2, label=style.literal(name), drawstyle="steps-post"
    )
    rng = np.random.default_rng(0)
    drawn = [s[rng.integers(len(s), size=(1000, len(s)))] for s in scores]
    low, high = np.percentile(statistics.profile(drawn, thresholds), [2.5, 97.5], axis=0)
    axes.fill_between(thresholds, low, high, color=colour, alpha=0.14, linewidth=0, step="post")


def _profile_scores(tables: Sequence[Table], references: References) -> dict[str, list[Array]]:
    """By name the scores in every world; normalised if there is more than one world."""
    if len(tables) == 1:
        return {row.name: [np.array(row.scores)] for row in tables[0].rows}
    if any(table.world not in references for table in tables):
        return {}
    names = [row.name for row in tables[0].rows if all(row.name in [r.name for r in t.rows] for t in tables)]
    return {
        name: [
            normalised(t.world, next(r.scores for r in t.rows if r.name == name), references) for t in tables
        ]
        for name in names
    }
