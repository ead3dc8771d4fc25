"""Partners with private goals: `team_goals.py [WORLD RUN ... | --tried NAME=RUN ... | --parts RUN ...]`.

Runs are made by `twofold lab benchmarks/experiments/team_goals.yaml` (foraging) and `team_goals_prey.yaml`. Given run
directories they are taken into team_goals.json, in place of those of the same world, learner and seed; from it
team_goals.{md,csv,png} are written: score and steps to finish with partners never met, and what the models hold.
`--tried` adds runs that chose the form of OMG, each with a name, seeds apart from those of the result; `--parts` takes
those of `team_goals_parts.yaml`.
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
from twofold.store.policy_file import LoadedPolicy
from twofold.team.hits import exists, explained, first_ahead
from twofold.team.models import about
from twofold.team.omg import OMGPolicy
from twofold.team.seating import greedy

RESULTS = Path(__file__).resolve().parent / "results" / "team"
ORDER = ("iql", "iql_more", "iql_am", "iql_omg", "iql_omg_am", "iql_told")  # told: env_args.tells was given
MODEL = {  # metric of the last log line, or of the games of `foresight` -> what it is called here
    "prior_explains": "prior explains",
    "prior_active": "active columns",
    "model_accuracy": "partner's action foreseen",
    "met": "subgoal foreseen, partners met",
    "unmet": "never met",
}
WORLDS = {
    "foraging": "Foraging, 6 x 6, two foods that need both players, 30 steps at most",
    "prey": "Predators: the same, and each prey takes a step with probability 0.2",
}
PARTS = {  # variants of team_goals_parts.yaml
    "whole": "as in the result",
    "as_numbers": "the place as y and x, two columns",
    "by_value": "the selector by value, five steps ahead",
    "no_mix": "never mixed: inferred subgoals from the start",
    "noise": "Q sees samples, not means",
    "along": "Q learns while the prior does",
    "raw_states": "states not standardised",
    "kl_sum": "KL summed, not averaged",
    "heavy_kl": "ten times the weight of KL",
    "history_before": "the history up to the step before",
    "wide": "64 columns of subgoal in place of 12",
    "uniform": "columns of the model start like all, Q learns while the prior does",
}
GAMES = 64
Run = dict[str, Any]


def run_of(folder: Path) -> Run:
    """A finished run: its scores, and what its models held at the end."""
    last = json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])
    model = {name: last[f"learner/{name}"] for name in MODEL if f"learner/{name}" in last}
    return scores(folder) | {"updates": last["updates"], "model": model | foresight(folder)}


def scores(folder: Path) -> Run:
    """Its test with partners of both kinds, and its curve."""
    about, test = (json.loads((folder / name).read_text()) for name in ("provenance.json", "test.json"))
    words = [word for word in about["command"].split()[1:] if not word.startswith("--run=")]
    given = dict(word.lstrip("-").split("=", 1) for word in words if "=" in word)
    lines = [json.loads(line) for line in (folder / "evaluations.jsonl").read_text().splitlines()]
    met, unmet = (
        [line for line in lines if line["world"] == kind] for kind in ("train_partners", "test_partners")
    )
    return {
        "learner": learner_of(given),
        "seed": int(given["seed"]),
        "steps": lines[-1]["step"],
        "score": test["test_partners"]["return"]["mean"],
        "length": test["test_partners"]["length"]["mean"],
        "met_score": test["train_partners"]["return"]["mean"],
        "best_met": max(line["return"]["mean"] for line in met),
        "episodes": test["test_partners"]["return"]["episodes"],
        "last_score": unmet[-1]["return"]["mean"],
        "command": f"twofold {' '.join(words)}",
        "commit": about["commit"],
        "curve": [[line["step"], line["return"]["mean"]] for line in unmet],
    }


def learner_of(given: dict[str, str]) -> str:
    """The preset; IQL that is told, or that has twice the updates, under a name of its own."""
    if given.get("env_args.tells") == "true":
        return "iql_told"
    more = given["config"] == "iql" and given.get("trainer.rows") == "64"
    return "iql_more" if more and given["trainer.updates_per_item"] == "0.25" else given["config"]


def foresight(folder: Path) -> dict[str, float]:
    """Share of the subgoals' variance that inference explains in 64 games with partners met, and never met."""
    loaded = load_policy(folder)
    if not isinstance(greedy(loaded, GAMES), OMGPolicy):
        return {}
    worlds = {"met": "train_partners", "unmet": "test_partners"}
    return {name: foreseen(loaded, purpose) for name, purpose in worlds.items()}


