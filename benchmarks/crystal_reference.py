"""Learning curves of the agent of Trukhan et al. (arXiv 2502.08405), from finished runs.

Writes benchmarks/results/crystal/crystal_reference.{json,png}:

TWOFOLD_DATA=... twofold train --config=td3_crystal_reference --env-config=crystal_alfe --seed=1 --run=runs/theirs
python benchmarks/crystal_reference.py "their learning rates=runs/theirs" ...
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from twofold.crystal.export import as_typed
from twofold.store.run import Run

RESULTS = Path(__file__).parent / "results" / "crystal"


def read(folder: Path) -> dict[str, Any]:
    """One run: how it was made, its validation curve and its test."""
    run = Run.open(folder)
    made = json.loads((folder / "provenance.json").read_text())
    test = json.loads((folder / "test.json").read_text())["eval"]
    curve = [
        {
            "step": entry["step"],
            "relaxed": entry["relaxed"]["mean"],
            "steps": entry["length"]["mean"],
            "return": entry["return"]["mean"],
            "episodes": entry["return"]["episodes"],
        }
        for entry in run.evaluations.read()
    ]
    return {
        "command": as_typed(made["command"]),
        "seed": run.resolved.config.seed,
        "versions": made["packages"],
        "commit": made["commit"],
        "validation": curve,
        "test": {
            "relaxed": test["relaxed"]["mean"],
            "steps": test["length"]["mean"],
            "steps, 95 %": [test["length"]["low"], test["length"]["high"]],
            "final force": test["final_force"]["mean"],
            "episodes": test["return"]["episodes"],
        },
    }


def plot(runs: dict[str, Any], path: Path) -> None:
    figure = Figure(figsize=(11, 4.6), layout="constrained")
    share, steps = figure.subplots(1, 2)
    for name, run in runs.items():
        at = [entry["step"] for entry in run["validation"]]
        share.plot(at, [100 * entry["relaxed"] for entry in run["validation"]], marker="o", label=name)
        steps.plot(at, [entry["steps"] for entry in run["validation"]], marker="o", label=name)
    share.axhline(80, color="black", linestyle=":", linewidth=1)
    share.set(xlabel="training steps", ylabel="validation episodes relaxed, %", ylim=(0, 104))
    steps.set(xlabel="training steps", ylabel="mean steps of an episode (at most 100)", ylim=(0, 104))
    figure.legend(*steps.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    figure.savefig(path, dpi=130)


def main() -> None:
    if not sys.argv[1:] or not all("=" in text for text in sys.argv[1:]):
        sys.exit(__doc__)
    runs = {name: read(Path(folder)) for name, _, folder in (text.partition("=") for text in sys.argv[1:])}
    (RESULTS / "crystal_reference.json").write_text(json.dumps(runs, indent=1) + "\n")
    plot(runs, RESULTS / "crystal_reference.png")


if __name__ == "__main__":
    main()
