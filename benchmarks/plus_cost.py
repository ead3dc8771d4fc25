"""What a step of td3_plus costs beside one of td3: `python benchmarks/plus_cost.py [--steps=100] [--rounds=15]`.

A step is acting, the world's step (HalfCheetah-v5), a batch from replay, an update, and replay's priorities, with one
thread. Both presets take turns in one process; times are processor time, which a busy neighbour touches least. Writes
benchmarks/results/td3_plus_cost.json.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from twofold.assemble import assemble, torch_as
from twofold.settings.config import load
from twofold.store.provenance import provenance
from twofold.store.run import Run

RESULTS = Path(__file__).resolve().parent / "results"
PRESETS = {"td3": {"learner": {"engine": "fused"}}, "td3_plus": {}}
HELD = 2_000  # items that replay holds when it begins


def main() -> int:
    import tempfile

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    with torch_as(1), tempfile.TemporaryDirectory() as folder:
        training = {name: begun(name, Path(folder) / name, own) for name, own in PRESETS.items()}
        times: dict[str, list[float]] = {name: [] for name in training}
        for _ in range(options.rounds):
            for name, step in training.items():
                times[name].append(milliseconds(step, options.steps))
    ratios = [plus / plain for plain, plus in zip(times["td3"], times["td3_plus"], strict=True)]
    found = {
        "milliseconds_per_step": {name: round(statistics.median(taken), 3) for name, taken in times.items()},
        "ratio_of_medians": round(statistics.median(times["td3_plus"]) / statistics.median(times["td3"]), 3),
        "ratio_of_fastest": round(min(times["td3_plus"]) / min(times["td3"]), 3),
        "median_of_ratios": round(statistics.median(ratios), 3),
        "rounds": {name: [round(t, 3) for t in taken] for name, taken in times.items()},
        "steps_per_round": options.steps,
        "made_with": provenance(" ".join(sys.argv)),
    }
    (RESULTS / "td3_plus_cost.json").write_text(json.dumps(found, indent=1, default=str) + "\n")
    print(json.dumps({k: v for k, v in found.items() if k != "rounds"}, indent=1, default=str))
    return 0


def begun(preset: str, folder: Path, own: dict[str, Any]) -> Callable[[], None]:
    """One step of a training run whose replay is filled."""
    given = {"warmup": HELD, "tensorboard": False}
    parts = assemble(Run.create(folder, load(preset, "halfcheetah", trainer=given, **own), "cost"))
    trainer = parts.trainer
    trainer.collector.start()
    for _ in range(HELD):
        trainer.collector.step()

    def step() -> None:
        trainer._collect()
        trainer._update()

    milliseconds(step, 50)  # what is allocated at first is not counted
    return step


def milliseconds(step: Callable[[], None], count: int) -> float:
    began = time.process_time()
    for _ in range(count):
        step()
    return (time.process_time() - began) / count * 1e3


if __name__ == "__main__":
    raise SystemExit(main())
