"""Frames per second of FastWalker against Gymnasium's environment: `python benchmarks/walker.py`.

Both play the same episodes in turns, so that a busy machine slows both. Processor time; medians over
the rounds, also of the ratio.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import gymnasium
import numpy as np
from gymnasium.envs.box2d.bipedal_walker import BipedalWalkerHeuristics

from twofold.control.walker import FastWalker

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


def main() -> None:
    """Print one line for each terrain, kind of actions and repeat."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--frames", type=int, default=2000)
    args = parser.parse_args()
    print("terrain   actions  repeat  gymnasium f/s  FastWalker f/s  ratio")
    for hardcore in (True, False):
        for policy in (random_actions, walking_actions):
            for repeat in (1, 2, 3):
                episodes, frames = record(hardcore, repeat, policy(), args.frames)
                theirs, ours, ratio = compare(hardcore, repeat, episodes, args.rounds)
                label = f"{'hardcore' if hardcore else 'flat':9} {policy.__name__.removesuffix('_actions'):8}"
                print(
                    f"{label} {repeat:6} {frames / theirs:14.0f} {frames / ours:15.0f} {ratio:6.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
