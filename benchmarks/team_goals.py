"""Partners with private goals: `python benchmarks/team_goals.py [WORLD RUN ...]`.

Runs are made by `twofold lab benchmarks/experiments/team_goals.yaml` (foraging) and `team_goals_prey.yaml`. Given run
directories they are taken into team_goals.json, in place of those of the same world, learner and seed; from it
team_goals.{md,csv,png} are written: score and steps to finish with partners never met, and what the models hold.
"""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from team import versions
from torch import Tensor

from twofold.assemble import load_policy
from twofold.base.statistics import half_interval
from twofold.core.experience import Array
from twofold.rows.world import make_world
from twofold.show import style
from twofold.team.models import about
from twofold.team.omg import OMGPolicy
from twofold.team.seating import greedy

RESULTS = Path(__file__).resolve().parent / "results" / "team"
ORDER = ("iql", "iql_am", "iql_omg", "iql_omg_goal", "iql_omg_am")  # _goal: learner.goal_weight was given
MODEL = {  # metric of the last log line -> what it is called here
    "prior_explains": "prior explains",
    "prior_active": "active columns",
    "signal_to_noise": "signal / noise",
    "selector_spread": "selector's spread",
    "chosen_step/1": "chose step 1 (chance 0.2)",
    "subgoal_hit_ratio": "hit ratio",
    "subgoal_hit_chance": "its chance",
    "model_accuracy": "partner's action foreseen",
}
WORLDS = {
    "foraging": "Foraging, 6 x 6, two foods that need both players, 30 steps at most",
    "prey": "Predators: the same, and each prey takes a step with probability 0.2",
}
PLACES = ("before", "now", "in the next 5 steps", "later")
STAYS = "the next state reads as this one"
GAMES = 64
Run = dict[str, Any]


def run_of(folder: Path) -> Run:
    """A finished run: its test with partners of both kinds, its curve, what its models held at the end."""
    about, test = (json.loads((folder / name).read_text()) for name in ("provenance.json", "test.json"))
    last = json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])
    words = [word for word in about["command"].split()[1:] if not word.startswith("--run=")]
    given = dict(word.lstrip("-").split("=", 1) for word in words if "=" in word)
    lines = [json.loads(line) for line in (folder / "evaluations.jsonl").read_text().splitlines()]
    unmet = [line for line in lines if line["world"] == "test_partners"]
    return {
        "learner": given["config"] + ("_goal" if "learner.goal_weight" in given else ""),
        "seed": int(given["seed"]),
        "steps": lines[-1]["step"],
        "updates": last["updates"],
        "score": test["test_partners"]["return"]["mean"],
        "length": test["test_partners"]["length"]["mean"],
        "met_score": test["train_partners"]["return"]["mean"],
        "episodes": test["test_partners"]["return"]["episodes"],
        "last_score": unmet[-1]["return"]["mean"],
        "model": {name: last[f"learner/{name}"] for name in MODEL if f"learner/{name}" in last},
        "lies": lies(folder),
        "command": f"twofold {' '.join(words)}",
        "commit": about["commit"],
        "curve": [[line["step"], line["return"]["mean"]] for line in unmet],
    }


def lies(folder: Path) -> dict[str, float]:
    """Of 64 games: how often the state nearest to the inferred subgoal is a past one, this one, one ahead."""
    loaded = load_policy(folder)
    world, policy = make_world(loaded.config, purpose="test_partners", rows=GAMES), greedy(loaded, GAMES)
    if not isinstance(policy, OMGPolicy):
        return {}
    columns, infer, goals = policy.cfg.subgoal_columns, policy.condition, list[Tensor]()

    def watched(seen: Tensor, obs: dict[str, Array]) -> tuple[Tensor, Tensor]:
        found = infer(seen, obs)
        goals.append(found[0].clone())
        return found

    policy.condition = watched  # type: ignore[method-assign]
    obs, _ = world.reset(seed=[5_000 + game for game in range(GAMES)])
    policy.reset(np.ones(GAMES, bool))
    playing, seen, played = np.ones(GAMES, bool), list[Tensor](), list[Array]()
    while playing.any():
        seen.append(torch.from_numpy(np.array(obs["obs"][:, 0])))
        played.append(playing.copy())
        obs, _, terminated, truncated, _ = world.step(policy.act(obs))
        playing &= ~(terminated | truncated)
    with torch.no_grad():
        states = about(torch.stack(seen), columns)
        embedded = policy.prior.encode(policy.prior.standardised(states))[0]
    return places(torch.stack(goals), embedded, states, np.stack(played))


def places(goals: Tensor, embedded: Tensor, states: Tensor, played: Array) -> dict[str, float]:
    """Shares of `PLACES`, where a state that reads as the present one is the present, and how often the next does."""
    counts, stays = np.zeros(len(PLACES)), list[float]()
    for game in range(GAMES):
        steps = np.flatnonzero(played[:, game])
        nearest = torch.cdist(goals[steps, game], embedded[steps, game]).argmin(-1)
        for at, found in enumerate(nearest.tolist()):
            same = bool((states[steps[found], game] == states[steps[at], game]).all())
            ahead = found - at
            counts[1 if same else 0 if ahead < 0 else 2 if ahead <= 5 else 3] += 1
        stays += (states[steps[1:], game] == states[steps[:-1], game]).all(-1).tolist()
    found = dict(zip(PLACES, (counts / counts.sum()).tolist(), strict=True))
    return found | {STAYS: float(np.mean(stays))}


