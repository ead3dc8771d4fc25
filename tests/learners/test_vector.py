"""Networks of vectors say which worlds they are for."""

from __future__ import annotations

import gymnasium as gym
import pytest
import torch

from twofold.base.errors import ConfigError
from twofold.base.foreign import AnySpace
from twofold.learners.vector import VectorConfig, VectorNetworks

LINE = gym.spaces.Box(-1, 1, (3,))


@pytest.mark.parametrize(
    ("observation", "action", "words"),
    [
        (gym.spaces.Discrete(5), LINE, "need observations that are a vector.*FlattenObservation"),
        (LINE, gym.spaces.Box(-1, 1, (2, 2)), "need actions that are a vector.*takes them as a vector"),
        (gym.spaces.Box(-1, 1, (0,)), LINE, "need observations of at least one number"),
        (LINE, gym.spaces.Box(-1, 1, (0,)), "need actions of at least one number"),
    ],
)
def test_other_spaces_are_refused_with_a_remedy(observation: AnySpace, action: AnySpace, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        VectorNetworks(VectorConfig(), observation, action, torch.Generator())
