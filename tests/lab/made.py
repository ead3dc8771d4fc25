"""Run directories written by hand: what a training leaves behind, with chosen scores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SETTINGS = {
    "seed": 0,
    "threads": 1,
    "env": "control/gym",
    "env_args.id": "Pendulum-v1",
    "learner.name": "td3",
    "learner.gamma": 0.99,
    "learner.tau": 0.005,
    "trainer.steps": 1000,
    "trainer.workers": 0,
    "trainer.test_episodes": 100,
}
ORIGIN = {
    "env": "envs/pendulum.yaml",
    "env_args.id": "envs/pendulum.yaml",
    "trainer.steps": "envs/pendulum.yaml",
    "learner.name": "algs/td3.yaml",
    "learner.gamma": "algs/td3.yaml",
    "learner.tau": "algs/td3.yaml",
}
PACKAGES = {"torch": "2.13.0", "numpy": "2.4.6", "gymnasium": "1.4.0"}


def summary(mean: float, episodes: int = 10) -> dict[str, float]:
    return {
        "mean": mean,
        "std": 1.0,
        "low": mean - 1,
        "high": mean + 1,
        "min": mean - 2,
        "episodes": episodes,
    }


def make_run(
    folder: Path,
    seed: int = 1,
    score: float | None = 5.0,
    *,
    curve: list[float] | None = None,
    settings: dict[str, Any] | None = None,
    layers: dict[str, str] | None = None,
    packages: dict[str, str] | None = None,
    command: str = "twofold train",
) -> Path:
    """A run of 1,000 steps with an evaluation of each value of `curve`; finished unless `score` is None."""
    folder.mkdir(parents=True)
    changed = settings or {}
    values = {**SETTINGS, "seed": seed, **changed}
    origin = {
        **dict.fromkeys(values, "built in"),
        **ORIGIN,
        **dict.fromkeys(["seed", *changed], "command line"),
    }
    write(folder / "config.json", {"values": values, "origin": {**origin, **(layers or {})}})
    provenance = {
        "command": f"{command} seed={seed}",
        "started": "2026-11-17T00:00:00+0000",
        "commit": "14b527e",
        "python": "3.11.7",
        "packages": PACKAGES if packages is None else packages,
        "machine": {"cpu": "a processor"},
    }
    write(folder / "provenance.json", provenance)
    means = curve or [0.0, (score or 0.0) / 2, score or 0.0]
    last = values["trainer.steps"] if score is not None else values["trainer.steps"] // 2
    steps = [round(i * last / max(1, len(means) - 1)) for i in range(len(means))]
    records = [{"step": s, "world": "eval", "return": summary(m)} for s, m in zip(steps, means, strict=True)]
    (folder / "evaluations.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
    (folder / "metrics.jsonl").write_text(json.dumps({"step": steps[-1], "updates": 3}) + "\n")
    if score is not None:
        about = {"seeds": [1, 100], "step": last, "policy": "c1d4"}
        write(folder / "test.json", {**about, "eval": {"return": summary(score, 100)}})
    return folder


def make_group(folder: Path, scores: list[float], first_seed: int = 1, **options: Any) -> Path:
    """One run for each score."""
    for i, score in enumerate(scores):
        make_run(folder / f"seed_{first_seed + i}", first_seed + i, score, **options)
    return folder


def write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value))
