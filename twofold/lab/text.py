"""Comparisons as plain text: tables that line up in any terminal, and in a file."""

from __future__ import annotations

from collections.abc import Sequence

from twofold.base.messages import printable
from twofold.lab import numbers
from twofold.lab.compare import MEANING, Comparison, Row, Table
from twofold.lab.statistics import FEW
from twofold.show.style import short_count


def render(comparison: Comparison) -> str:
    """Everything a person needs to judge a comparison, in one page."""
    lines = [f"score      {comparison.metric}: {MEANING[comparison.score]}; one number a seed"]
    lines += [f"note       {note}" for note in comparison.notes]
    lines += [f"left out   {problem.message}" for problem in comparison.problems]
    for table in comparison.tables:
        lines += ["", *_table(table, comparison)]
    if comparison.overall:
        worlds = len(comparison.tables)
        lines += ["", f"over {worlds} worlds", *(f"  {v.sentence}" for v in comparison.overall)]
    return "\n".join(lines)


def _table(table: Table, comparison: Comparison) -> list[str]:
    physics = ", ".join(f"{name} {version}" for name, version in table.physics.items())
    lines = [f"{table.world}, {short_count(table.steps)} steps"]
    head, rows = cells(table, comparison)
    lines += [f"  {line}" for line in aligned([head, *rows])]
    lines += [""] + [f"  {v.sentence}" for v in table.verdicts] if table.verdicts else []
    if table.differences:
        lines += ["", "  differs"]
        names = [row.name for row in table.rows]
        body = [
            [d.setting, *(f"{value} ({layer})" for _, value, layer in d.values)] for d in table.differences
        ]
        lines += [f"  {line}" for line in aligned([["", *names], *body], left=range(len(names) + 1))]
    lines += ["", f"  versions equal: {physics}"] if physics else []
    return [*lines, *(f"  note: {note}" for note in table.notes)]


def cells(table: Table, comparison: Comparison) -> tuple[list[str], list[list[str]]]:
    """Head and rows of the table, as text and the report show it."""
    digits = numbers.decimals(*(value for row in table.rows for value in row.scores))
    head = ["", "seeds", "mean [95 %, t]", "IQM [95 %]", "worst seed"]
    if comparison.threshold is not None:
        head.append(f"seeds >= {comparison.threshold:g}")
    if any(row.gap for row in table.rows):
        head.append("optimality gap")
    return head, [_cells(row, digits, head) for row in table.rows]


def _cells(row: Row, digits: int, head: list[str]) -> list[str]:
    seed, score = row.worst
    found = [
        row.name,
        _count(row),
        numbers.interval(row.mean, digits),
        numbers.interval(row.iqm, digits) if row.iqm else f"fewer than {FEW} seeds",
        f"{numbers.number(score, digits)} (seed {seed})",
    ]
    if row.reaching:
        found.append(numbers.interval(row.reaching, 2))
    if "optimality gap" in head:
        found.append(numbers.interval(row.gap, 3) if row.gap else "-")
    return found


def _count(row: Row) -> str:
    """How many seeds count, and what is the matter with the others."""
    parts = [str(len(row.seeds))]
    if row.failed:
        parts.append(f"{len(row.failed)} failed")
    if row.unfinished:
        parts.append(f"{len(row.unfinished)} unfinished")
    return ", ".join(parts)


def aligned(rows: Sequence[Sequence[str]], left: Sequence[int] = (0,)) -> list[str]:
    """Columns under each other, to the right but for those in `left`."""
    rows = [[_one_line(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        padded = [
            cell.ljust(w) if i in left else cell.rjust(w)
            for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(padded).rstrip())
    return lines


def _one_line(cell: str) -> str:
    """A cell is one line and says nothing to the terminal, whatever a folder is called."""
    return printable(cell).replace("\n", "\\n").replace("\t", "\\t")
