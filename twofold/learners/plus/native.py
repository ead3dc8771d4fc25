"""TD3 with state-action embeddings in C (`twofold/native/sale.h`)."""

from __future__ import annotations

from ctypes import addressof
from typing import cast

import torch
from torch import Tensor

from twofold.learners.engine import Batch
from twofold.learners.native import NativeTD3, columns, padded, shape_of, unfit, widths
from twofold.learners.nets import Nets
from twofold.learners.plus.config import PlusConfig
from twofold.learners.plus.reference import frozen_copies
from twofold.native.library import (
    SALE_ACTOR,
    SALE_CRITIC,
    SALE_ENCODER,
    SALE_LOOK,
    SALE_TARGET,
    EngineFields,
    Library,
    SaleFields,
    SaleRoom,
    Shape,
)
from twofold.nets.flat import Flat
from twofold.nets.sale import Encoder, SaleActor, SaleCritic


def refusal(nets: Nets, dtype: torch.dtype = torch.float32) -> str | None:
    """Why `NativeSale` cannot train these networks, or None."""
    actor, critic = cast(SaleActor, nets.actor.module), cast(SaleCritic, nets.critic.module)
    found = (unfit(part, dtype) for part in (critic.encoder.state, actor.body, critic.body))
    return next((reason for reason in found if reason), None)


class NativeSale(NativeTD3):
    """Targets, gradients and steps of TD3 with embeddings in C."""

    def __init__(
        self,
        nets: Nets,
        cfg: PlusConfig,
        encoder: Flat,
        batch_size: int = 256,
        built: Library | None = None,
    ) -> None:
        self.encoder = encoder
        self._frozen = frozen_copies(nets, encoder)
        super().__init__(nets, cfg, batch_size, built)

    def _refusal(self, nets: Nets, dtype: torch.dtype) -> str | None:
        return refusal(nets, dtype)

    def _allocate(self, batch_size: int) -> None:
        super()._allocate(batch_size)
        self._encoder_halves = self._halves(self.encoder)
        self._embedded: Batch[Tensor] | None = None  # the batch whose embeddings the C side has

    def _describe(self, fields: EngineFields) -> None:
        actor, critic = cast(SaleActor, self.nets.actor.module), cast(SaleCritic, self.nets.critic.module)
        encoder, rows = cast(Encoder, self.encoder.module), self.batch_size
        obs, actions = encoder.state.inputs, actor.body.outputs
        width, embedding = actor.first.outputs, encoder.state.outputs
        fields.obs, fields.actions = obs, actions
        fields.actor = shape_of(actor.body, width + embedding)
        fields.critic = shape_of(critic.body, width + 2 * embedding)
        self._sale = SaleFields(
            encoder_values=self.encoder.values.data_ptr(),
            encoder_grads=self.encoder.grads.data_ptr(),
            zs=self._memory(rows, embedding).data_ptr(),
            zsa=self._memory(rows, embedding).data_ptr(),
            width=width,
            embedding=embedding,
            state=shape_of(encoder.state, obs),
            link=shape_of(encoder.action, actions + embedding),
            actor_first=_single(obs, width),
            critic_first=_single(actions + obs, width),
            room=(self._sale_room(actor, critic), self._sale_room(actor, critic)),
        )
        fields.sale = addressof(self._sale)

    def _sale_room(self, actor: SaleActor, critic: SaleCritic) -> SaleRoom:
        encoder, rows = cast(Encoder, self.encoder.module), self.batch_size
        obs, actions = encoder.state.inputs, actor.body.outputs
        width, embedding = actor.first.outputs, encoder.state.outputs
        widest = max(width, embedding, actions, *widths(actor.body), *widths(critic.body))
        blocks = {
            "input": actions + obs,
            "pair": actions + embedding,
            "judged": width + 2 * embedding,
            "acted": width + embedding,
            "scratch": widest,
        }
        plain = {
            "raw": widest,
            "wanted": embedding,
            "slope": widest,
            "action": actions,
            "action_slope": actions,
        }
        single = ("value_slope", "own_spread", "actor_spread", "zs_spread")
        memory = {name: self._memory(rows, padded(size)) for name, size in blocks.items()}
        memory |= {name: self._memory(rows, size) for name, size in plain.items()}
        memory |= {name: self._memory(rows) for name in single}
        memory["unused"] = self._memory(max(len(self.nets.critic.values), len(self.encoder.values)))
        return SaleRoom(
            **{name: found.data_ptr() for name, found in memory.items()},
            state=self._stack(encoder.state),
            link=self._stack(encoder.action),
            actor=self._stack(actor.body),
            critic=self._stack(critic.body),
        )

    # ---- the equations ----

    def encoder_gradients(self, batch: Batch[Tensor], following: Tensor) -> Tensor:
        self._look(batch)
        following = following.to(self.library.dtype)
        self._sale.following_at = columns(following)
        return self._losses[2].fill_(self._in_halves(SALE_ENCODER, self._encoder_halves))

    def renew(self, share: float) -> None:
        for frozen in self._frozen:
            frozen.lerp_(self.encoder.values[: len(frozen)], share)
        self._embedded = None

    def target(self, batch: Batch[Tensor], reward: Tensor, noise: Tensor | None) -> Tensor:
        return self._targets(SALE_TARGET, batch, reward, noise)

    def critic_gradients(self, batch: Batch[Tensor], target: Tensor) -> Tensor:
        self._look(batch)
        target = target.contiguous()
        self._fields.target = target.data_ptr()
        self._run(SALE_LOOK)
        self._embedded = batch
        return self._losses[0].fill_(self._run(SALE_CRITIC))

    def actor_gradients(self, batch: Batch[Tensor]) -> Tensor:
        self._look(batch)
        if self._embedded is not batch:
            self._run(SALE_LOOK)
        self._embedded = None  # replay may fill the same batch anew
        return self._losses[1].fill_(self._in_halves(SALE_ACTOR, self._actor_halves))

    def gradient_sum(self) -> float:
        """Of actor and critics; the encoder's is looked at by its owner."""
        return sum(found for optimiser, found in self._sums.items() if optimiser.flat is not self.encoder)


def _single(inputs: int, outputs: int) -> Shape:
    """One layer without activation."""
    return Shape(1, 0, False, (inputs, outputs))
