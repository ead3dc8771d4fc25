"""td3_plus beside SBX's SAC: `python benchmarks/sac.py train | cost | page`.

    python benchmarks/sac.py train --seeds 1 2     # records of SAC in benchmarks/runs/sac; those that are there stay
    python benchmarks/sac.py cost                  # seconds a step of both, taking turns, on one core
    python benchmarks/sac.py page                  # benchmarks/results/control/sac.md, .csv and .png

`page` reads SAC's records and those of `benchmarks/experiments/td3_plus_300k.yaml`. The minutes of its second row are
steps times the seconds a step that `cost` found, since both were trained beside other work.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import bench_facts
import numpy as np

from twofold.base.statistics import half_interval
from twofold.core.experience import Array
from twofold.lab import tables
from twofold.lab.runs import read_runs
from twofold.show import style
from twofold.store.provenance import provenance

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HERE = Path(__file__).resolve().parent
RESULTS, RUNS = HERE / "results" / "control", HERE / "runs"
BODIES = {"hopper": "Hopper-v5", "walker2d": "Walker2d-v5", "halfcheetah": "HalfCheetah-v5"}
COSTS = {"td3_plus": "twofold-plus", "SAC (SBX)": "sbx-sac"}  # as bench_systems.py calls them
LAST = 10  # evaluations at the end whose mean is told

Runs = dict[int, tuple[Array, Array]]  # by seed: steps and returns of the evaluations


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("train", "cost", "page"))
    parser.add_argument("--bodies", nargs="+", choices=BODIES, default=list(BODIES))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--steps", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    if options.what == "train":
        train(options.bodies, options.seeds, options.steps)
    elif options.what == "cost":
        _write(RESULTS / "sac_cost.json", cost(options.rounds))
    else:
        page()
    return 0


def train(bodies: list[str], seeds: list[int], steps: int) -> None:
    """The runs that have no record yet, one after the other."""
    python = bench_facts.peers_python()
    for seed in seeds:
        for body in bodies:
            out = RUNS / "sac" / body / f"seed_{seed}"
            if not out.exists():
                print(f"{body}, seed {seed}", flush=True)
                asked = [f"--seed={seed}", f"--steps={steps}", f"--out={out}"]
                subprocess.run([python, HERE / "sac_run.py", BODIES[body], *asked], check=True)


def cost(rounds: int) -> dict[str, Any]:
    """Median seconds of a step of each, in processor time, which busy neighbours touch least."""
    peers = bench_facts.peers_python()
    seconds: dict[str, list[float]] = {name: [] for name in COSTS}
    for _ in range(rounds):
        for name, system in COSTS.items():
            python = sys.executable if system.startswith("twofold") else peers
            asked = [python, HERE / "bench_systems.py", system, "--threads=1"]
            timing = json.loads(subprocess.run(asked, check=True, capture_output=True, text=True).stdout)
            seconds[name].append(1 / timing["steps_per_cpu_second"])
            print(f"{name}: {1e3 * seconds[name][-1]:.2f} ms a step", flush=True)
    found = {name: round(statistics.median(taken), 6) for name, taken in seconds.items()}
    return {"seconds_per_step": found, "rounds": seconds, "made_with": provenance(" ".join(sys.argv))}


# ---- the page -------------------------------------------------------------------------------------------------------


def page() -> None:
    per_step = json.loads((RESULTS / "sac_cost.json").read_text())["seconds_per_step"]
    found = {body: {"td3_plus": ours(body), "SAC (SBX)": peers(body)} for body in BODIES}
    style.write_figure(_figure(found, per_step), RESULTS / "sac.png")
    (RESULTS / "sac.csv").write_text(tables.to_csv(list(_rows(found))))
    (RESULTS / "sac.md").write_text("\n".join(_page(found, per_step)))
    print(RESULTS / "sac.md")


def ours(body: str) -> Runs:
    records, _ = read_runs([RUNS / "td3_plus_300k" / body])
    curves = {run.seed: run.curves[run.headline]["return"] for run in records}
    return {seed: (curve.steps, curve.mean) for seed, curve in sorted(curves.items())}


def peers(body: str) -> Runs:
    found: Runs = {}
    for path in sorted((RUNS / "sac" / body).glob("seed_*/evaluations.jsonl")):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        steps, means = [x["step"] for x in lines], [statistics.mean(x["returns"]) for x in lines]
        found[int(path.parent.name.partition("_")[2])] = (np.array(steps), np.array(means))
    return found


def _rows(found: Mapping[str, Mapping[str, Runs]]) -> Iterator[dict[str, Any]]:
    for body, systems in found.items():
        for name, runs in systems.items():
            for seed, (steps, returns) in runs.items():
                for step, value in zip(steps, returns, strict=True):
                    yield {
                        "body": body,
                        "system": name,
                        "seed": seed,
                        "step": int(step),
                        "return": round(float(value), 1),
                    }


def _figure(found: Mapping[str, Mapping[str, Runs]], per_step: Mapping[str, float]) -> Any:
    figure, axes = style.new_figure(13.0, 7.5, (2, len(found)))
    for column, (body, systems) in enumerate(found.items()):
        for index, (name, runs) in enumerate(systems.items()):
            _draw(axes[0, column], runs, index, name, 1)
            _draw(axes[1, column], runs, index, name, per_step[name] / 60)
        style.title(axes[0, column], BODIES[body], "return: mean over seeds, 95 % interval")
        style.steps_axis(axes[0, column])
        axes[1, column].set_xlabel("minutes of one core")
        for row in axes[:, column]:
            row.set_ylabel("return on validation seeds")
            style.legend(row)
    return figure


def _draw(axes: Axes, runs: Runs, index: int, name: str, unit: float) -> None:
    steps, values = _together(runs)
    middle, colour = values.mean(axis=0), style.colour(index)
    if len(values) > 1:
        half = [half_interval(float(s), len(values)) for s in values.std(axis=0, ddof=1)]
        axes.fill_between(steps * unit, middle - half, middle + half, color=colour, alpha=0.15, linewidth=0)
    for one in values:
        axes.plot(steps * unit, one, color=colour, linewidth=0.6, alpha=0.35)
    label = f"{name}, {len(values)} seeds"
    axes.plot(steps * unit, middle, color=colour, linestyle=style.dash(index), linewidth=2, label=label)
    low, high = min(0.0, float(values.min())), float(values.max())
    bottom, top = axes.get_ylim() if index else (low, high)
    axes.set_ylim(min(low, bottom), max(1.1 * high, top))


def _together(runs: Runs) -> tuple[Array, Array]:
    """Steps at which all seeds were evaluated [T], and their returns there [seeds, T]."""
    steps = sorted(set.intersection(*(set(map(int, steps)) for steps, _ in runs.values())))
    rows = [dict(zip(map(int, at), values, strict=True)) for at, values in runs.values()]
    return np.array(steps), np.array([[row[step] for step in steps] for row in rows])


def _page(found: Mapping[str, Mapping[str, Runs]], per_step: Mapping[str, float]) -> Iterator[str]:
    minutes = {name: 300_000 * seconds / 60 for name, seconds in per_step.items()}
    yield from ("# td3_plus beside SAC", "", _verdict(found, per_step), "")
    yield "SAC is SBX's with the settings of the RL zoo for MuJoCo (10,000 random steps first) and the critics'"
    yield "learning rate of 1e-3 that its README advises, evaluated every 5,000 steps on the five episodes of ours."
    told = ", ".join(
        f"{name} {1e3 * per_step[name]:.2f} ms ({minutes[name]:.0f} minutes)" for name in per_step
    )
    yield f"A step (300,000 of them) takes on one core, measured in turns: {told}."
    yield from (
        "",
        "| body | | seeds | at 100,000 steps | at 200,000 | mean of the last ten | |",
        "|" + "---|" * 7,
    )
    for body, systems in found.items():
        for name, runs in systems.items():
            steps, values = _together(runs)
            at = [f"{values[:, np.searchsorted(steps, step)].mean():,.0f}" for step in (100_000, 200_000)]
            ends = values[:, -LAST:].mean(axis=1)
            each = ", ".join(f"{end:,.0f}" for end in ends)
            yield f"| {BODIES[body]} | {name} | {len(values)} | {at[0]} | {at[1]} | {ends.mean():,.0f} | {each} |"
    yield from ("", "Made by `python benchmarks/sac.py train | cost | page` and")
    yield "`twofold lab benchmarks/experiments/td3_plus_300k.yaml`. Data: `sac.csv`, `sac_cost.json`."
    yield "![curves](sac.png)"
    yield ""


def _verdict(found: Mapping[str, Mapping[str, Runs]], per_step: Mapping[str, float]) -> str:
    """Where td3_plus is ahead by its mean over the whole run (the area below its curve), by steps and by minutes."""
    parts = []
    for body, systems in found.items():
        by_steps = [_area(systems[name], 300_000.0) for name in COSTS]
        budget = min(300_000 * per_step[name] for name in COSTS)
        by_minutes = [_area(systems[name], budget / per_step[name]) for name in COSTS]
        told = [
            f"{unit} {'ahead' if mine > theirs else 'behind'} ({mine:,.0f} against {theirs:,.0f})"
            for unit, (mine, theirs) in (("by steps", by_steps), ("by minutes", by_minutes))
        ]
        parts.append(f"{BODIES[body]}: td3_plus is {', '.join(told)}")
    return "Mean return over the run. " + "; ".join(parts) + "."


def _area(runs: Runs, until: float) -> float:
    steps, values = _together(runs)
    return float(values[:, steps <= until].mean())


def _write(path: Path, record: dict[str, Any]) -> None:
    path.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    raise SystemExit(main())
