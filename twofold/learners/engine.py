"""What computes TD3's targets and gradients: the contract of engines, and the reference by autograd."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import torch
from torch import Tensor
from torch.nn import functional

from twofold.base import tree
from twofold.core.experience import Transition
from twofold.learners.config import TD3Config
from twofold.learners.descent import Descends, TorchDescent
from twofold.learners.nets import Nets
from twofold.nets.twin import Tensors, first_value

Seen = TypeVar("Seen")  # an observation as the networks of an engine take it
AnyEngine: TypeAlias = "Engine[Any]"  # Any: TD3 hands what networks see through and never looks at it


@dataclass(frozen=True)
class Batch(Generic[Seen]):
    """A batch of transitions, ready for the networks."""

    obs: Seen
    action: Tensor
    reward: Tensor
    next_obs: Seen
    terminated: Tensor
    discount: Tensor


class Engine(Descends, Protocol[Seen]):
    """Targets and gradients of TD3 for one kind of networks; fills `nets.actor.grads` and `nets.critic.grads`."""

    name: str  # for the record, and for a resume to go on with the same
    values: Tensor  # [2, B]: both critics at the last batch of `critic_gradients`

    def tensors(self, items: Transition) -> Batch[Seen]:
        """The items of a batch as the networks take them; may share their memory."""
        ...

    def target(self, batch: Batch[Seen], reward: Tensor, noise: Tensor | None) -> Tensor:
        """y = r + gamma^n (1 - terminated) min_i Q'_i(s', clip(pi'(s') + noise)): [B]."""
        ...

    def critic_gradients(self, batch: Batch[Seen], target: Tensor) -> Tensor:
        """Those of the returned loss: the sum over both critics of the mean error (y - Q_i(s, a))^2, or Huber's."""
        ...

    def actor_gradients(self, batch: Batch[Seen]) -> Tensor:
        """Those of the returned loss, -mean Q_1(s, pi(s)), at the actor's own fresh action."""
        ...


def as_tensors(items: Transition, place: torch.device) -> Batch[Tensors]:
    """The batch as tensors; on the CPU they share its memory."""
    leaves = (items.obs, items.action, items.reward, items.next_obs, items.terminated, items.discount)
    return Batch(*(tree.map(lambda leaf: torch.from_numpy(leaf).to(place), leaf) for leaf in leaves))


class Autograd(TorchDescent):
    """The equations as they are written, for any actor and critic: what every other engine is tested against."""

    name = "autograd"

    def __init__(self, nets: Nets, cfg: TD3Config) -> None:
        self.nets, self.twin, self.huber = nets, cfg.twin, cfg.huber
        self.values = nets.critic.values.new_zeros(2, 0)

    def tensors(self, items: Transition) -> Batch[Tensors]:
        return as_tensors(items, self.values.device)

    @torch.no_grad()
    def target(self, batch: Batch[Tensors], reward: Tensor, noise: Tensor | None) -> Tensor:
        action: Tensor = self.nets.target_actor.module(batch.next_obs)
        if noise is not None:
            action = (action + noise.to(action.device)).clamp(-1, 1)
        values: Tensor = self.nets.target_critic.module(batch.next_obs, action)
        pessimistic = values.amin(dim=0) if self.twin else values[0]
        return reward + batch.discount * (1 - batch.terminated) * pessimistic

    def critic_gradients(self, batch: Batch[Tensors], target: Tensor) -> Tensor:
        self.nets.critic.zero_grad()
        values: Tensor = self.nets.critic.module(batch.obs, batch.action)
        goal = target.expand_as(values)
        if self.huber is None:
            error = functional.mse_loss(values, goal, reduction="none")
        else:
            error = functional.huber_loss(values, goal, reduction="none", delta=self.huber)
        loss = error.mean(dim=1).sum()
        loss.backward()  # type: ignore[no-untyped-call]
        self.values = values.detach()
        return loss.detach()

    def actor_gradients(self, batch: Batch[Tensors]) -> Tensor:
        nets = self.nets
        nets.actor.zero_grad()
        nets.critic.module.requires_grad_(False)
        loss = -first_value(nets.critic.module, batch.obs, nets.actor.module(batch.obs)).mean()
        loss.backward()  # type: ignore[no-untyped-call]
        nets.critic.module.requires_grad_(True)
        return loss.detach()