def foreseen(loaded: LoadedPolicy, purpose: str) -> float:
    """The same with one kind of partners."""
    world, policy = make_world(loaded.config, purpose=purpose, rows=GAMES), greedy(loaded, GAMES)
    assert isinstance(policy, OMGPolicy)
    infer, goals = policy.condition, list[Tensor]()

    def watched(seen: Tensor, obs: dict[str, Array]) -> tuple[Tensor, Tensor]:
        found = infer(seen, obs)
        goals.append(found[0].clone())
        return found

    policy.condition = watched  # type: ignore[method-assign]
    obs, _ = world.reset(seed=[5_000 + game for game in range(GAMES)])
    policy.reset(np.ones(GAMES, bool))
    playing, played = np.ones(GAMES, bool), list[Array]()
    states = [np.array(obs["state"])]
    while playing.any():
        played.append(playing.copy())
        obs, _, terminated, truncated, _ = world.step(policy.act(obs))
        states.append(np.array(obs["state"]))
        playing &= ~(terminated | truncated)
    seen, mask = torch.from_numpy(np.stack(states)), torch.from_numpy(np.stack(played)).float()
    inferred = torch.stack(goals)[..., : policy.cfg.subgoal_dim]
    return reached(policy, inferred, about(seen, policy.cfg.subgoal_columns), mask)


@torch.no_grad()
def reached(policy: OMGPolicy, goals: Tensor, seen: Tensor, mask: Tensor) -> float:
    """How much of the subgoals that came [T + 1, N] the inferred ones [T, N] explain, over played steps."""
    step = first_ahead((seen >= 0).all(-1) & (exists(mask) > 0), policy.cfg.horizon)
    at = (torch.arange(len(step)).unsqueeze(-1) + step).unsqueeze(-1).expand(-1, -1, seen.shape[-1])
    embedded = policy.prior.encode(policy.prior.standardised(seen.gather(0, at)))[0]
    return float(explained(goals, embedded, mask * (step > 0)))


def take(world: str, folders: list[Path]) -> None:
    path = RESULTS / "team_goals.json"
    record = json.loads(path.read_text()) if path.exists() else {"worlds": {}}
    runs = {(run["learner"], run["seed"]): run for run in record["worlds"].get(world, [])}
    runs |= {(run["learner"], run["seed"]): run for run in map(run_of, folders)}
    record["worlds"][world] = [
        runs[key] for key in sorted(runs, key=lambda one: (ORDER.index(one[0]), one[1]))
    ]
    path.write_text(json.dumps(record | {"versions": versions()}, indent=1) + "\n")


def try_out(named: list[str]) -> None:
    path = RESULTS / "team_goals.json"
    record = json.loads(path.read_text())
    new = {
        name: {"name": name} | scores(Path(folder)) for name, folder in (one.split("=", 1) for one in named)
    }
    record["tried"] = [*(run for run in record.get("tried", []) if run["name"] not in new), *new.values()]
    path.write_text(json.dumps(record, indent=1) + "\n")


def take_parts(folders: list[Path]) -> None:
    """Runs of the ablation; the folder above a run's is its variant."""
    path = RESULTS / "team_goals.json"
    record = json.loads(path.read_text())
    found = {(run["variant"], run["seed"]): run for run in record.get("parts", [])}
    found |= {
        (run["variant"], run["seed"]): run
        for run in ({"variant": folder.parent.name} | run_of(folder) for folder in folders)
    }
    record["parts"] = list(found.values())
    path.write_text(json.dumps(record, indent=1) + "\n")


def parts(runs: list[Run]) -> list[str]:
    """One part of the form changed at a time."""
    if not runs:
        return []
    by = {name: [run for run in runs if run["variant"] == name] for name in PARTS}
    whole = by["whole"]
    rows = [
        [
            PARTS[name],
            str(len(found)),
            spread(found, "score", 3),
            above(found, whole) if name != "whole" else "",
            spread(found, "length", 1),
            *(mean_of(found, key) for key in ("prior_explains", "met", "unmet")),
        ]
        for name, found in by.items()
        if found
    ]
    told = (
        f"Foraging, {runs[0]['steps']:,} steps and {runs[0]['updates']:,} updates only, so all are far from their end; "
        f"{runs[0]['episodes']} test episodes a run, partners never met. One setting of the form is changed at a time."
    )
    head = ["form", "seeds", "score", "against the whole, seed by seed", "steps to finish"]
    head += ["prior explains", "subgoal foreseen, met", "never met"]
    return ["", "## Parts of OMG", "", told, "", *table(head, rows)]


def mean_of(runs: list[Run], name: str) -> str:
    values = [run["model"][name] for run in runs if name in run["model"]]
    return f"{np.mean(values):.2f}" if values else ""


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
    """Scores beside IQL's, and what the models hold."""
    by = {name: [run for run in runs if run["learner"] == name] for name in ORDER}
    by = {name: found for name, found in by.items() if found}
    first = runs[0]
    commits = ", ".join(dict.fromkeys(run["commit"] for run in runs))
    counts = (
        f"{first['steps']:,} steps, {first['updates']:,} updates, {first['episodes']} test episodes a run."
    )
    return [
        "",
        f"## {WORLDS[world]}",
        "",
        *score_table(by),
        "",
        f"{counts} Made by {commits}.",
        *model_table(by),
    ]


