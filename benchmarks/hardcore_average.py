"""The newest actor against the averaged one of the same training.

python benchmarks/hardcore_average.py RUN CHECKPOINT ...
Training never sees the averaged actor, so one run shows both, on the same terrains. CHECKPOINT is a folder with the
state.json and state.safetensors of a checkpoint of RUN: copy them away while it trains. Writes
benchmarks/results/control/hardcore_average.json and .md.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from safetensors.numpy import load_file

from twofold.base.statistics import summaries
from twofold.core import seeding
from twofold.core.evaluate import evaluate
from twofold.rows.world import make_world
from twofold.store.checkpoint import unpack
from twofold.store.policy_file import make_learner
from twofold.store.run import Run

RESULTS = Path(__file__).resolve().parent / "results" / "control"
TERRAINS = 200


def main(folder: Path, checkpoints: list[Path]) -> None:
    config = Run.open(folder).resolved.config
    world = make_world(config, purpose="eval", rows=config.trainer.eval_rows)
    learner = make_learner(
        config, world.single_observation_space, world.single_action_space, seeding.Generators(config.seed)
    )
    found = []
    for checkpoint in checkpoints:
        state = unpack(
            json.loads((checkpoint / "state.json").read_text()), load_file(checkpoint / "state.safetensors")
        )
        row: dict[str, Any] = {"seed": config.seed, "decisions": state["collector"]["steps"]}
        for name, actor in (("newest", "actor"), ("averaged", "average")):
            learner.load_policy_state({"actor": state["learner"][actor], "normaliser": None})
            policy = learner.policy(explore=False, rows=1, rng=seeding.generator(0, "evaluation"))
            scores = summaries(evaluate(world, policy, seeding.validation_seeds(TERRAINS)))
            row[name] = {"return": scores["return"]["mean"], "success": scores["success"]["mean"]}
        found.append(row)
        print(row, flush=True)
    write(found)


def write(found: list[dict[str, Any]]) -> None:
    (RESULTS / "hardcore_average.json").write_text(json.dumps(found, indent=1) + "\n")
    (RESULTS / "hardcore_average.md").write_text(page(found))


def page(found: list[dict[str, Any]]) -> str:
    """The page of what was found."""
    rows = [
        f"| {row['seed']} | {row['decisions']:,} | "
        + " | ".join(f"{row[n]['return']:.0f} ({row[n]['success']:.0%})" for n in ("newest", "averaged"))
        + " |"
        for row in found
    ]
    text = ["# hardcore_average", "",
            f"`td3_hardcore_plus`: the newest actor and the averaged one of the same training on the same {TERRAINS} "
            "validation terrains; mean return, raw reward, and share that reach the end.", "",
            "| seed | decisions | newest actor | averaged actor |", "|---|---|---|---|", *rows, "",
            "Command: `python benchmarks/hardcore_average.py RUN CHECKPOINT ...`, RUN being the seed's of "
            "[hardcore.md](hardcore.md), which names the versions.", "Data: `hardcore_average.json`.", ""]  # fmt: skip
    return "\n".join(text)


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(word) for word in sys.argv[2:]])
