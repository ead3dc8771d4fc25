"""Pages of the team results that are recorded suite by suite: `python benchmarks/team.py [SUITE [RUN ...]]`.

Runs are made by the lab: `twofold lab benchmarks/experiments/team_SUITE.yaml --out=runs/team_SUITE`. Given run
directories, `team.py SUITE RUN ...` takes them into team_SUITE.json, which holds every run with its command and curve,
in place of those of the same preset, map and seed. From it team_SUITE.{md,csv,png} are written; what scripts win on a
map stands beside what was learnt there. Runs without a commit were made by version 0.1.
"""

from __future__ import annotations

import csv
import json
import math
import platform
import re
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from twofold import load_run
from twofold.base.statistics import half_interval
from twofold.show import style

RESULTS = Path(__file__).resolve().parent / "results" / "team"
PACKAGES = ("torch", "numpy", "gymnasium", "lbforaging", "mpe2", "pettingzoo")
BATTLES = ("skirmish", "omg_8m", "mixed")  # suites whose score is a share of battles won
ASKED, SEEDS = ("3m", "8m", "2s3z", "3s5z", "8m_vs_9m", "5m_vs_6m", "3s_vs_5z"), 3  # of qmix_plus in skirmish
Runs = list[dict[str, Any]]  # of one case, seed by seed

PARTNERS = (
    "The learner has one seat; scores are with the test partners, which it never met: other seeds of the algorithms "
    "met in training, and {}. 'return' of foraging is the share of the food; of skirmish the share of battles won."
)
OLD = "All of it was made by version 0.1 and has not been made again with this one."
FIRST_FORM = (
    " OMG is its first form: subgoals of 64 noisy columns about everything in sight, a prior that moves while Q "
    "learns. The form that was rebuilt, where goals are hidden: [team_goals.md](team_goals.md)."
)
NOTES = {
    "lbf": "Some seeds had `trainer.stop_at` and ended early, others not: one mean holds both.",
    "spread": "Today's package pays half of what the first particle games paid (team_spread_scale.md): twice these "
    "returns stand beside the published -126.6 (QMIX) and -131.0 (VDN).",
    "skirmish": "To be read with the steps that each case had and the number of its seeds: one shows little. Win rates "
    "are not "
    "SMAC's (docs/skirmish.md). Cases made by version 0.1 are of a time when a time-out bootstrapped; it is an end "
    "now. A training with `trainer.stop_at` ends at the first validation (32 battles) that reaches it. No test is "
    "eased. qmix_plus on 8m_vs_9m and 3s_vs_5z had training battles whose ease follows their outcome "
    "(`env_args.train_ease_step`), on 5m_vs_6m eased ones (`env_args.train_ease=0.4`), 0.02 of random actions "
    "(`learner.epsilon_finish`) and agents that read like units by the same weights (`networks.unit_features=32`). "
    "That recipe was chosen with seed 1; the result has seeds 10 to 12, of which none was seen before, and all three "
    "were stopped by the first validation that reached 17.5: 0.97, 0.88 and 0.94 of 32 battles, so that the 0.63 and "
    "0.62 of 200 test battles show how much a choice by 32 flatters. How they win: two units stand at the edge of the"
    " enemies' reach and step in and out in turn, for up to 20 steps; an enemy aims at the one that is within reach "
    "as a step begins and misses it, since it is out of reach as the step ends. The others kill what does not look at"
    " those two. Enemies do 1.15 to 1.33 of damage per step and living unit so, 2.25 against `step_back`. It is the "
    "rule of these enemies that is exploited (docs/skirmish.md). '-dirty': the experiment's file was not committed "
    "yet, and with seed 12 a line that puts the columns' numbers on the device of the inputs; it changes no byte. "
    "The same seeds and steps without unit features won 0.39, 0.005 and 0.015: 0.58 ± 0.14 less, seed by seed. "
    "Before, without unit features, it was one seed of three: seed 0 won 0.835 (a runner draws half of the "
    "enemies away, found between 200k and 300k steps), seeds 1 and 2 fought where they stood, won 0.6 of the eased "
    "battles, and 0.01 and 0.05 of 200 at full strength after 840k and 780k steps; seed 90, with 0.05 of random "
    "actions, won 0.635 after 600k in an earlier version. With unit features seed 1, by which they were chosen, won "
    "0.50 of 32 validation battles after 380k steps and was stopped at 400k. What had not freed seed 1 or others: "
    "random actions that are held for up to ten steps (seed 1, stopped after 280k: 0.26 of the eased battles won "
    "where 0.42 were without), an ease that follows (seed 90, first battle won after 480k; seed 0 in an earlier "
    "version 0.06 to 0.13 of 32 between 800k and 840k), and, with that, own losses that cost, longer traces and "
    "observations that tell what changed. Why walking alone does not lead there: with `step_back` for the others, the"
    " first unit wins 0 of 100 battles at full strength if it walks north, south or west for 5 to 60 steps, and 0.57 "
    "at most where 0.3 of the enemies' strength is missing, 0.78 if it stays. COMA has no result: its runs of version"
    " 0.1 won 0.78 of 3m with every seed, which is what a blind script wins that walks east and shoots enemy 1, else "
    "2, else 0; they were made before its critic was PyMARL's, and have been taken out.",
    "omg": PARTNERS.format("all of QMIX") + FIRST_FORM,
    "omg_parts": PARTNERS.format("all of QMIX") + FIRST_FORM,
    "omg_8m": PARTNERS.format("all of VDN") + FIRST_FORM,
    "mixed": "One learner beside frozen members, as OMG's `--multi_algs` has it: four of IQL and three of QMIX in 8m "
    "(100,000 steps each), one and one in 3s_vs_5z (200,000, eased). Scores are with members of another seed, "
    "never met. Two seeds and 100,000 steps say little. In 8m OMG wins the fewest battles on both seeds: nothing "
    "in the state says what a member is after, so its subgoals are about whole states to come. In 3s_vs_5z no "
    "learner wins a battle, so this map says nothing of models of others: their training was not eased, that of "
    "the members was (teams of one algorithm and seed won 0.31 and 0.09 of 32 battles with IQL, 0.00 and 0.56 "
    "with QMIX). No script was tried in the seat.",
}


