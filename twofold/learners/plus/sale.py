"""Networks with state-action embeddings, and what their engines must do besides TD3's."""

from __future__ import annotations

import copy
from typing import Protocol, cast, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from twofold.base.errors import ConfigError
from twofold.base.foreign import AnySpace
from twofold.base.setting import setting, settings
from twofold.core.protocols import Policy
from twofold.learners.acting import Acting, Values
from twofold.learners.actor_critic import ActorCritic
from twofold.learners.config import TD3Config
from twofold.learners.engine import AnyEngine, Batch
from twofold.learners.nets import Nets
from twofold.learners.plus.config import PlusConfig
from twofold.learners.policy import GaussianPolicy
from twofold.learners.vector import FLAT_ACTIONS, Activation, vector_size
from twofold.native.library import absent
from twofold.nets.flat import Flat
from twofold.nets.sale import Encoder, NumpySale, NumpySaleCritic, SaleActor, SaleCritic, Sizes
from twofold.settings.registry import networks


@settings
class SaleConfig:
    """The widths of the paper are 256 and 256."""

    width: int = setting("of every hidden layer", default=128, gt=0)
    embedding: int = setting("of a state, and of a state with an action", default=64, gt=0)
    encoder_activation: Activation = setting("between the encoders' layers", default="elu")
    actor_activation: Activation = setting("between the actor's layers", default="relu")
    critic_activation: Activation = setting("between the critics' layers", default="elu")
    critic_layer_norm: bool = setting("normalise the critics' hidden layers", default=False)


@runtime_checkable
class Embeds(Protocol):
    """An engine whose networks see the world through encoders: frozen copies of `encoder`, which learns."""

    encoder: Flat

    def encoder_gradients(self, batch: Batch[Tensor], following: Tensor) -> Tensor:
        """Fill `encoder.grads` with those of the returned loss: mean (zsa - zs of what followed)^2."""
        ...

    def renew(self, share: float) -> None:
        """Move the frozen copies in actor and critics a share of the way to the encoder of now."""
        ...


@networks.register("sale", config=SaleConfig)
class SaleNetworks(ActorCritic):
    """Actor and twin critics that see the world through learned embeddings (SALE, as in TD7)."""

    def __init__(
        self,
        cfg: SaleConfig,
        observation_space: AnySpace,
        action_space: AnySpace,
        generator: torch.Generator,
    ) -> None:
        self.cfg, self.action_space, self.generator = cfg, action_space, generator
        obs = vector_size(observation_space, "the networks 'sale' need observations")
        actions = vector_size(action_space, "the networks 'sale' need actions", FLAT_ACTIONS)
        self.sizes = Sizes(obs, actions, cfg.width, cfg.embedding)
        self._encoder = Encoder(self.sizes, cfg.encoder_activation, generator)

    def encoder(self) -> Encoder:
        """A copy of the encoders as they are at first."""
        return copy.deepcopy(self._encoder)

    def actor(self) -> SaleActor:
        """obs [B, o] -> action [B, a] in [-1, 1]."""
        return SaleActor(self.encoder().state, self.sizes, self.cfg.actor_activation, self.generator)

    def critic(self) -> SaleCritic:
        """(obs [B, o], action [B, a]) -> [2, B]."""
        cfg = self.cfg
        return SaleCritic(
            self.encoder(), self.sizes, cfg.critic_activation, cfg.critic_layer_norm, self.generator
        )

    def engine(self, nets: Nets, cfg: TD3Config, rng: np.random.Generator) -> AnyEngine:
        """The one that is asked for; with auto the fastest that is there and can."""
        from twofold.learners.plus.fused import FusedSale
        from twofold.learners.plus.native import NativeSale, refusal
        from twofold.learners.plus.reference import SaleAutograd

        if not isinstance(cfg, PlusConfig):
            raise ConfigError("only learner.name=td3_plus teaches the embeddings of networks.name=sale")
        if not cfg.twin:
            raise ConfigError("networks.name=sale need learner.twin=true")
        encoder = Flat(self.encoder())
        if cfg.engine == "native" or (cfg.engine == "auto" and not (refusal(nets) or absent())):
            return NativeSale(nets, cfg, encoder)
        kind = SaleAutograd if cfg.engine == "autograd" else FusedSale
        return kind(nets, cfg, encoder)

    def policy(
        self, nets: Nets, cfg: TD3Config, *, explore: bool, rows: int, rng: np.random.Generator
    ) -> Policy:
        """Acts by numpy: a tenth of torch's overhead."""
        made = super().policy(nets, cfg, explore=explore, rows=rows, rng=rng)
        module = cast(SaleActor, nets.actor.module if explore else nets.acting)
        cast(GaussianPolicy, made).actor = cast(Acting, NumpySale(module).act)
        return made

    def values(self, nets: Nets) -> Values:
        """By numpy as well: exploring may ask at every step."""
        return cast(Values, NumpySaleCritic(cast(SaleCritic, nets.critic.module)).values)
