"""What a sweep found: words, a picture, a table as JSON, and a preset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from twofold.base.errors import UserError
from twofold.base.regular import is_there, read_regular
from twofold.lab import text
from twofold.lab.groups import show
from twofold.lab.sweep.phases import LAST, Candidate, Sweep, Swept
from twofold.lab.sweep.space import Choice, Span, Value
from twofold.show import style
from twofold.store import files

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLUMNS = 3


def words(found: Swept) -> str:
    """What can be said; the score of the search is never a claim."""
    done = [t for t in found.trials if t.score is not None]
    lines = [f"search     {len(done)} of {len(found.trials)} trials ended with a score"]
    for candidate in sorted(found.candidates, key=_confirmed_score, reverse=True):
        lines.append(
            f"confirm    trial {candidate.trial:3d}  {_told(candidate)}  {_settings(candidate.values)}"
        )
    winner = found.winner
    if winner is None:
        lines.append(
            "winner     none named: a search score is the luck of the best of many; confirm on fresh seeds"
        )
        return "\n".join(lines)
    lines.append(f"winner     {_settings(winner.values)}")
    if found.comparison is None:
        lines.append("verdict    none yet: the final runs are not done")
        return "\n".join(lines)
    return "\n".join([*lines, "", text.render(found.comparison)])


def _confirmed_score(candidate: Candidate) -> float:
    return candidate.confirmed.value if candidate.confirmed else -np.inf


def _told(candidate: Candidate) -> str:
    if candidate.confirmed is None:
        return "a seed of it failed or is missing"
    found = candidate.confirmed
    ends = "" if found.low is None else f" [{found.low:.4g}, {found.high:.4g}]"
    return f"{found.value:.4g}{ends} on {found.runs} fresh seeds (search said {candidate.searched:.4g})"


def _settings(values: Mapping[str, Value]) -> str:
    return " ".join(f"{key}={show(value)}" for key, value in values.items())


def write_result(sweep: Sweep, found: Swept) -> Path:
    """result.json and sweep.png in the folder of the sweep."""
    if any(trial.score is not None for trial in found.trials):
        draw(sweep, found, sweep.folder / "sweep.png")
    return write_record(sweep, found)


def write_record(sweep: Sweep, found: Swept) -> Path:
    """result.json: what is known so far, for the page and for whoever reads it."""
    record = {
        "phase": found.phase,
        "wanted": asdict(sweep.wanted),
        "trials": [asdict(trial) for trial in found.trials],
        "candidates": [asdict(candidate) for candidate in found.candidates],
        "winner": found.winner and dict(found.winner.values),
        "verdicts": [v.sentence for t in found.comparison.tables for v in t.verdicts]
        if found.comparison
        else [],
        "importance": sweep.study.importance(),
        "score": f"mean of the last {LAST} evaluations on validation seeds",
    }
    files.replace_bytes(sweep.folder / "result.json", files.to_json(record))
    return sweep.folder / "result.json"


def draw(sweep: Sweep, found: Swept, out: Path) -> Path:
    """The history of the search, a slice for every setting, and how much each mattered."""
    axes = sweep.space.axes
    panels = 1 + len(axes)
    rows = -(-panels // _COLUMNS)
    columns = min(panels, _COLUMNS)
    figure, grid = style.new_figure(3.6 * columns, 3.2 * rows, (rows, columns))
    done = [t for t in found.trials if t.score is not None]
    scores = np.array([t.score for t in done], float)
    importance = sweep.study.importance()
    _history(grid.flat[0], np.array([t.number for t in done]), scores)
    for panel, (key, axis) in zip(grid.flat[1:], axes.items(), strict=False):
        _slice(panel, axis, [t.values[key] for t in done], scores)
        share = f"importance {importance[key]:.0%}" if key in importance else "importance from ten trials on"
        style.title(panel, style.literal(key), share)
    for unused in grid.flat[panels:]:
        unused.set_visible(False)
    return style.write_figure(figure, out)


def _history(panel: Axes, numbers: np.ndarray[tuple[int], np.dtype[np.int64]], scores: object) -> None:
    from matplotlib.ticker import MaxNLocator

    values = np.asarray(scores, float)
    panel.scatter(numbers, values, s=22, color=style.colour(0), alpha=0.7, linewidth=0)
    panel.plot(numbers, np.maximum.accumulate(values), color=style.colour(1), linewidth=1.6)
    style.title(panel, "search", "every trial, and the best so far")
    panel.set_xlabel("trial")
    panel.xaxis.set_major_locator(MaxNLocator(integer=True))


def _slice(panel: Axes, axis: Span | Choice, values: list[Value], scores: object) -> None:
    if isinstance(axis, Choice):
        texts = [show(value) for value in axis.ends()]
        panel.scatter(
            [texts.index(show(v)) for v in values], np.asarray(scores), s=22, color=style.colour(0), alpha=0.7
        )
        panel.set_xticks(range(len(texts)), [style.literal(t) for t in texts])
        panel.set_xlim(-0.5, len(texts) - 0.5)
        return
    numbers = [float(v) for v in values if isinstance(v, (int, float))]
    shown = panel.scatter(numbers, np.asarray(scores), s=22, color=style.colour(0), alpha=0.7, linewidth=0)
    shown.set_clip_on(False)  # values at the ends of the range are whole
    if axis.scale == "log":
        panel.set_xscale("log")
    panel.set_xlim(axis.low, axis.high)


def write_preset(sweep: Sweep, found: Swept, path: Path) -> Path:
    """The winner as a preset of one's own; nothing is overwritten."""
    import yaml

    if found.winner is None:
        raise UserError("no winner was confirmed: there is no preset to write")
    nested: dict[str, object] = {"extends": sweep.space.config}
    for key, value in {**sweep.space.fixed, **found.winner.values}.items():
        section, _, rest = key.partition(".")
        inner = nested.setdefault(section, {}) if rest else nested
        if isinstance(inner, dict):
            inner[rest or section] = value
    about = f"# Found by a sweep of {len(found.trials)} trials in {sweep.space.env_config}.\n"
    content = (about + yaml.safe_dump(nested, sort_keys=False)).encode()
    if not is_there(path):
        files.replace_bytes(path, content)
    elif (
        read_regular(path, follow=True) != content
    ):  # the same is there when a sweep that is done is repeated
        raise UserError(f"{path} exists: nothing was written; give another --write")
    return path
