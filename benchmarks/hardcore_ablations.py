"""What each part of `td3_hardcore_plus` brings: one taken away at a time, 1.5M decisions each, the same seed.

python benchmarks/hardcore_ablations.py --runs=DIR --whole RUN... --long RUN [-- PART ...]
PART is a word of a row's name (default: all). Runs can be stopped and resumed; finished ones are not repeated.
`--whole` are runs of the whole recipe, `--long` one of `td3_hardcore_long`, compared up to the same step: there
falls have stayed cheap and the learning rate whole. Writes benchmarks/results/hardcore_ablations.*.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from typing import Any

import numpy as np

from twofold import api
from twofold.show.plot import curve
from twofold.store.provenance import provenance
from twofold.store.run import Run

RESULTS = Path(__file__).resolve().parent / "results"
STEPS = 1_500_000
SHORT = {"trainer.steps": STEPS, "trainer.finalists": 1}
WITHOUT: dict[str, dict[str, Any]] = {
    "one-step returns (n_step 1)": {"learner.n_step": 1},
    "without lidar history": {"env_args.lidar_history": []},
    "a fall pays all of its -100 from the start": {"learner.reward_floor": None},
    "without layer norm": {"networks.critic_layer_norm": False},
}  # fmt: skip


def main() -> None:
    typed = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    typed.add_argument("parts", nargs="*", metavar="PART")
    typed.add_argument("--runs", type=Path, default=Path("runs/hardcore_ablations"))
    typed.add_argument("--whole", type=Path, nargs="+", required=True)
    typed.add_argument("--long", type=Path)
    typed.add_argument("--seed", type=int, default=1)
    options = typed.parse_args()
    chosen = [n for n in WITHOUT if not options.parts or any(part in n for part in options.parts)]
    for name in chosen:
        folder = options.runs / f"{slug(name)}_seed{options.seed}"
        settings = SHORT | WITHOUT[name]
        api.train("td3_hardcore_plus", "walker_hardcore", run=folder, seed=options.seed, **settings)
    write(rows(options.whole, options.long, options.runs, options.seed), options.seed)


def slug(name: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in name)


def rows(whole: list[Path], long: Path | None, runs: Path, seed: int) -> list[tuple[str, Path]]:
    """Name and run of every row that has come far enough."""
    found = [(f"the whole recipe, seed {Run.open(run).resolved.config.seed}", run) for run in whole]
    found += [(name, runs / f"{slug(name)}_seed{seed}") for name in WITHOUT]
    found += [("falls stay at -2, learning rate at its full value", long)] if long else []
    return [
        (name, run) for name, run in found if (run / "config.json").exists() and curve(run)[0][-1] >= STEPS
    ]


def write(found: list[tuple[str, Path]], seed: int) -> None:
    """Table, data and picture of the validations up to STEPS."""
    table, curves = [], {}
    for name, run in found:
        (steps, returns), (_, success) = curve(run), curve(run, metric="success")
        upto = (steps <= STEPS) & (steps % 100_000 == 0)
        curves[name] = steps[upto], returns[upto], success[upto]
        middle = [f"{returns[steps == at][0]:.0f}" for at in (500_000, 1_000_000)]
        end = f"{returns[upto][-3:].mean():.0f}", f"{success[upto][-3:].mean():.0%}"
        table.append(f"| {' | '.join((name, *middle, *end))} |")
    with open(RESULTS / "hardcore_ablations.csv", "w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["recipe", "step", "return_mean", "success"])
        for name, columns in curves.items():
            lines.writerows([name, int(s), f"{r:.2f}", f"{w:.2f}"] for s, r, w in zip(*columns, strict=True))
    draw(curves)
    (RESULTS / "hardcore_ablations.md").write_text(page(table, [n for n in WITHOUT if n not in curves], seed))
    print(RESULTS / "hardcore_ablations.md")


def page(table: list[str], missing: list[str], seed: int) -> str:
    origin = provenance("")
    packages = ", ".join(f"{k} {v}" for k, v in origin["packages"].items())
    return "\n".join([
        "# hardcore_ablations", "",
        f"One part of `td3_hardcore_plus` taken away at a time, seed {seed}, the first 1.5M of the recipe's 2M "
        "decisions, 100 validation terrains, raw reward. One run each: differences smaller than those between the "
        "seeds of the whole recipe say nothing. The last row is `td3_hardcore_long`, which up to here differs in these "
        "two settings. What each part does: [docs/hardcore.md](../../docs/hardcore.md).", "",
        "| recipe | return after 0.5M | after 1M | mean of 1.3M to 1.5M | success there |",
        "|---|---|---|---|---|", *table, "", *([f"Not run: {', '.join(missing)}.", ""] if missing else []),
        "The averaged actor, which training never sees, is held against the newest one of the same runs in "
        "[hardcore_average.md](hardcore_average.md).", "",
        "Command: `python benchmarks/hardcore_ablations.py --whole RUN... --long RUN`.",
        f"Versions: {packages}. Machine: {origin['machine']['cpu']}, {origin['machine']['cores']} cores.",
        "Data: `hardcore_ablations.csv`. Picture: ![curves](hardcore_ablations.png)", "",
    ])  # fmt: skip


def draw(curves: dict[str, tuple[Any, ...]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 6), layout="constrained")
    seeds = iter(("k-", "k--", "k:", "k-."))
    for name, (steps, returns, _) in curves.items():
        style = next(seeds) if name.startswith("the whole") else "-"
        axes.plot(np.asarray(steps) / 1e6, returns, style, label=name)
    axes.set_xlabel("million decisions")
    axes.set_ylabel("return on 100 validation terrains")
    axes.grid(alpha=0.3)
    figure.legend(fontsize="small", loc="outside lower center", ncols=2)
    figure.savefig(RESULTS / "hardcore_ablations.png", dpi=130)
    plt.close(figure)


if __name__ == "__main__":
    main()
