"""Starts relaxed with a policy and without it, which say where it is to be asked."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from twofold.core.experience import Array
from twofold.crystal.depth import Depth
from twofold.crystal.policy import SpringPolicy
from twofold.crystal.spring import SCALARS
from twofold.crystal.world import RelaxConfig, SpringEnv

FIRST = 2**29  # seed of the first start; those of training are above 2**30, those of results far below


def depth_of(policy: SpringPolicy, cfg: RelaxConfig, starts: int) -> Depth:
    """What the policy's own way through starts of training looks like, and what it gains on each.

    Every fourth start says how far fresh ones lie from the others.
    """
    env = SpringEnv(cfg, "train")
    kept, gains, fresh = list[Array](), list[float](), list[Array]()
    for one in range(starts):
        seen = _relaxed(env, FIRST + one, policy.act)
        if one % 4 == 1:
            fresh += seen
            continue
        calls = env.now.calls
        _relaxed(env, FIRST + one, lambda _: np.zeros(len(SCALARS)))
        kept += seen
        gains += [float(np.log(env.now.calls / calls))] * len(seen)
    return Depth.of(np.array(kept), np.array(gains), np.array(fresh))


def _relaxed(env: SpringEnv, seed: int, act: Callable[[Array], Array]) -> list[Array]:
    """Relax one start; what was observed on the way."""
    (observation, _), seen, over = env.reset(seed=seed), list[Array](), False
    while not over:
        seen.append(observation)
        observation, _, done, cut, _ = env.step(act(observation))
        over = done or cut
    return seen
