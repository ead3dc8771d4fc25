"""What each part of `td3_rec` brings on Coat: one taken away at a time, and the way up from the reference's settings.

python benchmarks/recsys_ablations.py --seeds 31 32
Training episodes end by the true rule (`quit: true`), as the reference's do: nothing here is to be held against the
results without that leak. Runs that are finished already (in --runs) are not repeated.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch

from twofold import api
from twofold.recsys.metrics import over_seeds
from twofold.store.provenance import provenance

RESULTS = Path(__file__).resolve().parent / "results" / "recsys"
# A third of the preset's steps: what a part brings shows early.
SHORT = {"trainer.steps": 64_000, "learner.lr_decay.over": 2_400, "trainer.eval_every": 64_000}
TRUE = {"env_args.quit": True}
WITHOUT: dict[str, dict[str, Any]] = {
    "td3_rec": {},
    "without the shortlist": {"networks.shortlist": 0},
    "without re-ranking (and shortlist)": {"networks.rerank": 1},
    "without re-ranking, critic on the raw action": {"networks.rerank": 1, "networks.critic_on": "point"},
    "without the cool-down mask": {"env_args.cool_down": 0},
    "one expected world in place of drawn ones": {"env_args.posterior": False},
    "without the belief": {"env_args.belief": 0},
    "without the memory of the episode": {"networks.memory": False},
    "without learned pairs": {"networks.learn_pairs": False},
    "without the guide": {"networks.guide": False},
    "without the quit penalty": {"env_args.quit_penalty": 0.0},
    "actions in [0, 1]": {"networks.positive_actions": True},
    "n-step 3": {"learner.n_step": 3},
}
UP: list[tuple[str, dict[str, Any]]] = [
    ("td3_rec_reference", {}),
    ("+ the window as intended", {"env_args.quit_rule": "intended"}),
    ("+ actions in [-1, 1]", {"networks.positive_actions": False}),
    ("+ the cool-down mask", {"env_args.cool_down": 7}),
    ("+ critic on the item shown", {"networks.critic_on": "item", "networks.memory": True}),
    ("+ ten nearest re-ranked", {"networks.rerank": 10}),
    ("+ users drawn from a posterior", {"env_args.model.kind": "auto", "env_args.posterior": True,
                                        "env_args.rating_noise": 0.3, "env_args.centred": True}),
]  # fmt: skip
UP_STEPS = {"trainer.steps": 200_000, "trainer.eval_every": 100_000}


def score(config: str, seed: int, folder: Path, settings: dict[str, Any]) -> dict[str, float]:
    if not (folder / "test.json").exists():
        api.train(config, "coat", run=str(folder), seed=seed, **settings)
    found = json.loads((folder / "test.json").read_text())["FB"]
    return {name: found[name]["mean"] for name in ("return", "length")}


def main() -> None:
    typed = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    typed.add_argument("--seeds", type=int, nargs="+", default=[31, 32])
    typed.add_argument("--runs", type=Path, default=Path("runs/recsys_ablations"))
    options = typed.parse_args()
    torch.set_num_threads(1)
    found: dict[str, Any] = {"without": {}, "up": {}}
    for place, (name, change) in enumerate(WITHOUT.items()):
        scores = [
            score("td3_rec", seed, options.runs / f"without{place}_seed{seed}", SHORT | TRUE | change)
            for seed in options.seeds
        ]
        found["without"][name] = {"seeds": scores, **over_seeds(scores)}
    settings: dict[str, Any] = dict(UP_STEPS)
    for place, (name, change) in enumerate(UP):
        settings |= change
        seed = options.seeds[0]
        found["up"][name] = score("td3_rec_reference", seed, options.runs / f"up{place}_seed{seed}", settings)
    write(found, options.seeds)


def write(found: dict[str, Any], seeds: list[int]) -> None:
    command = f"python benchmarks/recsys_ablations.py --seeds {' '.join(map(str, seeds))}"
    record = {"provenance": provenance(command), **found}
    (RESULTS / "recsys_ablations.json").write_text(json.dumps(record, indent=1))
    (RESULTS / "recsys_ablations.md").write_text(page(record))


def page(record: dict[str, Any]) -> str:
    """The page of what was found."""
    seeds = len(next(iter(record["without"].values()))["seeds"])
    lines = [
        "# What brings how much on Coat (FB, all 290 true users; `quit: true`, a leak, as in the reference)",
        "",
    ]
    lines += [
        f"`{record['provenance']['command']}`",
        "",
        f"One part of `td3_rec` taken away, 64,000 steps, {seeds} seed{'s' * (seeds > 1)}:",
        "",
    ]
    lines += ["| | return | length | each seed |", "|---|---|---|---|"]
    for name, row in record["without"].items():
        each = ", ".join(f"{seed['return']:.1f}" for seed in row["seeds"])
        lines.append(f"| {name} | {row['return']['mean']:.1f} | {row['length']['mean']:.1f} | {each} |")
    lines += [
        "",
        "From the reference's settings upwards, 200,000 steps, one seed, each row with all changes above it:",
    ]
    lines += ["", "| | return | length |", "|---|---|---|"]
    lines += [f"| {name} | {row['return']:.1f} | {row['length']:.1f} |" for name, row in record["up"].items()]
    words = RESULTS / "recsys_ablations.txt"  # what a person read out of the tables
    return "\n".join([*lines, "", words.read_text()] if words.exists() else [*lines, ""])


if __name__ == "__main__":
    main()
