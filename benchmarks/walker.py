"""Frames per second of FastWalker against Gymnasium's environment: `python benchmarks/walker.py`.

Both run the same number of frames in turns, so that a busy machine slows both; the medians are compared.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import gymnasium
import numpy as np
from gymnasium.envs.box2d.bipedal_walker import BipedalWalkerHeuristics

from twofold.control.walker import FastWalker

Policy = Callable[[np.ndarray], np.ndarray]


def random_policy() -> Policy:
    """Uniform actions from a fixed seed."""
    rng = np.random.default_rng(0)
    return lambda obs: rng.uniform(-1, 1, 4).astype(np.float32)


def walking_policy() -> Policy:
    """Gymnasium's hand-written gait: it walks until it meets an obstacle."""
    gait = BipedalWalkerHeuristics()
    return lambda obs: gait.step_heuristic(obs).astype(np.float32)


def frames_per_second(env: gymnasium.Env, policy: Policy, decisions: int, repeat: int) -> float:
    """Frames per second of stepping (resets included), each decision held for `repeat` calls of step."""
    episode, start = 0, time.perf_counter()
    obs, _ = env.reset(seed=episode)
    for _ in range(decisions):
        action = policy(obs)
        for _ in range(repeat):
            obs, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                episode += 1
                obs, _ = env.reset(seed=episode)
                break
    return decisions / (time.perf_counter() - start)


def main() -> None:
    """Print one line for each terrain, policy and repeat."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--decisions", type=int, default=600)
    args = parser.parse_args()
    print("terrain   policy  repeat  gymnasium f/s  FastWalker f/s  ratio")
    for hardcore in (True, False):
        name = "BipedalWalkerHardcore-v3" if hardcore else "BipedalWalker-v3"
        for policy in (random_policy, walking_policy):
            for repeat in (1, 2, 3):
                speeds = [
                    (
                        repeat * frames_per_second(gymnasium.make(name), policy(), args.decisions, repeat),
                        repeat * frames_per_second(FastWalker(hardcore, repeat), policy(), args.decisions, 1),
                    )
                    for _ in range(args.rounds)
                ]
                theirs, ours = (statistics.median(column) for column in zip(*speeds, strict=True))
                terrain = "hardcore" if hardcore else "flat"
                kind = policy.__name__.removesuffix("_policy")
                print(f"{terrain:9} {kind:7} {repeat:6} {theirs:14.0f} {ours:15.0f} {ours / theirs:6.2f}", flush=True)


if __name__ == "__main__":
    main()
