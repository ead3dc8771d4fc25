"""One run of SBX's SAC, evaluated as ours are; called by sac.py in the venv of the peers.

    python benchmarks/sac_run.py Hopper-v5 --seed=1 --steps=300000 --out=FOLDER

Settings: those of the RL zoo for MuJoCo (10,000 random steps at first, everything else the library's default) and the
critics' learning rate of 1e-3 that SBX's README advises. Policies are evaluated without noise, in a world of their own,
on the episodes that all of our runs are evaluated on. Writes FOLDER/evaluations.jsonl and FOLDER/about.json at the end.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
from sbx import SAC
from stable_baselines3.common.callbacks import BaseCallback

SETTINGS = {"learning_starts": 10_000, "qf_learning_rate": 1e-3}
FIRST_SEED = 1_000_000  # of validation, as twofold/core/seeding.py has it
PACKAGES = ("sbx-rl", "stable-baselines3", "jax", "flax", "gymnasium", "mujoco", "numpy")


class Evaluations(BaseCallback):
    """Evaluates every few steps and keeps the processor time that training itself has taken."""

    def __init__(self, world: gym.Env, every: int, episodes: int) -> None:
        super().__init__()
        self.world, self.every, self.episodes = world, every, episodes
        self.records: list[dict[str, Any]] = []
        self.spent, self.since = 0.0, time.process_time()

    def _on_training_start(self) -> None:
        self._evaluate()

    def _on_step(self) -> bool:
        if self.num_timesteps % self.every == 0:
            self._evaluate()
        return True

    def _evaluate(self) -> None:
        self.spent += time.process_time() - self.since
        returns = [self._episode(FIRST_SEED + i) for i in range(self.episodes)]
        mean = sum(returns) / len(returns)
        self.records.append(
            {
                "step": self.num_timesteps,
                "cpu_seconds": round(self.spent, 1),
                "returns": [round(r, 2) for r in returns],
            }
        )
        print(f"step {self.num_timesteps:7,}  return {mean:8.1f}  {self.spent:6.0f} s", flush=True)
        self.since = time.process_time()

    def _episode(self, seed: int) -> float:
        obs, _ = self.world.reset(seed=seed)
        total, over = 0.0, False
        while not over:
            action, _ = self.model.predict(obs, deterministic=True)
            obs, reward, terminated, truncated, _ = self.world.step(action)
            total, over = total + float(reward), terminated or truncated
        return total


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("world")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--steps", type=int, default=300_000)
    parser.add_argument("--every", type=int, default=5_000, help="steps between evaluations")
    parser.add_argument("--episodes", type=int, default=5)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    evaluations = Evaluations(gym.make(options.world), options.every, options.episodes)
    model = SAC("MlpPolicy", gym.make(options.world), seed=options.seed, **SETTINGS)
    model.learn(options.steps, callback=evaluations)
    about = {
        "world": options.world,
        "seed": options.seed,
        "settings": SETTINGS,
        "packages": {name: importlib.metadata.version(name) for name in PACKAGES},
    }
    options.out.mkdir(parents=True)
    lines = "".join(json.dumps(record) + "\n" for record in evaluations.records)
    (options.out / "evaluations.jsonl").write_text(lines)
    (options.out / "about.json").write_text(json.dumps(about, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
