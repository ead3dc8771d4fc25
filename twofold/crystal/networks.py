"""Networks of the spring step: MLPs whose actor starts at zero, so that the untrained policy is the prior."""

from __future__ import annotations

from typing import cast

from torch import nn

from twofold.learners.vector import VectorConfig, VectorNetworks
from twofold.nets.mlp import MLP, Affine
from twofold.settings.registry import networks


@networks.register("crystal/scalars", config=VectorConfig)
class ScalarNetworks(VectorNetworks):
    """MLP actor that begins as the untrained step, and twin MLP critics."""

    def actor(self) -> MLP:
        actor = super().actor()
        nn.init.zeros_(cast(Affine, actor.layers[-1]).matrix)
        return actor
