"""Small learners of td3_plus that tests build with."""

from __future__ import annotations

from typing import Any

import torch
from parts import ACTIONS, OBS

from twofold.core.seeding import Generators
from twofold.learners.actor_critic import ActorCritic
from twofold.learners.plus.config import PlusConfig
from twofold.learners.plus.learner import TD3Plus
from twofold.learners.plus.sale import SaleConfig, SaleNetworks
from twofold.learners.vector import VectorConfig, VectorNetworks


def plus_with(networks: ActorCritic, seed: int = 0, **settings: Any) -> TD3Plus:
    """TD3Plus around given networks."""
    return TD3Plus(
        PlusConfig(**settings),
        networks=networks,
        observation_space=OBS,
        action_space=ACTIONS,
        rngs=Generators(seed),
    )


def small_plus(seed: int = 0, **settings: Any) -> TD3Plus:
    """With plain networks of one layer of 8."""
    cfg = VectorConfig(actor_hidden=(8,), critic_hidden=(8,))
    nets = VectorNetworks(cfg, OBS, ACTIONS, torch.Generator().manual_seed(seed))
    return plus_with(nets, seed, **settings)


def sale_learner(networks: dict[str, Any] | None = None, seed: int = 0, **settings: Any) -> TD3Plus:
    """With embeddings, and hard targets every third update."""
    cfg = SaleConfig(width=12, embedding=5, **(networks or {}))
    nets = SaleNetworks(cfg, OBS, ACTIONS, torch.Generator().manual_seed(seed))
    return plus_with(nets, seed, **{"tau": 1.0, "target_every": 3, **settings})
