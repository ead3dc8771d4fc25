"""The first stage of OMG: a VAE of the states that come up while the partners play, kept as a run of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from twofold.core.schedules import Schedule
from twofold.core.seeding import Generators
from twofold.nets import Flat
from twofold.settings.registry import learners
from twofold.team.agents import TeamNetworks, TeamPolicy
from twofold.team.am import named
from twofold.team.conditioned import rows_of
from twofold.team.episodes import Episode, EpisodeLearner, longest
from twofold.team.learner import load_named
from twofold.team.models import Prior
from twofold.team.omg import improve_prior
from twofold.team.optimise import load_optimiser, make_optimiser


@dataclass(frozen=True)
class PriorConfig:
    """Settings of the prior; the sizes must be those of the OMG run that uses it."""

    obs_is_state: bool = True
    subgoal_dim: int = 64
    model_hidden: int = 128
    lr: float = 5e-4
    kl_weight: float = 1e-2


@learners.register("team/prior", config=PriorConfig)
class PriorLearner(EpisodeLearner):
    """Plays at random (its partners play well) and trains the prior of subgoals on the states it meets."""

    def __init__(
        self,
        cfg: PriorConfig,
        *,
        networks: TeamNetworks,
        observation_space: Any,
        action_space: Any,
        rngs: Generators,
    ) -> None:
        self.cfg, self.nets, self.shape = cfg, networks, networks.shape
        self._spaces = (observation_space, action_space)
        state = self.shape.obs if cfg.obs_is_state else self.shape.state
        self.prior = Prior(state, cfg.model_hidden, cfg.subgoal_dim, generator=networks.generator)
        self.agent = networks.agent()
        self.flat = Flat(self.prior)
        self.optimiser = make_optimiser("adam", self.flat, cfg.lr, 1e-5)
        self.rng = rngs["prior"]
        self.updates = 0
        self._metrics: dict[str, Tensor] = {}

    def policy(self, *, explore: bool, rows: int, rng: np.random.Generator) -> TeamPolicy:
        return TeamPolicy(self.nets, self.agent, rows, epsilon=Schedule(1.0), rng=rng)

    def update(self, batch: Episode) -> None:
        """One step of the VAE."""
        self.updates += 1
        data = rows_of(batch, longest(batch.filled), individual=False)
        state = (data.obs if self.cfg.obs_is_state else data.state)[:-1]
        self._metrics = improve_prior(
            self.prior, self.flat, self.optimiser, state, data.mask, self._normal, self.cfg.kl_weight
        )

    def _normal(self, shape: Any) -> Tensor:
        return torch.from_numpy(self.rng.standard_normal(tuple(shape), np.float32))

    def state_dict(self) -> dict[str, Any]:
        return {
            "named_prior": named(self.prior),
            "obs_is_state": self.cfg.obs_is_state,
            "optimiser": dict(self.optimiser.state_dict()),
            "rng": self.rng.bit_generator.state,
            "updates": self.updates,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        load_named(self.prior, state["named_prior"], "prior")
        load_optimiser(self.optimiser, state["optimiser"])
        self.rng.bit_generator.state = state["rng"]
        self.updates = int(state["updates"])

    def policy_state(self) -> dict[str, Any]:
        return {"prior": named(self.prior)}

    def load_policy_state(self, state: dict[str, Any]) -> None:
        load_named(self.prior, state["prior"], "prior")
