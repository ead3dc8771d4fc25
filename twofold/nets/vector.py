"""Actor and critics for worlds whose observation is a vector: two plain MLPs."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

import gymnasium as gym
import torch
from torch import nn

from twofold.core.errors import ConfigError
from twofold.nets.mlp import MLP
from twofold.nets.twin import Twin
from twofold.settings.registry import networks

Activation = Literal["relu", "tanh", "elu", "gelu", "silu"]


@dataclass(frozen=True)
class VectorConfig:
    actor_hidden: tuple[int, ...] = (256, 256)
    critic_hidden: tuple[int, ...] = (256, 256)
    actor_activation: Activation = "relu"
    critic_activation: Activation = "relu"
    actor_layer_norm: bool = False
    critic_layer_norm: bool = field(default=False, metadata={"aliases": ("layer_norm",)})
    critic_outputs: int = 1  # above 1: quantiles of the return

    def __post_init__(self) -> None:
        if min((*self.actor_hidden, *self.critic_hidden, self.critic_outputs)) < 1:
            raise ConfigError("networks: hidden sizes and critic_outputs must be at least 1")


@networks.register("vector", config=VectorConfig)
class VectorNetworks:
    """MLP actor and twin MLP critics for vector observations and continuous actions."""

    def __init__(
        self, cfg: VectorConfig, observation_space: Any, action_space: Any, generator: torch.Generator
    ) -> None:
        for space, what in ((observation_space, "observations"), (action_space, "actions")):
            if not isinstance(space, gym.spaces.Box) or len(space.shape) != 1:
                raise ConfigError(
                    f"the networks 'vector' need {what} that are a vector (Box of one axis), this world has {space}; "
                    "choose other networks with networks.name=..., or flatten it"
                )
        self.cfg, self.generator = cfg, generator
        self.inputs, self.actions = math.prod(observation_space.shape), math.prod(action_space.shape)

    def actor(self) -> nn.Module:
        """obs [B, o] -> action [B, a] in [-1, 1]."""
        cfg = self.cfg
        return MLP(
            self.inputs,
            cfg.actor_hidden,
            self.actions,
            activation=cfg.actor_activation,
            layer_norm=cfg.actor_layer_norm,
            output="tanh",
            generator=self.generator,
        )

    def critic(self) -> nn.Module:
        """(obs [B, o], action [B, a]) -> [2, B], or [2, B, outputs] for quantiles."""
        cfg = self.cfg
        return Twin(
            self.inputs,
            self.actions,
            cfg.critic_hidden,
            outputs=cfg.critic_outputs,
            activation=cfg.critic_activation,
            layer_norm=cfg.critic_layer_norm,
            generator=self.generator,
        )
