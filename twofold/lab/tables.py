"""The numbers of a comparison as records, and records as CSV, Markdown and LaTeX."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence

from twofold.base.values import Values
from twofold.lab.compare import Comparison, Row, Table
from twofold.lab.groups import Group
from twofold.lab.statistics import Estimate

Record = Values
_LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_LATEX |= {character: f"\\{character}" for character in "&%$#_{}"}


def summary_records(comparison: Comparison) -> list[Record]:
    """One record for each group: every number with its interval and the seeds behind it."""
    return [_summary(table, row, comparison) for table in comparison.tables for row in table.rows]


def _summary(table: Table, row: Row, comparison: Comparison) -> Record:
    verdict = next((v.words for v in table.verdicts if v.name == row.name), "")
    run = row.group.runs[0]
    return {
        "world": table.world,
        "steps": table.steps,
        "group": row.name,
        "metric": comparison.metric,
        "score": comparison.score,
        "seeds": len(row.seeds),
        **_ends("mean", row.mean),
        **_ends("iqm", row.iqm),
        "worst": row.worst[1],
        "worst_seed": row.worst[0],
        **(_ends("reaching", row.reaching) if row.reaching else {}),
        **(_ends("optimality_gap", row.gap) if row.gap else {}),
        "failed": len(row.failed),
        "unfinished": len(row.unfinished),
        "verdict": verdict,
        "variants_tried": comparison.variants,
        "commit": run.provenance.commit,
        "versions": " ".join(f"{k}={v}" for k, v in run.provenance.packages.items()),
        "command": run.provenance.command,
    }


def _ends(name: str, estimate: Estimate | None) -> Record:
    if estimate is None:
        return {name: "", f"{name}_low": "", f"{name}_high": ""}
    ends = {f"{name}_low": estimate.low, f"{name}_high": estimate.high}
    return {name: estimate.value, **{k: "" if v is None else v for k, v in ends.items()}}


def seed_records(comparison: Comparison) -> list[Record]:
    """One record for each run that counts."""
    return [
        {
            "world": table.world,
            "steps": table.steps,
            "group": row.name,
            "seed": seed,
            comparison.metric: score,
            "failed": int(seed in row.failed),
        }
        for table in comparison.tables
        for row in table.rows
        for seed, score in zip(row.seeds, row.scores, strict=True)
    ]


def curve_records(groups: Sequence[Group], metric: str) -> list[Record]:
    """Every evaluation of every run: what the curves are drawn from."""
    found = []
    for group in groups:
        for run in group.runs:
            curve = run.curve(metric)
            points = [] if curve is None else zip(curve.steps.tolist(), curve.mean.tolist(), strict=True)
            named = {"world": group.world, "group": group.name, "seed": run.seed}
            found += [{**named, "step": step, metric: value} for step, value in points]
    return found


# ---- formats ------------------------------------------------------------------------------------------------------


def to_csv(records: Sequence[Record]) -> str:
    """Numbers in full; a text that a spreadsheet would take for a formula is quoted."""
    columns = list(dict.fromkeys(key for record in records for key in record))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(map(_cell, columns))
    writer.writerows([_cell(record.get(column, "")) for column in columns] for record in records)
    return out.getvalue()


def _cell(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") else value


def to_markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose numbers stand to the right."""
    line = "|".join(["---", *["--:"] * (len(head) - 1)])
    body = [" | ".join(_bare(cell) for cell in row) for row in rows]
    return "\n".join(
        [f"| {' | '.join(map(_bare, head))} |", f"|{line}|", *(f"| {row} |" for row in body), ""]
    )


def _bare(text: str) -> str:
    """Nothing in a cell may end the cell or the line, or begin a tag."""
    return " ".join(text.replace("|", r"\|").replace("<", "&lt;").split())


def to_latex(head: Sequence[str], rows: Sequence[Sequence[str]], caption: str) -> str:
    """A table for \\usepackage{booktabs}."""
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{latex(caption)}}}",
        rf"\begin{{tabular}}{{l{'r' * (len(head) - 1)}}}",
        r"\toprule",
        *(
            " & ".join(latex(cell) for cell in row) + r" \\" + (r" \midrule" if row is head else "")
            for row in [head, *rows]
        ),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
        "",
    ]
    return "\n".join(lines)


def latex(text: str) -> str:
    """Text with every character that TeX would obey made plain; minus signs as minus signs."""
    plain = "".join(_LATEX.get(c, c) for c in " ".join(text.split()))
    return re.sub(r"(?<!\w)-(?=\d)", "$-$", plain).replace(">=", r"$\geq$")
