"""What a domain hands to TD3: all that an author of networks has to read."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import torch
from torch import nn

from twofold.base.errors import ConfigError
from twofold.base.foreign import AnySpace
from twofold.core.protocols import Policy, State
from twofold.learners.acting import Values, values_by_torch
from twofold.learners.choice import engine_for
from twofold.learners.config import TD3Config
from twofold.learners.engine import AnyEngine
from twofold.learners.nets import Nets, load_module
from twofold.learners.policy import GaussianPolicy


class ActorCritic(ABC):
    """Networks for TD3. `actor` and `critic` must be written; the rest has defaults that suit most worlds.

    Subclass it, and register the class: `make(settings, observation_space, action_space, generator)`.
    """

    action_space: AnySpace
    place = torch.device("cpu")  # where the learner computes

    @abstractmethod
    def actor(self) -> nn.Module:
        """obs -> action [B, a] in [-1, 1]; weights are drawn from the given generator alone."""

    @abstractmethod
    def critic(self) -> nn.Module:
        """(obs, action) -> the values of both critics [2, B]."""

    def engine(self, nets: Nets, cfg: TD3Config, rng: np.random.Generator) -> AnyEngine:
        """What computes targets and gradients; `rng` is the learner's, for what is drawn while learning."""
        return engine_for(nets, cfg)

    def policy(
        self, nets: Nets, cfg: TD3Config, *, explore: bool, rows: int, rng: np.random.Generator
    ) -> Policy:
        """How the actor acts and explores."""
        shape = self.action_space.shape
        if shape is None:
            raise ConfigError(f"TD3 needs continuous actions (a Box), this world has {self.action_space}")
        return GaussianPolicy(nets, cfg, actions=shape, explore=explore, rows=rows, rng=rng)

    def values(self, nets: Nets) -> Values:
        """How the critics of now judge actions of few observations: (obs, action [N, a]) -> [2, N]."""
        return values_by_torch(nets.critic.module)

    def policy_state(self, nets: Nets) -> State:
        """What acting needs, and nothing else."""
        return {"actor": nets.acting.state_dict()}

    def load_policy_state(self, nets: Nets, state: State) -> None:
        load_module(nets.acting, state["actor"], "actor")
