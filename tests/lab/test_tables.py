"""Tables to copy: numbers in full, and no name can break out of a cell."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from twofold.lab.compare import compare
from twofold.lab.groups import group_runs
from twofold.lab.runs import read_runs
from twofold.lab.tables import (
    curve_records,
    latex,
    seed_records,
    summary_records,
    to_csv,
    to_latex,
    to_markdown,
)

from .made import make_group


def test_a_summary_holds_every_number_with_its_interval_and_its_source(tmp_path: Path) -> None:
    make_group(tmp_path, [1.0, 2.0, 3.0, 4.0, 5.0], command="twofold train gamma=0.9")
    comparison = compare([tmp_path])
    (row,) = csv.DictReader(io.StringIO(to_csv(summary_records(comparison))))
    estimate = comparison.tables[0].rows[0].mean
    assert (float(row["mean"]), float(row["mean_low"])) == (estimate.value, estimate.low)
    assert row["seeds"] == "5" and row["variants_tried"] == "1" and row["commit"] == "14b527e"
    assert row["command"] == "twofold train gamma=0.9 seed=1"
    assert "gymnasium=1.4.0" in row["versions"]


def test_seeds_and_curves_are_there_one_by_one(tmp_path: Path) -> None:
    make_group(tmp_path, [1.5, 2.0])
    assert [(r["seed"], r["return"]) for r in seed_records(compare([tmp_path]))] == [(1, 1.5), (2, 2.0)]
    groups = group_runs(read_runs([tmp_path]).runs)
    assert [(r["seed"], r["step"], r["return"]) for r in curve_records(groups, "return")][:3] == [
        (1, 0, 0.0),
        (1, 500, 0.75),
        (1, 1000, 1.5),
    ]


def test_csv_does_not_let_a_name_become_a_formula() -> None:
    assert to_csv([{"group": "=cmd()", "mean": -1.5}]) == "group,mean\n'=cmd(),-1.5\n"


def test_markdown_cells_stay_cells() -> None:
    assert to_markdown(["", "n"], [["a|b\n<b>", "5"]]) == "|  | n |\n|---|--:|\n| a\\|b &lt;b> | 5 |\n"


def test_latex_obeys_nothing_from_a_name() -> None:
    assert latex(r"a_b & 50 % \input{x}") == r"a\_b \& 50 \% \textbackslash{}input\{x\}"
    assert latex("-616 [-990, -243]") == "$-$616 [$-$990, $-$243]"
    lines = to_latex(["", "mean"], [["A", "1"]], "scores").splitlines()
    assert lines[3] == r"\begin{tabular}{lr}"
    assert lines[5:7] == [r" & mean \\ \midrule", r"A & 1 \\"]
