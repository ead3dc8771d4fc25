"""The equations of TD3 with embeddings as they are written: what the fast engine is tested against."""

from __future__ import annotations

from typing import cast

from torch import Tensor

from twofold.learners.engine import Autograd, Batch
from twofold.learners.nets import Nets
from twofold.learners.plus.config import PlusConfig
from twofold.nets.flat import Flat
from twofold.nets.sale import Encoder
from twofold.nets.twin import Tensors


def frozen_copies(nets: Nets, encoder: Flat) -> list[Tensor]:
    """The weights of the frozen encoders in critics and actor; laid out like the beginning of `encoder.values`."""
    state = sum(p.numel() for p in cast(Encoder, encoder.module).state.parameters())
    return [nets.critic.values[: len(encoder.values)], nets.actor.values[:state]]


class SaleAutograd(Autograd):
    """Everything by autograd."""

    def __init__(self, nets: Nets, cfg: PlusConfig, encoder: Flat) -> None:
        super().__init__(nets, cfg)
        self.encoder = encoder
        self._frozen = frozen_copies(nets, encoder)

    def encoder_gradients(self, batch: Batch[Tensor], following: Tensor) -> Tensor:
        self.encoder.zero_grad()
        loss = cast(Encoder, self.encoder.module).loss(batch.obs, batch.action, following)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    def renew(self, share: float) -> None:
        for frozen in self._frozen:
            frozen.lerp_(self.encoder.values[: len(frozen)], share)

    def actor_gradients(self, batch: Batch[Tensors]) -> Tensor:
        """Those of -mean Q_1; the encoders in the critics stay frozen."""
        self.nets.actor.zero_grad()
        loss = -self.nets.critic.module(batch.obs, self.nets.actor.module(batch.obs))[0].mean()
        trained = [p for p in self.nets.actor.module.parameters() if p.requires_grad]
        loss.backward(inputs=trained)
        found: Tensor = loss.detach()
        return found
