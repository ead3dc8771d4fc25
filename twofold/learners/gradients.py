"""TD3's targets and gradients by autograd, for any actor and critic; and for critics that answer quantiles."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from twofold.nets.flat import Flat


class Autograd:
    """Targets and gradients by torch's autograd, for any actor and critic."""

    def __init__(
        self,
        actor: Flat,
        critic: Flat,
        target_actor: Flat,
        target_critic: Flat,
        *,
        twin: bool = True,
        chooser: Any = None,
    ) -> None:
        self.actor, self.critic, self.twin, self.chooser = actor, critic, twin, chooser
        self.target_actor, self.target_critic = target_actor.module, target_critic.module
        self.values = torch.zeros(2, 0)
        self._target = torch.zeros(0)

    @torch.no_grad()
    def target(
        self, next_obs: Any, reward: Tensor, discount: Tensor, terminated: Tensor, noise: Tensor | None
    ) -> Tensor:
        """r + gamma^n (1 - terminated) min Q'(s', smoothed action)."""
        action = self._smoothed(next_obs, noise)
        if self.chooser is None:
            values = self.target_critic(next_obs, action)
        else:
            values = self.chooser.values(next_obs, action, self.target_critic)
        pessimistic = values.amin(dim=0) if self.twin else values[0]
        return reward + discount * (1 - terminated) * pessimistic  # type: ignore[no-any-return]

    def _smoothed(self, next_obs: Any, noise: Tensor | None) -> Tensor:
        """The target policy's next action with its noise."""
        action: Tensor = self.target_actor(next_obs)
        if noise is not None:
            action = (action + noise).clamp(-1, 1)
        return action

    def critic_gradients(
        self,
        obs: Any,
        action: Tensor,
        target: Tensor,
        *,
        huber: float | None = None,
        weights: Tensor | None = None,
    ) -> Tensor:
        """Fill `critic.grads`; the loss is the sum over both critics of the mean error."""
        self.critic.zero_grad()
        values = self.critic.module(obs, action)
        goal = target.expand_as(values)
        if huber is None:
            error = functional.mse_loss(values, goal, reduction="none")
        else:
            error = functional.huber_loss(values, goal, reduction="none", delta=huber)
        loss = (error if weights is None else error * weights).mean(dim=1).sum()
        loss.backward()  # type: ignore[no-untyped-call]
        self.values, self._target = values.detach(), target
        return loss.detach()

    def actor_gradients(self, obs: Any) -> Tensor:
        """Fill `actor.grads` with those of -mean Q(s, actor(s)), at the actor's own fresh action."""
        self.actor.zero_grad()
        self.critic.module.requires_grad_(False)
        loss = -self._judged(obs, self.actor.module(obs)).mean()
        loss.backward()  # type: ignore[no-untyped-call]
        self.critic.module.requires_grad_(True)
        return loss.detach()

    def _judged(self, obs: Any, action: Tensor) -> Tensor:
        """What the actor climbs: the first critic."""
        critic: Any = self.critic.module
        first: Tensor = critic.first(obs, action) if hasattr(critic, "first") else critic(obs, action)[0]
        return first

    def errors(self) -> Tensor:
        """TD errors [2, B] of the last batch."""
        return self.values - self._target


class Quantiles(Autograd):
    """Truncated quantile critics (Kuznetsov et al. 2020): the highest quantiles of both are dropped from the target."""

    def __init__(self, *parts: Flat, drop: int) -> None:
        super().__init__(*parts)
        count = int(self.critic.module.outputs)  # type: ignore[arg-type]
        self.kept = 2 * (count - drop)
        self.levels = (torch.arange(count) + 0.5) / count

    @torch.no_grad()
    def target(
        self, next_obs: Any, reward: Tensor, discount: Tensor, terminated: Tensor, noise: Tensor | None
    ) -> Tensor:
        """[B, kept]: the lowest of all quantiles of the next value."""
        both = torch.cat(list(self.target_critic(next_obs, self._smoothed(next_obs, noise))), dim=1)
        lowest = both.sort(dim=1).values[:, : self.kept]
        return reward[:, None] + (discount * (1 - terminated))[:, None] * lowest

    def critic_gradients(
        self,
        obs: Any,
        action: Tensor,
        target: Tensor,
        *,
        huber: float | None = None,
        weights: Tensor | None = None,
    ) -> Tensor:
        """Quantile regression with the Huber loss: each quantile of each critic against each target."""
        self.critic.zero_grad()
        values = self.critic.module(obs, action)  # [2, B, quantiles]
        error = target[None, :, None, :] - values[..., None]  # [2, B, quantiles, kept]
        delta = huber or 1.0
        size = torch.where(error.abs() > delta, error.abs() - delta / 2, error**2 / (2 * delta))
        loss = ((self.levels[:, None] - (error.detach() < 0).float()).abs() * size).mean(dim=(2, 3))
        loss = (loss if weights is None else loss * weights).mean(dim=1).sum()
        loss.backward()
        self.values, self._target = values.detach().mean(dim=2), target.mean(dim=1)
        return loss.detach()  # type: ignore[no-any-return]

    def _judged(self, obs: Any, action: Tensor) -> Tensor:
        """What the actor climbs: all quantiles of both critics."""
        values: Tensor = self.critic.module(obs, action)
        return values
