"""Frames per second of FastWalker against Gymnasium's environment: `python benchmarks/walker.py`.

Both play the same episodes in turns, so that a busy machine slows both. Processor time; medians over
the rounds, also of the ratio. Writes benchmarks/results/control/walker.{json,md}.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.box2d.bipedal_walker import BipedalWalkerHeuristics

from twofold.control.walker import FastWalker
from twofold.store.provenance import provenance

RESULTS = Path(__file__).resolve().parent / "results" / "control"
Episode = list[np.ndarray]  # the action of each decision


def random_actions() -> Callable[[np.ndarray], np.ndarray]:
    """Uniform actions from a fixed seed."""
    rng = np.random.default_rng(0)
    return lambda obs: rng.uniform(-1, 1, 4).astype(np.float32)


def walking_actions() -> Callable[[np.ndarray], np.ndarray]:
    """Gymnasium's hand-written gait: it walks until it meets an obstacle."""
    gait = BipedalWalkerHeuristics()
    return lambda obs: gait.step_heuristic(obs).astype(np.float32)


def record(
    hardcore: bool, repeat: int, policy: Callable[[np.ndarray], np.ndarray], frames: int
) -> tuple[list[Episode], int]:
    """Episodes of terrains 0, 1, ... of at least `frames` in all, so that timing leaves the policy out."""
    env, played = FastWalker(hardcore, repeat), 0
    episodes: list[Episode] = []
    while played < frames:
        obs, _ = env.reset(seed=len(episodes))
        actions, ended = [], False
        while not ended:
            actions.append(policy(obs))
            obs, _, terminated, truncated, _ = env.step(actions[-1])
            ended = terminated or truncated
        episodes.append(actions)
        played += env.frames
    return episodes, played


def seconds(envs: list[gymnasium.Env], episodes: list[Episode], repeat: int) -> float:
    """Processor time of the episodes, resets included, each action given to `step` up to `repeat` times."""
    start = time.process_time()
    for seed, (env, actions) in enumerate(zip(envs, episodes, strict=True)):
        env.reset(seed=seed)
        for action in actions:
            for _ in range(repeat):
                _, _, terminated, truncated, _ = env.step(action)
                if terminated or truncated:
                    break
    return time.process_time() - start


def compare(hardcore: bool, repeat: int, episodes: list[Episode], rounds: int) -> tuple[float, float, float]:
    """Median seconds of Gymnasium's environment, of ours, and median ratio of the two."""
    name = "BipedalWalkerHardcore-v3" if hardcore else "BipedalWalker-v3"
    fast = FastWalker(hardcore, repeat)
    theirs, ours = [], []
    for _ in range(rounds):
        # A new instance for each episode, or Gymnasium's would not play the episodes that were recorded.
        theirs.append(seconds([gymnasium.make(name) for _ in episodes], episodes, repeat))
        ours.append(seconds([fast] * len(episodes), episodes, repeat=1))
    ratios = [their / our for their, our in zip(theirs, ours, strict=True)]
    return statistics.median(theirs), statistics.median(ours), statistics.median(ratios)


def measured(rounds: int, frames: int) -> list[dict[str, Any]]:
    """One row for each terrain, kind of actions and repeat."""
    rows = []
    for hardcore in (True, False):
        for policy in (random_actions, walking_actions):
            for repeat in (1, 2, 3):
                episodes, played = record(hardcore, repeat, policy(), frames)
                theirs, ours, ratio = compare(hardcore, repeat, episodes, rounds)
                row: dict[str, Any] = {"terrain": "hardcore" if hardcore else "flat"}
                row |= {"actions": policy.__name__.removesuffix("_actions"), "repeat": repeat}
                row |= {"gymnasium_fps": played / theirs, "fast_fps": played / ours, "ratio": ratio}
                rows.append(row)
                print(line(row), flush=True)
    return rows


def line(row: dict[str, Any]) -> str:
    """A row of the table."""
    about = f"| {row['terrain']} | {row['actions']} | {row['repeat']} "
    return about + f"| {row['gymnasium_fps']:,.0f} | {row['fast_fps']:,.0f} | {row['ratio']:.2f} |"


def main() -> None:
    """Measure, show, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--frames", type=int, default=2000)
    parser.add_argument("--out", type=Path, default=RESULTS / "walker", help="writes OUT.json and OUT.md")
    options = parser.parse_args()
    head = [
        "| terrain | actions | repeat | Gymnasium, frames/s | FastWalker, frames/s | ratio |",
        "|---|---|---|---|---|---|",
    ]
    print("\n".join(head))
    rows = measured(options.rounds, options.frames)
    command = f"benchmarks/walker.py --rounds={options.rounds} --frames={options.frames}"
    written = {"provenance": provenance(command), "rows": rows}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.with_suffix(".json").write_text(json.dumps(written, indent=1) + "\n")
    text = ["# Frames per second of the fast walker (one thread, processor time of the process)", ""]
    text += [
        *head,
        *map(line, rows),
        "",
        "The same episodes in turns, resets included; medians over rounds.",
        "",
    ]
    options.out.with_suffix(".md").write_text("\n".join([*text, f"    python {command}"]) + "\n")


if __name__ == "__main__":
    main()
