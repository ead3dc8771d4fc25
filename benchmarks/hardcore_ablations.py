"""What each part of `td3_hardcore_plus` brings: `python benchmarks/hardcore_ablations.py` writes the page again.

hardcore_ablations.csv holds every evaluation, hardcore_ablations.txt the words of the page. The runs themselves are an
experiment of the lab: `twofold lab benchmarks/experiments/hardcore_ablations.yaml`.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from twofold.show import style

RESULTS = Path(__file__).resolve().parent / "results" / "control"
Curves = dict[str, np.ndarray]  # recipe -> step, return, success


def curves() -> Curves:
    """Every evaluation that was recorded."""
    found: dict[str, list[list[float]]] = {}
    with open(RESULTS / "hardcore_ablations.csv") as file:
        for row in csv.DictReader(file):
            line = [float(row[name]) for name in ("step", "return_mean", "success")]
            found.setdefault(row["recipe"], []).append(line)
    return {name: np.array(lines) for name, lines in found.items()}


def page() -> str:
    """Returns on the way, and return and success over the last three evaluations."""
    rows = []
    for name, curve in curves().items():
        middle = [f"{curve[curve[:, 0] == at, 1][0]:.0f}" for at in (500_000, 1_000_000)]
        end = f"{curve[-3:, 1].mean():.0f}", f"{curve[-3:, 2].mean():.0%}"
        rows.append(f"| {' | '.join((name, *middle, *end))} |")
    return (RESULTS / "hardcore_ablations.txt").read_text().replace("{table}", "\n".join(rows))


def draw(out: Path) -> Path:
    """The seeds of the whole recipe in black, what lacks a part in colours."""
    figure, panels = style.new_figure(8.0, 6.0)
    axes, dashes, others = panels[0, 0], iter(("-", "--", ":")), 0
    for name, curve in curves().items():
        whole = name.startswith("the whole")
        colour, line = (style.INK, next(dashes)) if whole else (style.colour(others), "-")
        others += not whole
        axes.plot(curve[:, 0], curve[:, 1], line, color=colour, linewidth=1.6, label=name)
    style.title(axes, "Parts of td3_hardcore_plus", "BipedalWalkerHardcore-v3, one run each")
    style.steps_axis(axes, "decisions")
    axes.set_ylabel("return on 100 validation terrains")
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    return style.write_figure(figure, out)


def main() -> None:
    (RESULTS / "hardcore_ablations.md").write_text(page())
    draw(RESULTS / "hardcore_ablations.png")


if __name__ == "__main__":
    main()