def take(world: str, folders: list[Path]) -> None:
    path = RESULTS / "team_goals.json"
    record = json.loads(path.read_text()) if path.exists() else {"worlds": {}}
    runs = {(run["learner"], run["seed"]): run for run in record["worlds"].get(world, [])}
    runs |= {(run["learner"], run["seed"]): run for run in map(run_of, folders)}
    record["worlds"][world] = [
        runs[key] for key in sorted(runs, key=lambda one: (ORDER.index(one[0]), one[1]))
    ]
    path.write_text(json.dumps(record | {"versions": versions()}, indent=1) + "\n")


def spread(runs: list[Run], name: str, digits: int) -> str:
    """Mean over seeds with its 95 % interval."""
    values = np.array([run[name] for run in runs])
    half = half_interval(float(values.std(ddof=1)), len(values)) if len(values) > 1 else float("nan")
    return (
        f"{values.mean():.{digits}f} ± {half:.{digits}f}" if half == half else f"{values.mean():.{digits}f}"
    )


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    return [f"| {' | '.join(head)} |", "|" + "---|" * len(head), *(f"| {' | '.join(row)} |" for row in rows)]


def section(world: str, runs: list[Run]) -> list[str]:
    """Scores, verdicts against IQL seed by seed, and what the models hold."""
    by = {name: [run for run in runs if run["learner"] == name] for name in ORDER}
    by = {name: found for name, found in by.items() if found}
    head = ["learner", "seeds", "score, never met", "steps to finish", "score, met", "last policy, never met"]
    rows = [
        [
            name,
            str(len(found)),
            *(spread(found, key, digits) for key, digits in (("score", 3), ("length", 1))),
            *(spread(found, key, 3) for key in ("met_score", "last_score")),
        ]
        for name, found in by.items()
    ]
    first = runs[0]
    lines = ["", f"## {WORLDS[world]}", "", *table(head, rows), ""]
    lines += [
        f"{first['steps']:,} steps, {first['updates']:,} updates, {first['episodes']} test episodes a run."
    ]
    models = [name for name, found in by.items() if found[0]["model"]]
    names = [name for name in MODEL if any(name in by[one][0]["model"] for one in models)]
    rows = [
        [
            one,
            *(
                f"{np.mean([run['model'][n] for run in by[one]]):.2f}" if n in by[one][0]["model"] else ""
                for n in names
            ),
        ]
        for one in models
    ]
    if models:
        lines += ["", *table(["at the end, mean over seeds", *(MODEL[n] for n in names)], rows)]
    return lines + where(by)


def where(by: dict[str, list[Run]]) -> list[str]:
    """What the inferred subgoals of the learners that have any point at."""
    rows = [
        [name, *(f"{np.mean([run['lies'][place] for run in found]):.2f}" for place in (*PLACES, STAYS))]
        for name, found in by.items()
        if found[0]["lies"]
    ]
    told = (
        "Where the state lies that is nearest to the inferred subgoal, 64 test games a seed; and how often the next "
        "state reads as this one, which is what a subgoal one step ahead should say:"
    )
    return ["", told, "", *table(["shares of steps", *PLACES, STAYS], rows)] if rows else []


def page(record: dict[str, Any]) -> str:
    lines = ["# Team: partners with private goals", ""]
    lines += [
        "The learner has one seat and sees two cells each way; its partner sees everything and goes for what its "
        "goal names (nearest, farthest, top, right in training; bottom, left, nearest to and farthest from the learner "
        "in tests). The score is the share of the food; intervals are of the mean over seeds (95 %). The policy of a "
        "run is the best by partners met; the last one stands beside it."
    ]
    for world, runs in record["worlds"].items():
        lines += section(world, runs)
    used = ", ".join(f"{name} {value}" for name, value in record["versions"].items())
    lines += ["", f"Versions: {used}", "", "Commands:", ""]
    commands = [run["command"] for runs in record["worlds"].values() for run in runs]
    return "\n".join([*lines, *(f"    {command}" for command in commands)]) + "\n"


def draw(record: dict[str, Any]) -> None:
    figure, panels = style.new_figure(8.0, 4.5)
    axes, index = panels[0, 0], 0
    for world, runs in record["worlds"].items():
        for name in ORDER:
            curves = [np.array(run["curve"]) for run in runs if run["learner"] == name]
            if not curves:
                continue
            length = min(map(len, curves))
            mean = np.mean([curve[:length, 1] for curve in curves], axis=0)
            label = f"{name}, {world}"
            axes.plot(curves[0][:length, 0], mean, color=style.colour(index), linewidth=2.2, label=label)
            index += 1
    style.title(axes, "Partners with private goals, never met", "share of the food, mean over seeds")
    style.steps_axis(axes)
    figure.legend(loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    style.write_figure(figure, RESULTS / "team_goals.png")


def main() -> None:
    if len(sys.argv) > 2:
        take(sys.argv[1], [Path(folder) for folder in sys.argv[2:]])
    record = json.loads((RESULTS / "team_goals.json").read_text())
    (RESULTS / "team_goals.md").write_text(page(record))
    with (RESULTS / "team_goals.csv").open("w", newline="") as file:
        sheet = csv.writer(file)
        sheet.writerow(["world", "learner", "seed", "score", "length", "met_score", "last_score"])
        for world, runs in record["worlds"].items():
            for run in runs:
                sheet.writerow(
                    [
                        world,
                        *(
                            run[key]
                            for key in ("learner", "seed", "score", "length", "met_score", "last_score")
                        ),
                    ]
                )
    draw(record)


if __name__ == "__main__":
    main()
