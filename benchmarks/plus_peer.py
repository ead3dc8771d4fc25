"""SAC of SBX on one body, evaluated as td3_plus is: `python benchmarks/plus_peer.py Hopper-v5 --seed=21 --out=FOLDER`.

Runs in a venv of its own (`pip install -c benchmarks/peers-constraints.txt sbx-rl gymnasium mujoco`) and imports nothing
of ours. The settings are those that SBX and RL Zoo recommend for these bodies: 10,000 random steps, a critic that learns
at 1e-3, everything else SBX's default. Minutes are processor time without evaluations, which busy neighbours touch
least. Writes FOLDER/BODY_SEED.csv after every evaluation and FOLDER/BODY_SEED.json (versions) at the start.
`plus_beside.py` draws it beside our runs.
"""

from __future__ import annotations

import argparse
import csv
import importlib.metadata
import json
import sys
import time
from pathlib import Path

import gymnasium as gym
import numpy as np
from sbx import SAC
from stable_baselines3.common.callbacks import BaseCallback

SETTINGS = {"learning_starts": 10_000, "qf_learning_rate": 1e-3}
FIRST_SEED = 1_000_000  # of the evaluation's episodes, far from those of training
COLUMNS = ("step", "minutes", "mean", "std")
PACKAGES = ("sbx-rl", "stable-baselines3", "jax", "gymnasium", "mujoco", "numpy")


class Evaluations(BaseCallback):
    """Plays the greedy policy in a world of its own every so many steps and writes down what it earned."""

    def __init__(self, body: str, table: Path, every: int, episodes: int) -> None:
        super().__init__()
        self.world, self.table, self.every, self.episodes = gym.make(body), table, every, episodes
        self.rows: list[tuple[int, float, float, float]] = []
        self.learning, self.since = 0.0, time.process_time()

    def _on_step(self) -> bool:
        if self.num_timesteps % self.every == 0:
            self.learning += time.process_time() - self.since
            earned = [self._episode(FIRST_SEED + k) for k in range(self.episodes)]
            mean, std = float(np.mean(earned)), float(np.std(earned, ddof=1))
            self.rows.append((self.num_timesteps, round(self.learning / 60, 3), round(mean, 1), round(std, 1)))
            self._write()
            print(*self.rows[-1], flush=True)
            self.since = time.process_time()
        return True

    def _episode(self, seed: int) -> float:
        obs, _ = self.world.reset(seed=seed)
        total, done = 0.0, False
        while not done:
            action, _ = self.model.predict(obs, deterministic=True)
            obs, reward, terminated, truncated, _ = self.world.step(action)
            total, done = total + float(reward), terminated or truncated
        return total

    def _write(self) -> None:
        with self.table.open("w", newline="") as file:
            csv.writer(file).writerows([COLUMNS, *self.rows])


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("body", help="Hopper-v5, Walker2d-v5, HalfCheetah-v5")
    parser.add_argument("--seed", type=int, default=21)
    parser.add_argument("--steps", type=int, default=300_000)
    parser.add_argument("--every", type=int, default=5_000)
    parser.add_argument("--episodes", type=int, default=5)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    table = options.out / f"{options.body}_{options.seed}.csv"
    about = {name: importlib.metadata.version(name) for name in PACKAGES}
    facts = {"settings": SETTINGS, "versions": about, "command": " ".join(sys.argv[:2]), "steps": options.steps}
    table.with_suffix(".json").write_text(json.dumps(facts, indent=1) + "\n")
    model = SAC("MlpPolicy", gym.make(options.body), seed=options.seed, **SETTINGS)
    model.learn(options.steps, callback=Evaluations(options.body, table, options.every, options.episodes))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
