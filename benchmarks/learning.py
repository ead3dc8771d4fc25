"""Record the learning curves of several seeds: `python benchmarks/learning.py NAME RUN ...`.

Writes benchmarks/results/NAME.csv (every evaluation of every seed), NAME.png (mean with its 95 % interval) and NAME.md
(the level at the end and on test seeds, commands, versions). Runs of different package versions are refused.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from twofold.base.statistics import half_interval
from twofold.show.plot import curve, draw_curves
from twofold.store.policy_file import unseal
from twofold.store.run import Run

RESULTS = Path(__file__).resolve().parent / "results"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name")
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--note", default="", help="a sentence for the page")
    arguments = parser.parse_args()
    origins = [json.loads((run / "provenance.json").read_text()) for run in arguments.runs]
    if len({json.dumps(o["packages"]) for o in origins}) > 1:
        print("these runs have different package versions: they cannot be pooled", file=sys.stderr)
        return 1
    RESULTS.mkdir(exist_ok=True)
    write_csv(arguments.name, arguments.runs)
    draw_curves(arguments.runs, RESULTS / f"{arguments.name}.png", mean=True)
    (RESULTS / f"{arguments.name}.md").write_text(
        page(arguments.name, arguments.runs, origins, arguments.note)
    )
    print(RESULTS / f"{arguments.name}.md")
    return 0


def write_csv(name: str, runs: list[Path]) -> None:
    with open(RESULTS / f"{name}.csv", "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["seed", "step", "return_mean"])
        for run in runs:
            seed = Run.open(run).resolved.config.seed
            table.writerows(
                [seed, int(step), f"{value:.2f}"] for step, value in zip(*curve(run), strict=True)
            )


def page(name: str, runs: list[Path], origins: list[dict[str, Any]], note: str) -> str:
    rows, lasts, tens, tests = [], [], [], []
    for run, origin in zip(runs, origins, strict=True):
        steps, values = curve(run)
        test = json.loads((run / "test.json").read_text())
        first = next(v for k, v in test.items() if k != "seeds")
        score = first["return"]
        success = f"{first['success']['mean']:.1%}" if "success" in first else "-"
        lasts.append(values[-1])
        tens.append(float(values[-10:].mean()))
        tests.append(score["mean"])
        cells = (Run.open(run).resolved.config.seed, f"{steps[-1]:,}", f"{minutes(run):.0f}", f"{values[-1]:.1f}",
                 f"{tens[-1]:.1f}", len(values), chosen(run), f"{score['mean']:.1f} ± {score['std']:.1f}", success,
                 f"{score['episodes']:.0f}", f"`{command(origin['command'])}`")  # fmt: skip
        rows.append(f"| {' | '.join(map(str, cells))} |")
    packages = ", ".join(f"{k} {v}" for k, v in origins[0]["packages"].items())
    machine = origins[0]["machine"]
    over_seeds = [
        f"Mean over seeds at the end: **{interval(lasts)}**; of the last ten evaluations: **{interval(tens)}**; "
        f"best policies on test seeds: **{interval(tests)}** (mean and 95 % interval of the mean over seeds).",
        "",
    ]
    if len(runs) == 1:
        over_seeds = []  # one seed has no interval
    return "\n".join([
        f"# {name}", "", note, "",
        "| seed | steps | minutes | last policy, validation seeds | mean of the last ten | candidates "
        "| chosen, of step | it on test seeds | success | episodes | command |",
        "|---|---|---|---|---|---|---|---|---|---|---|", *rows, "",
        *over_seeds,
        f"Versions: {packages}; commit {origins[0]['commit']}. Machine: {machine['cpu']}, {machine['cores']} cores.",
        f"Data: `{name}.csv`. Picture: ![curves]({name}.png)", "",
    ])  # fmt: skip


def chosen(run: Path) -> str:
    """The step of the policy that was tested."""
    _, about = unseal(run / "best.safetensors")
    return f"{about['score']['step']:,}"


def minutes(run: Path) -> float:
    """Wall-clock of the training, evaluations included, the test not."""
    lines = [json.loads(line) for line in (run / "timing.jsonl").read_text().splitlines()]
    steps = np.diff([0, *(line["step"] for line in lines)])
    speeds = np.array([line["steps_per_second"] for line in lines])
    return float((steps[speeds > 0] / speeds[speeds > 0]).sum()) / 60


def interval(values: list[float]) -> str:
    half = half_interval(float(np.std(values, ddof=1)) if len(values) > 1 else 0.0, len(values))
    return f"{np.mean(values):.1f} ± {half:.1f}"


def command(text: str) -> str:
    """The command as a user types it: without the interpreter and the place of the run directory."""
    words = text.split()
    start = next((i for i, word in enumerate(words) if word == "train"), 0)
    return " ".join(["twofold", *(w for w in words[start:] if not w.startswith("--run="))])


if __name__ == "__main__":
    raise SystemExit(main())
