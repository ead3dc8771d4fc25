"""One HTML file that says what some runs show, and the same numbers as CSV, Markdown, LaTeX and SVG beside it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

from twofold.base.errors import CheckpointError, UserError
from twofold.base.regular import read_regular
from twofold.lab import html, numbers, tables
from twofold.lab.compare import MEANING, Asked, Comparison, References, Row, Table, compare
from twofold.lab.figures import curves_figure, profile_figure, scores_figure
from twofold.lab.html import element, number, text
from twofold.lab.runs import RunRecord
from twofold.lab.text import cells
from twofold.lab.verdict import Verdict
from twofold.show import style
from twofold.show.style import short_count
from twofold.store import files

_WIDE, _HALF, _NARROW = (
    8.4,
    5.2,
    4.3,
)  # inches: a page, half of one, a telephone, all with the same size of type
_LONGEST_HEADING = 60
_FILMS = (".mp4", ".webm", ".gif", ".png", ".jpg")
_MAX_FILM, _MAX_FILMS = 8_000_000, 32_000_000  # bytes of one, and of all in a report
_TITLES = {"better": "better", "worse": "worse", "undecided": "not decided", "too few": "too few seeds"}
_CLASSES = {"better": "better", "worse": "worse", "too few": "few", "unfinished": "few"}

_OURS = ("report.html", "*.csv", "tables.*", "curves*.svg", "scores*.svg", "profile*.svg")


@dataclass(frozen=True)
class Report:
    """What was written."""

    page: Path
    files: tuple[Path, ...]
    comparison: Comparison


def write_report(
    places: Sequence[Path], folder: Path, *, title: str | None = None, **asked: Unpack[Asked]
) -> Report:
    """Compare the runs below the places and write folder/report.html with its tables and figures."""
    comparison, references = compare(places, **asked), asked.get("references")
    if not comparison.tables:
        left = "; ".join(comparison.notes) or "no finished run"
        raise UserError(f"nothing to report below {', '.join(map(str, places))}: {left}")
    heading = title or _heading(comparison)
    files.own_folder(folder, *_OURS)
    written = [*_write_tables(comparison, folder), *_write_figures(comparison, folder, references)]
    page = folder / "report.html"
    files.replace_bytes(page, html.page(heading, _body(comparison, heading, references)).encode())
    return Report(page, tuple(written), comparison)


def _heading(comparison: Comparison) -> str:
    worlds = " and ".join(dict.fromkeys(t.world for t in comparison.tables))
    groups = list(dict.fromkeys(row.name for t in comparison.tables for row in t.rows))
    whole = f"{worlds}: {' against '.join(groups)}"
    return whole if len(groups) > 1 and len(whole) <= _LONGEST_HEADING else worlds


# ---- files beside the page ------------------------------------------------------------------------------------------


def _write_tables(comparison: Comparison, folder: Path) -> list[Path]:
    groups = [row.group for table in comparison.tables for row in table.rows]
    content = {
        "summary.csv": tables.to_csv(tables.summary_records(comparison)),
        "seeds.csv": tables.to_csv(tables.seed_records(comparison)),
        "curves.csv": tables.to_csv(tables.curve_records(groups, comparison.metric)),
        "tables.md": markdown(comparison),
        "tables.tex": "\n".join(_latex(table, comparison) for table in comparison.tables),
    }
    for name, value in content.items():
        files.replace_bytes(folder / name, value.encode())
    return [folder / name for name in content]


def markdown(comparison: Comparison) -> str:
    """Tables and verdicts as a page for a repository."""
    parts = [f"Score: {comparison.metric}, {MEANING[comparison.score]}. {_method(comparison)}\n"]
    for table in comparison.tables:
        parts += [f"## {table.world}, {short_count(table.steps)} steps\n"]
        parts += [tables.to_markdown(*cells(table, comparison))]
        parts += [f"- {verdict.sentence}" for verdict in table.verdicts] + [""]
    return "\n".join(parts)


def _latex(table: Table, comparison: Comparison) -> str:
    caption = (
        f"{table.world}, {short_count(table.steps)} steps: {comparison.metric}, {MEANING[comparison.score]}."
    )
    return tables.to_latex(*cells(table, comparison), caption)


def _write_figures(comparison: Comparison, folder: Path, references: References | None) -> list[Path]:
    found = {}
    for index, table in enumerate(comparison.tables):
        end = "" if len(comparison.tables) == 1 else f"_{index + 1}"
        found[f"curves{end}.svg"] = curves_figure([r.group for r in table.rows], comparison.metric)
        found[f"scores{end}.svg"] = scores_figure(table, comparison)
        if profile := profile_figure([table], comparison):
            found[f"profile{end}.svg"] = profile
    if len(comparison.tables) > 1 and (over := profile_figure(comparison.tables, comparison, references)):
        found["profile.svg"] = over
    return [style.write_figure(figure, folder / name) for name, figure in found.items()]


# ---- the page -------------------------------------------------------------------------------------------------------


def _body(comparison: Comparison, heading: str, references: References | None) -> list[str]:
    runs = [run for table in comparison.tables for row in table.rows for run in row.group.runs]
    parts = [
        element("h1", text(heading)),
        element("p", text(f"{comparison.metric}: {MEANING[comparison.score]}."), class_="lead"),
        _facts(comparison, runs),
    ]
    parts += [_verdict(verdict, "over all worlds: ") for verdict in comparison.overall]
    if len(comparison.tables) > 1:
        parts += _over_worlds(comparison, references)
    budget = _MAX_FILMS
    for table in comparison.tables:
        section, budget = _section(table, comparison, budget)
        parts += section
    parts += _notes([*comparison.notes, *(problem.message for problem in comparison.problems)])
    return [*parts, *_provenance(comparison), *_texts(comparison), _how(comparison)]


def _facts(comparison: Comparison, runs: Sequence[RunRecord]) -> str:
    counted = sum(len(row.seeds) for table in comparison.tables for row in table.rows)
    commits = ", ".join(dict.fromkeys(run.provenance.commit for run in runs if run.provenance.commit))
    facts = [
        ("variants tried", str(comparison.variants), ""),
        ("worlds", str(len({t.world for t in comparison.tables})), ""),
        ("runs counted", str(counted), ""),
        ("commit", commits or "unknown", "text"),
    ]
    inner = "".join(
        element("div", element("dt", text(name)) + element("dd", text(value), class_=kind or "number"))
        for name, value, kind in facts
    )
    return element("dl", inner, class_="facts")


def _verdict(verdict: Verdict, before: str = "") -> str:
    title = _TITLES.get(verdict.decision, "unfinished")
    against = f"{before}P is the chance that a run of {verdict.name} beats a run of {verdict.baseline}"
    words = element("span", number(verdict.words)) + element("small", text(against), class_="quiet")
    return element(
        "div", element("b", text(title)) + words, class_=f"verdict {_CLASSES.get(verdict.decision, 'open')}"
    )


def _section(table: Table, comparison: Comparison, budget: int) -> tuple[list[str], int]:
    steps = short_count(table.steps)
    films, budget = _films(table, budget)
    parts = [
        element("h2", text(table.world)),
        element("p", text(f"{steps} steps a run"), class_="quiet"),
        *(_verdict(verdict) for verdict in table.verdicts),
        _numbers(table, comparison),
        _curves(table, comparison),
        element("div", _scores(table, comparison) + "".join(_profile(table, comparison)), class_="pair"),
        *_differences(table),
        *films,
        *_notes(table.notes),
    ]
    return parts, budget


def _numbers(table: Table, comparison: Comparison) -> str:
    head, rows = cells(table, comparison)
    shown = [
        [html.swatch(index) + text(row[0]), *(_with_small_interval(cell) for cell in row[1:])]
        for index, row in enumerate(rows)
    ]
    caption = f"{comparison.metric}: {MEANING[comparison.score]}; one number a seed"
    return html.table([text(cell) for cell in head], shown, caption=caption)


def _with_small_interval(cell: str) -> str:
    """The number first, its interval or seed smaller."""
    for bracket in (" [", " ("):
        middle, found, rest = cell.partition(bracket)
        if found:
            return f"{number(middle)} {element('small', number(bracket[1:] + rest))}"
    return number(cell)


def _curves(table: Table, comparison: Comparison) -> str:
    groups = [row.group for row in table.rows]
    wide, narrow = (curves_figure(groups, comparison.metric, width=w) for w in (_WIDE, _NARROW))
    label = f"Learning curves in {table.world}. {_spoken(table)}"
    caption = (
        "Learning curves on validation seeds; thin lines are seeds. "
        "Bands: Student's 95 % interval of the mean over seeds at each step, not drawn beyond what any evaluation "
        "reached. A seed that failed keeps its last value."
    )
    return html.picture([wide, narrow], label=label, caption=caption)


def _scores(table: Table, comparison: Comparison) -> str:
    caption = f"Every seed's score: {MEANING[comparison.score]}."
    figure = scores_figure(table, comparison, width=_HALF)
    return html.picture([figure], label=f"Scores in {table.world}. {_spoken(table)}", caption=caption)


def _profile(table: Table, comparison: Comparison) -> list[str]:
    figure = profile_figure([table], comparison, width=_HALF)
    if figure is None:
        return []
    caption = (
        "Performance profile: what share of seeds scores more than the value below (pointwise bootstrap)."
    )
    label = f"Performance profile in {table.world}. {_spoken(table)}"
    return [html.picture([figure], label=label, caption=caption)]


def _over_worlds(comparison: Comparison, references: References | None) -> list[str]:
    figure = profile_figure(comparison.tables, comparison, references, width=_HALF)
    if figure is None:
        return []
    caption = "Performance profile over all worlds, on scores normalised by the references given."
    return [html.picture([figure], label=caption, caption=caption)]


def _spoken(table: Table) -> str:
    """The picture in words."""
    rows = (f"{r.name}: mean {numbers.interval(r.mean)} over {len(r.seeds)} seeds" for r in table.rows)
    return "; ".join(rows)


def _differences(table: Table) -> list[str]:
    if not table.differences:
        return []
    head = ["setting", *(text(row.name) for row in table.rows)]
    rows = [
        [
            element("code", text(d.setting)),
            *(f"{text(v)} {element('small', text(layer))}" for _, v, layer in d.values),
        ]
        for d in table.differences
    ]
    caption = "What differs, and the layer that set it; everything else is equal"
    return [html.table(head, rows, caption=caption, texts=True)]


def _notes(notes: Sequence[str]) -> list[str]:
    if not notes:
        return []
    return [element("ul", "".join(element("li", text(note)) for note in notes), class_="notes")]


# ---- films --------------------------------------------------------------------------------------------------------


def _films(table: Table, budget: int) -> tuple[list[str], int]:
    """Films of the seed in the middle of each group: the best would flatter."""
    shown = []
    for row in table.rows:
        for run in _from_the_middle(row):
            paths = film_paths(run.folder)
            if not paths:
                continue
            for path in paths[:2]:
                piece, used = _film(path, row, run, budget)
                shown += piece
                budget -= used
            break
    if not shown:
        return [], budget
    return [element("h3", "Films"), element("div", "".join(shown), class_="films")], budget


def _from_the_middle(row: Row) -> list[RunRecord]:
    """The runs of a group, the one of the median score first."""
    score = dict(zip(row.seeds, row.scores, strict=True))
    ordered = sorted((run for run in row.group.runs if run.seed in score), key=lambda run: score[run.seed])
    middle = (len(ordered) - 1) / 2
    return sorted(ordered, key=lambda run: abs(ordered.index(run) - middle))


def film_paths(folder: Path) -> list[Path]:
    """Films and frames that a run keeps in its videos folder; links are left alone."""
    try:
        entries = sorted(os.scandir(folder / "videos"), key=lambda entry: entry.name)
    except OSError:
        return []
    regular = [entry for entry in entries if entry.is_file(follow_symlinks=False)]
    return [Path(entry.path) for entry in regular if Path(entry.name).suffix.lower() in _FILMS]


def _film(path: Path, row: Row, run: RunRecord, budget: int) -> tuple[list[str], int]:
    score = dict(zip(row.seeds, row.scores, strict=True))[run.seed]
    caption = f"{row.name}, seed {run.seed}: {numbers.number(score)} ({path.name})"
    try:
        content = read_regular(path, min(_MAX_FILM, budget))
    except CheckpointError as error:
        return [element("p", text(f"{caption} is not shown: {error}"), class_="quiet")], 0
    inner = html.embedded(path, content) + element("figcaption", number(caption))
    return [element("figure", inner, class_="card")], len(content)


# ---- where it comes from ------------------------------------------------------------------------------------------


def _provenance(comparison: Comparison) -> list[str]:
    rows = []
    for table in comparison.tables:
        for row in table.rows:
            for run in row.group.runs:
                rows.append(_run_cells(table, row, run))
    head = ["group", "seed", "world", "state", "steps", "score", "commit", "started", "command"]
    versions = dict.fromkeys(
        ", ".join(
            f"{k} {v}" for k, v in [("python", run.provenance.python), *run.provenance.packages.items()]
        )
        for table in comparison.tables
        for row in table.rows
        for run in row.group.runs
    )
    parts = [element("h2", "Every run"), html.table(head, rows, caption="One line for each run", texts=True)]
    parts += [element("p", text(f"Versions: {v}"), class_="quiet") for v in versions]
    machines = dict.fromkeys(
        run.provenance.cpu for t in comparison.tables for row in t.rows for run in row.group.runs
    )
    return [*parts, *(element("p", text(f"Machine: {m}"), class_="quiet") for m in machines if m)]


def _run_cells(table: Table, row: Row, run: RunRecord) -> list[str]:
    score = dict(zip(row.seeds, row.scores, strict=True)).get(run.seed)
    digits = numbers.decimals(*(value for other in table.rows for value in other.scores))
    state = run.state + (f" {run.reason}" if run.reason else "")
    cells_ = [row.name, run.seed, table.world, state, f"{run.step:,}"]
    cells_ += [
        "-" if score is None else numbers.number(score, digits),
        run.provenance.commit,
        run.provenance.started[:16],
    ]
    return [*(number(str(cell)) for cell in cells_), element("code", text(typed(run.provenance.command)))]


def typed(command: str) -> str:
    """A command as a user types it: without the interpreter and the place of the run directory."""
    try:
        words = shlex.split(command)
    except ValueError:
        return command
    start = words.index("train") if "train" in words else 0
    return shlex.join(["twofold", *(w for w in words[start:] if not w.startswith("--run="))]) if words else ""


def _texts(comparison: Comparison) -> list[str]:
    """The tables to copy, as they lie beside this page."""
    latex = "\n".join(_latex(table, comparison) for table in comparison.tables)
    csv = tables.to_csv(tables.summary_records(comparison))
    parts = [element("h2", "The same tables to copy")]
    for name, content in (("Markdown", markdown(comparison)), ("LaTeX", latex), ("CSV", csv)):
        inner = element("summary", name) + element("pre", text(content), tabindex="0")
        parts.append(element("details", inner))
    return parts


def _method(comparison: Comparison) -> str:
    return (
        f"{comparison.variants} variant{'s' if comparison.variants != 1 else ''} tried. Every run is one number; "
        "intervals are 95 % and over runs, never over episodes: of means Student's, of interquartile means and "
        "P (the chance that a run of one beats a run of the other) by the stratified bootstrap, of shares Wilson's. "
        "A verdict needs ten seeds each, an interval of P that leaves out 0.5, and a permutation test below 0.05, "
        "corrected by Holm for the number of comparisons."
    )


def _how(comparison: Comparison) -> str:
    return element("h2", "How the numbers are made") + element("p", text(_method(comparison)), class_="quiet")
