"""What a step of td3_plus costs beside one of td3: `python benchmarks/plus_cost.py [--rounds=15]`.

A step is acting, the world's step (HalfCheetah-v5), batches from replay, updates, and replay's priorities, with one
thread and the engine that `auto` chooses. The presets take turns in one process; times are processor time, which a busy
neighbour touches least. Writes benchmarks/results/control/td3_plus_cost.json.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from twofold.assemble import Parts, assemble, torch_as
from twofold.settings.config import load
from twofold.store.provenance import provenance
from twofold.store.run import Run

RESULTS = Path(__file__).resolve().parent / "results" / "control"
PRESETS = ("td3", "td3_plus")
HELD = 2_000  # items that replay holds when it begins


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=50, help="steps of a round")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    with torch_as(1), tempfile.TemporaryDirectory() as folder:
        runs = {name: begun(name, Path(folder) / name) for name in PRESETS}
        times: dict[str, list[float]] = {name: [] for name in PRESETS}
        for _ in range(options.rounds):
            for name, parts in runs.items():
                times[name].append(milliseconds(parts, options.steps))
        engines = {name: parts.trainer.learner.engine_name for name, parts in runs.items()}
    found = {
        name: {
            "engine": engines[name],
            "milliseconds_per_step": round(statistics.median(taken), 3),
            "fastest": round(min(taken), 3),
            "times_td3": round(statistics.median(a / b for a, b in zip(taken, times["td3"], strict=True)), 3),
            "rounds": [round(t, 3) for t in taken],
        }
        for name, taken in times.items()
    }
    about = {"load": os.getloadavg()[0], "made_with": provenance(" ".join(sys.argv))}
    (RESULTS / "td3_plus_cost.json").write_text(json.dumps(found | about, indent=1) + "\n")
    for name, row in found.items():
        print(f"{name} ({row['engine']}): {row['milliseconds_per_step']} ms, {row['times_td3']} times td3")
    return 0


def begun(preset: str, folder: Path) -> Parts:
    """A training run whose replay is filled."""
    given = {"trainer": {"warmup": HELD, "tensorboard": False}}
    if preset != "td3":
        given["learner"] = {"actor_after": 0}  # all that learns, as it is for the most of a run
    parts = assemble(Run.create(folder, load(preset, "halfcheetah", **given), "cost"))
    parts.trainer.collector.start()
    for _ in range(HELD):
        parts.trainer.collector.step()
    milliseconds(parts, 50)  # what is allocated at first is not counted
    return parts


def milliseconds(parts: Parts, steps: int) -> float:
    began = time.process_time()
    for _ in range(steps):
        parts.trainer._collect()
        parts.trainer._update()
    return (time.process_time() - began) / steps * 1e3


if __name__ == "__main__":
    raise SystemExit(main())
