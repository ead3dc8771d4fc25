"""Networks of the spring step: MLPs whose actor starts at zero, so that the untrained policy is the prior."""

from __future__ import annotations

from typing import Literal, cast

import numpy as np
import torch
from torch import nn

from twofold.base.errors import ConfigError
from twofold.base.setting import setting, settings
from twofold.core.experience import Array
from twofold.crystal.features import NAMES
from twofold.crystal.policy import METALS, matrices
from twofold.crystal.spring import SCALARS
from twofold.learners.vector import VectorConfig, VectorNetworks
from twofold.nets.mlp import MLP, Affine
from twofold.settings.registry import networks

_SHUT = 100.0  # far below any sum of a hidden unit


@settings
class ScalarsConfig(VectorConfig):
    """Two multilayer perceptrons, and what the actor is before it learns."""

    start: Literal["prior", "metals"] = setting(
        "the actor begins as the untrained step, or as the packaged policy of metals where there are no nonmetals",
        default="prior",
    )


@networks.register("crystal/scalars", config=ScalarsConfig)
class ScalarNetworks(VectorNetworks):
    """MLP actor that begins as a known step, and twin MLP critics."""

    cfg: ScalarsConfig

    def actor(self) -> MLP:
        actor = super().actor()
        nn.init.zeros_(cast(Affine, actor.layers[-1]).matrix)
        if self.cfg.start == "metals":
            self._hold(actor, matrices(METALS))
        return actor

    @torch.no_grad()
    def _hold(self, actor: MLP, known: list[Array]) -> None:
        """The first hidden units are those of a known policy, and one more shuts them where there are nonmetals.

        The last layer is zero elsewhere: the untrained step with nonmetals, the known policy without; all of it learns.
        """
        if (self.inputs, self.actions) != (len(NAMES), len(SCALARS)):
            raise ConfigError(
                "networks.start=metals is for the world crystal/spring: set networks.start=prior"
            )
        layers = [cast(Affine, layer).matrix for layer in actor.layers]
        if (
            len(layers) != len(known)
            or self.cfg.actor_layer_norm
            or self.cfg.actor_activation != "relu"
            or any(own.shape[1] <= one.shape[1] for own, one in zip(layers, known[:-1], strict=False))
        ):
            sizes = ", ".join(str(one.shape[1] + 1) for one in known[:-1])
            raise ConfigError(
                f"networks.start=metals needs actor_hidden of at least [{sizes}], relu, no layer norm"
            )
        gate = NAMES.index("any nonmetal")
        for number, (own, one) in enumerate(zip(layers, known, strict=True)):
            inputs, outputs = one.shape[0] - 1, one.shape[1]
            own[:, :outputs] = 0.0
            own[:inputs, :outputs] = torch.from_numpy(np.array(one[:-1]))
            own[-1, :outputs] = torch.from_numpy(np.array(one[-1]))
            if number < len(known) - 1:
                own[:, outputs] = 0.0
                own[gate, outputs] = 1.0
            if number == len(known) - 1:
                own[gate, :outputs] = -own[-1, :outputs]
            elif number:
                own[gate, :outputs] = -_SHUT
            gate = outputs  # the unit that is one where there are nonmetals
