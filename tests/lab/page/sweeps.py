"""Sweeps as their files are, for the page."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from ..made import make_run

AXES = {
    "learner.actor_lr": {"kind": "Span", "low": 1e-5, "high": 1e-2, "scale": "log"},
    "networks.critic_hidden": {"kind": "Choice", "texts": ["64,64", "256,256"]},
}


def score_of(number: int) -> float:
    return round(100 * math.sin(number), 3)


def trial(number: int, score: float | None, failed: bool = False) -> dict[str, Any]:
    values = {
        "learner.actor_lr": 10 ** (-5 + number % 4),
        "networks.critic_hidden": [64, 64] if number % 2 else [256, 256],
    }
    return {"number": number, "values": values, "score": score, "failed": failed}


def make_sweep(folder: Path, trials: int = 12, **changed: Any) -> Path:
    """A sweep that is done: its best four confirmed, the first of them the winner."""
    folder.mkdir(parents=True)
    spec = {
        "config": "td3",
        "env_config": "pendulum",
        "axes": AXES,
        "fixed": {},
        "seed": 0,
        "metric": "return",
    }
    (folder / "sweep.json").write_text(json.dumps(spec))
    found = [trial(number, score_of(number)) for number in range(trials)]
    found += [trial(trials, None, failed=True), trial(trials + 1, None)]
    estimate = {"value": 55.5, "low": 50.0, "high": 61.0, "runs": 5}
    candidates = [
        {
            "trial": number,
            "values": found[number]["values"],
            "searched": score_of(number),
            "confirmed": confirmed,
        }
        for number, confirmed in ((2, estimate), (1, {**estimate, "value": 40.0}), (8, None))
    ]
    record = {
        "phase": "done",
        "wanted": {"trials": trials + 2},
        "trials": found,
        "candidates": candidates,
        "winner": {},
        "verdicts": ["winner is better: P = 0.91 [0.76, 1.00]"],
        "importance": {"learner.actor_lr": 0.8, "networks.critic_hidden": 0.2},
        "score": "mean of the last 5 evaluations",
    }
    (folder / "result.json").write_text(json.dumps({**record, **changed}))
    make_run(folder / "search" / "pendulum" / "trial_002" / "seed_10002")
    return folder