def score_table(by: dict[str, list[Run]]) -> list[str]:
    head = ["learner", "seeds", "score, never met", "above IQL, seed by seed", "steps to finish"]
    rows = [
        [
            name,
            str(len(found)),
            spread(found, "score", 3),
            above(found, by.get("iql", [])) if name != "iql" else "",
            spread(found, "length", 1),
            *(spread(found, key, 3) for key in ("met_score", "last_score")),
        ]
        for name, found in by.items()
    ]
    return table([*head, "score, met", "last policy, never met"], rows)


def above(runs: list[Run], plain: list[Run]) -> str:
    """Mean difference of scores over the seeds that both have, with its 95 % interval."""
    base = {run["seed"]: run["score"] for run in plain}
    gains = [{"gain": run["score"] - base[run["seed"]]} for run in runs if run["seed"] in base]
    return spread(gains, "gain", 3) if gains else ""


def model_table(by: dict[str, list[Run]]) -> list[str]:
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
    head = ["at the end, mean over seeds", *(MODEL[n] for n in names)]
    return ["", *table(head, rows)] if models else []


def tried(runs: list[Run], result: list[Run]) -> list[str]:
    """What the subgoal is about, on a seed of its own: this chose the form."""
    scores = [run["score"] for run in result if run["learner"] == "iql_omg"]
    if not runs or not scores:
        return []
    head = [
        "form",
        "steps",
        "score, met",
        "best evaluation, met",
        "score, never met",
        "steps to finish",
        "made by",
    ]
    rows = [
        [
            run["name"],
            f"{run['steps']:,}",
            f"{run['met_score']:.3f}",
            f"{run['best_met']:.3f}",
            f"{run['score']:.3f}",
            f"{run['length']:.1f}",
            run["commit"],
        ]
        for run in runs
    ]
    told = (
        "Foraging, one seed that the result does not use: every form of OMG that ran to its end, in the order in which "
        "they were tried; both scores were in sight when a form was chosen. One seed ranks nothing (the form of the "
        f"result has {min(scores):.2f} to {max(scores):.2f} on its seeds), and the best of so many is flattered. Runs "
        "of 300,000 steps by the newest code have, as the result, an update for eight episodes, all others for four."
    )
    return ["", "## What was tried", "", told, "", *table(head, rows)]


def page(record: dict[str, Any]) -> str:
    lines = ["# Team: partners with private goals", ""]
    lines += [
        "The learner has one seat and sees two cells each way; its partner sees everything and goes for what its "
        "goal names (nearest, farthest, top, right in training; bottom, left, nearest to and farthest from the learner "
        "in tests). The score is the share of the food; intervals are of the mean over seeds (95 %). The policy of a "
        "run is the best by partners met; the last one stands beside it.",
        "",
        "What each learner knows of its partner: IQL what it sees; IQL-AM in training also what the partner did; "
        "IQL-OMG in training also which food the partner loaded in the end, which is what its subgoals are about; "
        "IQL-OMG-AM both. Acting, all four see the same. `iql_told` is IQL that is told in every step, tests included, "
        "which food its partner goes for: what a model of the partner could win at most. `iql_more` is IQL with twice "
        "the updates, since a model costs time.",
    ]
    for world, runs in record["worlds"].items():
        lines += section(world, runs)
    lines += parts(record.get("parts", []))
    lines += tried(record.get("tried", []), record["worlds"]["foraging"])
    used = ", ".join(f"{name} {value}" for name, value in record["versions"].items())
    lines += ["", f"Versions: {used}", "", "Commands:", ""]
    commands = [run["command"] for runs in record["worlds"].values() for run in runs]
    commands += [run["command"] for run in record.get("parts", [])]
    commands += [f"{run['command']}  # {run['commit']}" for run in record.get("tried", [])]
    return "\n".join([*lines, *(f"    {command}" for command in commands)]) + "\n"


def draw(record: dict[str, Any]) -> None:
    figure, panels = style.new_figure(8.0, 4.5)
    axes = panels[0, 0]
    for world, runs in record["worlds"].items():
        for index, name in enumerate(ORDER):  # a colour for each learner, the second world in dashes
            curves = [np.array(run["curve"]) for run in runs if run["learner"] == name]
            if not curves:
                continue
            length = min(map(len, curves))
            mean = np.mean([curve[:length, 1] for curve in curves], axis=0)
            label = f"{name}, {world}"
            line = {"color": style.colour(index), "linestyle": "--" if world == "prey" else "-"}
            axes.plot(curves[0][:length, 0], mean, **line, linewidth=2.2, label=label)
    style.title(axes, "Partners with private goals, never met", "share of the food, mean over seeds")
    style.steps_axis(axes)
    figure.legend(loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    style.write_figure(figure, RESULTS / "team_goals.png")


def main() -> None:
    if sys.argv[1:2] == ["--tried"]:
        try_out(sys.argv[2:])
    elif sys.argv[1:2] == ["--parts"]:
        take_parts([Path(folder) for folder in sys.argv[2:]])
    elif len(sys.argv) > 2:
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
