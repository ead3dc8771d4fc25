"""Starts relaxed with a policy and without it, which say where it is to be asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from twofold.core.experience import Array
from twofold.crystal.depth import Depth
from twofold.crystal.policy import SpringPolicy
from twofold.crystal.spring import SCALARS
from twofold.crystal.world import RelaxConfig, SpringEnv

FIRST = 2**29  # seed of the first start; those of training are above 2**30, those of results far below


def depth_of(policy: SpringPolicy, measured: Sequence[tuple[RelaxConfig, int]]) -> Depth:
    """What starts of training look like where the policy is asked or not, and what it gains on each.

    So many starts of each kind; every fourth says how far fresh ones lie from the others.
    """
    kept, gains, anew = list[Array](), list[float](), list[Array]()
    for cfg, starts in measured:
        env = SpringEnv(cfg, "train")
        for one in range(starts):
            seen = None if one % 4 == 1 else _decisive(env, FIRST + one, policy.act)
            if seen is None:
                continue
            calls = env.now.calls
            _decisive(env, FIRST + one, lambda _: np.zeros(len(SCALARS)))
            kept.append(seen)
            gains.append(float(np.log(env.now.calls / calls)))
        anew += fresh(cfg, starts)
    return Depth.of(np.array(kept), np.array(gains), np.array(anew))


def fresh(cfg: RelaxConfig, starts: int) -> list[Array]:
    """What is observed at the second call of every fourth start, whatever the policy: the first step is untrained."""
    env, found = SpringEnv(cfg, "train"), list[Array]()
    for one in range(1, starts, 4):
        env.reset(seed=FIRST + one)
        seen, _, done, cut, _ = env.step(np.zeros(len(SCALARS)))
        if not (done or cut):
            found.append(seen)
    return found


def _decisive(env: SpringEnv, seed: int, act: Callable[[Array], Array]) -> Array | None:
    """What was observed at the second call of one start, where it is decided who steps, if it came to that."""
    seen = path(env, seed, act)
    return seen[0] if seen else None


def path(env: SpringEnv, seed: int, act: Callable[[Array], Array]) -> list[Array]:
    """Relax one start; what was observed from its second call on, where the policy is asked.

    The first step is the untrained one, as in `SpringPolicy.scalars`.
    """
    (observation, _), seen, over = env.reset(seed=seed), list[Array](), False
    while not over:
        seen.append(observation)
        action = act(observation) if len(seen) > 1 else np.zeros(len(SCALARS))
        observation, _, done, cut, _ = env.step(action)
        over = done or cut
    return seen[1:]
