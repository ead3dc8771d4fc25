"""Actor and critics for worlds whose observation is a vector: two plain MLPs."""

from __future__ import annotations

from typing import Annotated, Literal

import gymnasium as gym
import torch
from pydantic import Field

from twofold.base.errors import ConfigError
from twofold.base.foreign import AnySpace
from twofold.base.setting import setting, settings
from twofold.learners.actor_critic import ActorCritic
from twofold.nets.mlp import MLP
from twofold.nets.twin import Twin
from twofold.settings.registry import networks

Activation = Literal["relu", "tanh", "elu", "gelu", "silu"]
Width = Annotated[int, Field(ge=1, le=100_000)]
Layers = Annotated[tuple[Width, ...], Field(max_length=100)]


@settings
class VectorConfig:
    """Two multilayer perceptrons."""

    actor_hidden: Layers = setting("sizes of the actor's hidden layers", default=(256, 256))
    critic_hidden: Layers = setting("sizes of the critics' hidden layers", default=(256, 256))
    actor_activation: Activation = setting("between the actor's layers", default="relu")
    critic_activation: Activation = setting("between the critics' layers", default="relu")
    actor_layer_norm: bool = setting("normalise the actor's hidden layers", default=False)
    critic_layer_norm: bool = setting(
        "normalise the critics' hidden layers", default=False, aliases=("layer_norm",)
    )


FLAT_ACTIONS = "wrap it with one that takes them as a vector"


def vector_size(
    space: AnySpace,
    needs: str,
    remedy: str = "wrap it with gymnasium.wrappers.FlattenObservation, or choose networks.name=... for it",
) -> int:
    """The length of a space's vectors; where it holds something else, who `needs` them and what to do is said."""
    if not isinstance(space, gym.spaces.Box) or len(space.shape) != 1:
        raise ConfigError(f"{needs} that are a vector (Box of one axis), this world has {space}; {remedy}")
    if not space.shape[0]:
        raise ConfigError(f"{needs} of at least one number, this world has {space}")
    return int(space.shape[0])


@networks.register("vector", config=VectorConfig)
class VectorNetworks(ActorCritic):
    """MLP actor and twin MLP critics for vector observations and continuous actions."""

    def __init__(
        self,
        cfg: VectorConfig,
        observation_space: AnySpace,
        action_space: AnySpace,
        generator: torch.Generator,
    ) -> None:
        self.cfg, self.action_space, self.generator = cfg, action_space, generator
        self.inputs = vector_size(observation_space, "the networks 'vector' need observations")
        self.actions = vector_size(action_space, "the networks 'vector' need actions", FLAT_ACTIONS)

    def actor(self) -> MLP:
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

    def critic(self) -> Twin:
        """(obs [B, o], action [B, a]) -> [2, B]."""
        cfg = self.cfg
        return Twin(
            self.inputs,
            self.actions,
            cfg.critic_hidden,
            activation=cfg.critic_activation,
            layer_norm=cfg.critic_layer_norm,
            generator=self.generator,
        )
