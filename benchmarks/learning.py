"""Keep what some runs show as a result: `python benchmarks/learning.py NAME RUNS ... [--note=TEXT] [--score=last]`.

The runs come from `twofold train --seeds=...` or `twofold lab benchmarks/experiments/NAME.yaml`; the numbers are those
of `twofold report`. Writes benchmarks/results/DOMAIN/NAME.md (tables and verdicts, commands, commit, versions),
NAME.csv (every evaluation of every seed), NAME_seeds.csv (the score of each seed) and NAME.png.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from index import folder_of
from keep import typed

from twofold.base.statistics import half_interval
from twofold.lab import tables
from twofold.lab.compare import Comparison, compare
from twofold.lab.figures import curves_figure
from twofold.lab.report import markdown
from twofold.lab.runs import RunRecord
from twofold.show import style

LAST = 10  # evaluations at the end whose mean and swing are told


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name")
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--note", default="", help="a sentence for the page")
    parser.add_argument("--score", choices=("test", "last", "area"), default="test")
    options = parser.parse_args()
    found = compare(options.runs, score=options.score)
    groups = [row.group for table in found.tables for row in table.rows]
    out = folder_of(options.name)
    out.mkdir(parents=True, exist_ok=True)
    (out / f"{options.name}.csv").write_text(tables.to_csv(tables.curve_records(groups, found.metric)))
    (out / f"{options.name}_seeds.csv").write_text(tables.to_csv(tables.seed_records(found)))
    style.write_figure(curves_figure(groups, found.metric), out / f"{options.name}.png")
    (out / f"{options.name}.md").write_text(page(options.name, options.note, found))
    print(out / f"{options.name}.md")
    return 0


def page(name: str, note: str, found: Comparison) -> str:
    runs = [run for table in found.tables for row in table.rows for run in row.group.runs]
    first = runs[0].provenance
    packages = ", ".join(f"{k} {v}" for k, v in first.packages.items())
    commits = ", ".join(dict.fromkeys(run.provenance.commit for run in runs))
    return "\n".join([
        f"# {name}", "", *([note, ""] if note else []), markdown(found),
        f"## Every seed, and its last {LAST} evaluations", "",
        f"| group | seed | steps | mean of the last {LAST} | their standard deviation | command |",
        "|---|---|---|---|---|---|",
        *(_line(row.name, run) for table in found.tables for row in table.rows for run in row.group.runs), "",
        *(f"Left out: {message}" for message in (*found.notes, *(p.message for p in found.problems))),
        f"Versions: {packages}; commit {commits}. Machine: {first.cpu}.",
        f"Data: `{name}.csv`, `{name}_seeds.csv`. ![curves]({name}.png)", "",
    ])  # fmt: skip


def _line(name: str, run: RunRecord) -> str:
    values = run.curves[run.headline]["return"].mean[-LAST:]
    half = half_interval(float(values.std(ddof=1)), len(values)) if len(values) > 1 else 0.0
    middle = f"{values.mean():.1f} ± {half:.1f}"
    return f"| {name} | {run.seed} | {run.step:,} | {middle} | {values.std():.1f} | `{typed(run.provenance.command)}` |"


if __name__ == "__main__":
    raise SystemExit(main())
