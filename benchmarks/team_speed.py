"""Steps per second of the team worlds, and of QMIX on them with updates: python benchmarks/team_speed.py"""

from __future__ import annotations

import json
import os
import platform
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch

from twofold.assemble import assemble
from twofold.rows.world import make_world
from twofold.settings.config import load
from twofold.store.run import Run

RESULTS = Path(__file__).resolve().parent / "results" / "team"


def world_speed(env_config: str, rows: int, vector_steps: int = 60, **env_args: Any) -> dict[str, Any]:
    """Team steps a second of the world alone, with random available actions."""
    world = make_world(
        load("iql", env_config, **({"env_args": env_args} if env_args else {})).config,
        purpose="train",
        rows=rows,
    )
    rng = np.random.default_rng(0)
    obs, _ = world.reset(seed=list(range(rows)), options={"reset_mask": np.ones(rows, bool)})
    spent = 0.0
    for _ in range(vector_steps):
        actions = (rng.random(obs["avail"].shape) * obs["avail"]).argmax(-1)
        start = time.process_time()
        obs, _, terminated, truncated, _ = world.step(actions)
        spent += time.process_time() - start
        over = terminated | truncated
        if over.any():
            obs, _ = world.reset(seed=rng.integers(1 << 30, size=rows).tolist(), options={"reset_mask": over})
    return {
        "world": f"{env_config} {env_args}",
        "rows": rows,
        "steps_per_second": rows * vector_steps / spent,
    }


def training_speed(env_config: str, rows: int, steps: int, **env_args: Any) -> dict[str, Any]:
    """World steps a second of QMIX with one update per episode, after the first batch is there."""
    settings = {"rows": rows, "steps": steps, "eval_every": 10**9, "tensorboard": False, "save_seconds": 1e6}
    resolved = load("qmix", env_config, **({"env_args": env_args} if env_args else {}), trainer=settings)
    with tempfile.TemporaryDirectory() as folder:
        run = Run.create(Path(folder) / "run", resolved, "speed")
        run.lock()
        trainer = assemble(run).trainer
        trainer.collector.start()
        while trainer.learner.updates < 3:
            trainer._collect()
            trainer._update()
        begun, updates, start = trainer.steps, trainer.learner.updates, time.process_time()
        while trainer.steps - begun < steps:
            trainer._collect()
            trainer._update()
        spent = time.process_time() - start
        run.close()
    made = trainer.learner.updates - updates
    speed = (trainer.steps - begun) / spent
    return {
        "training": f"qmix {env_config} {env_args}",
        "rows": rows,
        "steps_per_second": speed,
        "updates_per_second": made / spent,
    }


def main() -> None:
    torch.set_num_threads(1)
    worlds = [
        world_speed("skirmish", 256, map_name="8m"),
        world_speed("skirmish", 256, map_name="3m"),
        world_speed("lbf", 256),
        world_speed("lbf", 1),
        world_speed("lbf", 1, batched=False),
    ]
    trainings = [
        training_speed(env, rows, steps, **args)
        for env, steps, args in (("lbf", 2_000, {}), ("skirmish", 2_000, {"map_name": "8m"}))
        for rows in (1, 8)
    ]
    about = {"python": platform.python_version(), "torch": torch.__version__, "load": os.getloadavg()[0]}
    RESULTS.mkdir(exist_ok=True)
    record = {"about": about, "worlds": worlds, "trainings": trainings}
    (RESULTS / "team_speed.json").write_text(json.dumps(record, indent=1))
    lines = ["# Speed of team worlds and of QMIX on them (one thread, CPU time of the process)", ""]
    lines += ["| what | rows | team steps/s | updates/s |", "|---|---|---|---|"]
    for w in worlds:
        lines.append(f"| {w['world']} | {w['rows']} | {w['steps_per_second']:,.0f} | |")
    for t in trainings:
        lines.append(
            f"| {t['training']} | {t['rows']} | {t['steps_per_second']:,.0f} | {t['updates_per_second']:.1f} |"
        )
    lines += ["", f"{about}", "", "    python benchmarks/team_speed.py"]
    (RESULTS / "team_speed.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
