"""Small team games and random episodes that tests build with."""

import numpy as np
import torch

from twofold.team.episodes import Episode
from twofold.team.worlds.space import TeamShape

SHAPE = TeamShape(agents=3, obs=5, state=7, actions=4, limit=6)


def episodes(count=4, seed=0, shape=SHAPE):
    """Random episodes of different lengths."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(2, shape.limit + 1, count)
    filled = (np.arange(shape.limit) < lengths[:, None]).astype(np.uint8)
    terminated = np.zeros_like(filled)
    terminated[np.arange(count), lengths - 1] = 1
    time = (count, shape.limit + 1)
    obs = {
        "obs": rng.normal(size=(*time, shape.agents, shape.obs)).astype(np.float32),
        "state": rng.normal(size=(*time, shape.state)).astype(np.float32),
        "avail": (rng.random((*time, shape.agents, shape.actions)) < 0.7).astype(np.uint8),
        "step": np.tile(np.arange(shape.limit + 1, dtype=np.int32), (count, 1)),
    }
    obs["avail"][..., 0] = 1
    action = (rng.random(obs["avail"][:, :-1].shape) * obs["avail"][:, :-1]).argmax(-1).astype(np.int16)
    reward = (rng.normal(size=filled.shape) * filled).astype(np.float32)
    return Episode(obs, action, reward, terminated, filled)


def as_arrays(state):
    if isinstance(state, dict):
        return {key: as_arrays(value) for key, value in state.items()}
    return state.numpy().copy() if isinstance(state, torch.Tensor) else state
