"""What the actor of the spring step is before it learns."""

import gymnasium as gym
import numpy as np
import torch

from twofold.crystal.features import NAMES
from twofold.crystal.networks import ScalarNetworks
from twofold.crystal.spring import SCALARS
from twofold.learners.vector import VectorConfig


def test_every_action_is_zero():
    spaces = (gym.spaces.Box(-3, 3, (len(NAMES),)), gym.spaces.Box(-1, 1, (len(SCALARS),)))
    actor = ScalarNetworks(VectorConfig(), *spaces, torch.Generator().manual_seed(1)).actor()
    seen = np.random.default_rng(0).uniform(-3, 3, (50, len(NAMES))).astype(np.float32)
    assert (actor(torch.from_numpy(seen)) == 0).all()
