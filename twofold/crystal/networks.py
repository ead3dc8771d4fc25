"""Networks of the flagship: MLPs whose actor starts at zero, so that the untrained policy is the prior."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from twofold.nets.mlp import MLP
from twofold.nets.vector import VectorConfig, VectorNetworks
from twofold.settings.registry import networks


@networks.register("crystal/scalars", config=VectorConfig)
class ScalarNetworks:
    """MLP actor with a zero output layer and twin MLP critics."""

    def __init__(
        self, cfg: VectorConfig, observation_space: Any, action_space: Any, generator: torch.Generator
    ) -> None:
        self._vector = VectorNetworks(cfg, observation_space, action_space, generator)

    def actor(self) -> nn.Module:
        actor = self._vector.actor()
        assert isinstance(actor, MLP)
        last = actor.layers[-1]
        nn.init.zeros_(last.matrix)  # type: ignore[arg-type]
        return actor

    def critic(self) -> nn.Module:
        return self._vector.critic()