def suites() -> list[str]:
    """The suites that were recorded."""
    found = {path: json.loads(path.read_text()) for path in sorted(RESULTS.glob("team_*.json"))}
    return [path.stem.removeprefix("team_") for path, record in found.items() if "suite" in record]


def record_of(suite: str) -> dict[str, Any]:
    path = RESULTS / f"team_{suite}.json"
    record: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"suite": suite, "cases": {}}
    return record


def page(suite: str) -> str:
    """Tables, notes, versions and commands of a suite."""
    record = record_of(suite)
    cases: dict[str, Runs] = record["cases"]
    scripts = {name: scripts_of(runs) for name, runs in cases.items()}
    rows = [row_of(name, runs, scripts[name]) for name, runs in cases.items()]
    head = [title for title in rows[0] if any(row[title] for row in rows)]
    lines = [f"# Team: {suite}", "", f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    lines += [f"| {' | '.join(row[title] for title in head)} |" for row in rows]
    if suite == "skirmish":
        lines += [
            "",
            "What all scripts and the planner win: [team_scripts.md](team_scripts.md).",
            *short(cases),
        ]
    if not any("commit" in run for runs in cases.values() for run in runs):
        lines += ["", OLD]
    lines += ["", NOTES[suite]] if suite in NOTES else []
    used = ", ".join(f"{k} {v}" for k, v in record["versions"].items())
    lines += ["", f"Versions: {used}", "", "Commands:", ""]
    lines += [f"    {run['command']}" for runs in cases.values() for run in runs]
    return "\n".join(lines) + "\n"


def short(cases: dict[str, Runs]) -> list[str]:
    """The maps that qmix_plus has too few seeds of."""
    counts = {name: len(cases.get(f"qmix_plus {name}", [])) for name in ASKED}
    told = [f"{name} ({count})" for name, count in counts.items() if count < SEEDS]
    return ["", f"Fewer than {SEEDS} seeds of qmix_plus: {', '.join(told)}."] if told else []


def row_of(name: str, runs: Runs, scripts: dict[str, float]) -> dict[str, str]:
    """A row of the table; a learnt policy below a script is marked."""
    scores = np.array([run["score"] for run in runs])
    half = half_interval(float(scores.std(ddof=1)), len(runs)) if len(runs) > 1 else math.nan
    planner = scripts.get("planner")
    scripts = {name: won for name, won in scripts.items() if name != "planner"}
    best = max(scripts, key=lambda script: scripts[script], default="")
    above = " (**above**)" if best and scripts[best] > scores.mean() else ""
    lengths = [run["length"] for run in runs if "length" in run]
    returns = [run["return"] for run in runs if "return" in run]
    return {
        "case": name,
        "seeds": str(len(runs)),
        "mean": f"{scores.mean():.3f}",
        "95 % interval": interval(runs, half),
        "each seed": ", ".join(f"{run['score']:.3g}{' (stopped)' * ('stopped' in run)}" for run in runs),
        "best script": f"{best} {scripts[best]:.3f}{above}" if best else "",
        "planner": "" if planner is None else f"{planner:.3f}",
        "test episodes": str(runs[0]["episodes"]),
        "their length": f"{np.mean(lengths):.1f}" if lengths else "",
        "their return": f"{np.mean(returns):.2f}" if returns else "",
        "steps": ", ".join(dict.fromkeys(f"{run['steps']:,}" for run in runs if "steps" in run)),
        "made by": ", ".join(dict.fromkeys(run.get("commit", "version 0.1") for run in runs)),
    }


def interval(runs: Runs, half: float) -> str:
    """Over seeds, or of the battles of the only one."""
    if math.isnan(half):
        low, high = runs[0].get("interval", (math.nan, math.nan))
        return "one seed" if math.isnan(low) else f"{low:.3f} to {high:.3f}: its battles"
    return f"± {half:.3f}" if half > 1e-9 else "all alike"


def scripts_of(runs: Runs) -> dict[str, float]:
    """What scripts win on the map of a case, where that was measured."""
    path, named = RESULTS / "team_scripts.json", re.search(r"map_name=(\w+)", runs[0]["command"])
    if "--env-config=skirmish" not in runs[0]["command"] or named is None or not path.exists():
        return {}
    cells = json.loads(path.read_text())["maps"].get(named[1], {})
    return {script: cell["won"] for script, cell in cells.items()}


def take(suite: str, folders: list[Path]) -> None:
    """Put finished runs into the record of a suite."""
    record = record_of(suite)
    for folder in folders:
        run = run_of(folder)
        others = [one for one in record["cases"].get(run["case"], []) if one["seed"] != run["seed"]]
        record["cases"][run.pop("case")] = sorted([*others, run], key=lambda one: int(one["seed"]))
    record["cases"] = {
        name: runs for name, runs in record["cases"].items() if not replaced(name, record["cases"])
    }
    newest_first = sorted(record["cases"].items(), key=lambda case: "commit" not in case[1][0])
    record["cases"] = dict(newest_first)
    text = json.dumps(record | {"versions": versions()}, indent=1)
    (RESULTS / f"team_{suite}.json").write_text(text + "\n")


def replaced(name: str, cases: dict[str, Runs]) -> bool:
    """Whether a case of version 0.1 has one of the same algorithm's newer preset in its place."""
    algorithm, _, rest = name.partition(" ")
    return "commit" not in cases[name][0] and f"{algorithm}_plus {rest}" in cases


def run_of(folder: Path) -> dict[str, Any]:
    """A run as the record keeps it: its test (if it was stopped, of its best policy so far), its curve, its origin."""
    about, stopped = json.loads((folder / "provenance.json").read_text()), not (folder / "test.json").exists()
    test = load_run(folder).evaluate(200) if stopped else json.loads((folder / "test.json").read_text())
    evaluations = [json.loads(line) for line in (folder / "evaluations.jsonl").read_text().splitlines()]
    words = [word for word in about["command"].split()[1:] if not word.startswith("--run=")]
    given = dict(word.lstrip("-").split("=", 1) for word in words if "=" in word)
    if int(given["trainer.steps"].replace("_", "")) < (
        steps := evaluations[-1]["step"]
    ):  # it was made longer
        words = [f"trainer.steps={steps}" if "trainer.steps=" in word else word for word in words]
    kind = "test_partners" if "env_args.partners" in given else "eval"  # those never met
    found, won = test[kind], test[kind]["battle_won"]
    curve = [one for one in evaluations if one["world"] == kind]
    return {
        "case": case_of(given),
        "seed": int(given["seed"]),
        "steps": evaluations[-1]["step"],
        "score": won["mean"],
        "interval": [won["low"], won["high"]],
        "return": found["return"]["mean"],
        "episodes": won["episodes"],
        "length": found["length"]["mean"],
        "command": f"twofold {' '.join(words)}",
        "commit": about["commit"],
        "curve": [[one["step"], one["battle_won"]["mean"]] for one in curve],
    } | ({"stopped": True} if stopped else {})


def case_of(given: dict[str, str]) -> str:
    """The preset and the map; of a mixed team also who sits on the other seats."""
    if "env_args.partners" not in given:
        return f"{given['config']} {given['env_args.map_name']}"
    return f"{given['config']} {Path(given['env_args.partners']).name} beside {given['env_args.team']}"


def versions() -> dict[str, str]:
    """Of the packages that results of this domain depend on."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def write(suite: str) -> None:
    """The page of a suite, its table and its picture."""
    cases: dict[str, Runs] = record_of(suite)["cases"]
    (RESULTS / f"team_{suite}.md").write_text(page(suite))
    with (RESULTS / f"team_{suite}.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["case", "seed", "score", "command"])
        for name, runs in cases.items():
            table.writerows([name, run["seed"], run["score"], run["command"]] for run in runs)
    draw(suite, cases)


def draw(suite: str, cases: dict[str, Runs]) -> None:
    """Every seed thin, the mean of a case thick up to where its shortest seed ends."""
    figure, panels = style.new_figure(8.0, 4.5)
    axes = panels[0, 0]
    for index, (name, runs) in enumerate(cases.items()):
        curves = [np.array(run["curve"]) for run in runs]
        length = min(map(len, curves))
        for curve in curves:
            axes.plot(curve[:, 0], curve[:, 1], color=style.colour(index), linewidth=0.8, alpha=0.4)
        mean = np.mean([curve[:length, 1] for curve in curves], axis=0)
        axes.plot(curves[0][:length, 0], mean, color=style.colour(index), linewidth=2.2, label=name)
    style.title(axes, f"Team: {suite}", "every seed, and the mean as far as all have come")
    style.steps_axis(axes)
    axes.set_ylabel("share of battles won" if suite in BATTLES else "return")
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=8)
    style.write_figure(figure, RESULTS / f"team_{suite}.png")


def main() -> None:
    if len(sys.argv) > 2:
        take(sys.argv[1], [Path(folder) for folder in sys.argv[2:]])
    for suite in sys.argv[1:2] or suites():
        write(suite)
        sys.stdout.write(f"{RESULTS / f'team_{suite}.md'}\n")


if __name__ == "__main__":
    main()
