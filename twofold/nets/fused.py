"""TD3's gradients derived by hand for fully connected networks: no autograd, no allocation."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn

from twofold.nets.crew import Crew
from twofold.nets.flat import Flat
from twofold.nets.mlp import MLP
from twofold.nets.stack import Stack, Weights, block
from twofold.nets.twin import Twin


def supports(actor: nn.Module, critic: nn.Module) -> bool:
    """Whether `FusedTD3` can train this pair: an MLP with tanh output and a Twin, both without layer norm."""
    return (
        type(actor) is MLP
        and type(critic) is Twin
        and actor.output == "tanh"
        and actor.norms is None
        and critic.norms is None
        and critic.outputs == 1
        and (actor.inputs, actor.outputs) == (critic.inputs_obs, critic.inputs_action)
        and all(p.device.type == "cpu" for p in [*actor.parameters(), *critic.parameters()])
    )


class FusedTD3:
    """Targets and gradients of TD3 on batches of `batch_size`; results repeat exactly for equal `workers`.

    Every worker is a thread with its share of the rows, and their gradients are added in a fixed order. Run
    torch itself with one thread when `workers` > 1: splitting each product costs more than it gains.
    """

    def __init__(
        self,
        actor: Flat,
        critic: Flat,
        target_actor: Flat,
        target_critic: Flat,
        batch_size: int,
        *,
        workers: int = 1,
    ) -> None:
        if not supports(actor.module, critic.module):
            raise ValueError("the fused engine needs a tanh MLP and a Twin without layer norm; use autograd")
        if not 1 <= workers <= batch_size:
            raise ValueError(f"workers must be between 1 and the batch size {batch_size}, got {workers}")
        self.actor, self.critic = actor, critic
        self.target_actor, self.target_critic = target_actor, target_critic
        self._crew = Crew(workers - 1)
        self._workers = workers
        self._allocate(batch_size)

    def _allocate(self, batch_size: int) -> None:
        self.batch_size = batch_size
        like = self.critic.values
        self.values = like.new_zeros(2, batch_size)  # both critics at the last batch of critic_gradients
        self._errors = like.new_zeros(2, batch_size)
        self._slopes = like.new_zeros(2, batch_size)
        self._actor_values = like.new_zeros(batch_size)
        bounds = [batch_size * worker // self._workers for worker in range(self._workers + 1)]
        self._rows = [slice(a, b) for a, b in itertools.pairwise(bounds)]
        self._shares = [_Share(self, rows, first=not index) for index, rows in enumerate(self._rows)]

    def target(
        self, next_obs: Tensor, reward: Tensor, discount: Tensor, terminated: Tensor, noise: Tensor | None
    ) -> Tensor:
        """r + discount (1 - terminated) min Q'(s', clamp(actor'(s') + noise)) for each row: [B]."""
        self._fit(next_obs)
        target = self.values.new_empty(self.batch_size)
        self._share_out(_Share.target, next_obs, reward, discount, terminated, noise, target)
        return target

    def critic_gradients(
        self,
        obs: Tensor,
        action: Tensor,
        target: Tensor,
        *,
        huber: float | None = None,
        weights: Tensor | None = None,
    ) -> Tensor:
        """Fill `critic.grads` and `values`; the loss is the sum over critics of the mean (weighted) error."""
        self._fit(obs)
        self._share_out(_Share.critic_gradients, obs, action, target, weights, huber=huber)
        for share in self._shares[1:]:
            self.critic.grads.add_(share.critic_grads)
        if huber is None:
            return torch.dot(self._slopes.view(-1), self._errors.view(-1)) / 2
        inside = self._errors.clamp(-huber, huber)
        return torch.dot(self._slopes.view(-1), (self._errors - inside / 2).view(-1))

    def actor_gradients(self, obs: Tensor) -> Tensor:
        """Fill `actor.grads` with those of the returned loss, -mean Q1(s, actor(s))."""
        self._fit(obs)
        self._share_out(_Share.actor_gradients, obs)
        for share in self._shares[1:]:
            self.actor.grads.add_(share.actor_grads)
        return -self._actor_values.mean()

    def errors(self) -> Tensor:
        """TD errors [2, B] of the last batch."""
        return self._errors

    def _fit(self, obs: Tensor) -> None:
        if obs.shape[0] != self.batch_size:
            self._allocate(obs.shape[0])

    def _share_out(self, work: Callable[..., None], *batch: Tensor | None, **settings: Any) -> None:
        """Let every worker do its rows of the batch."""
        if self._workers == 1:
            work(self._shares[0], *batch, **settings)
            return
        parts = [[None if x is None else x[rows] for x in batch] for rows in self._rows]
        jobs = [
            partial(work, share, *part, **settings) for share, part in zip(self._shares, parts, strict=True)
        ]
        self._crew.run(jobs)


class _Share:
    """One worker's rows: its input blocks, activations and gradients."""

    def __init__(self, engine: FusedTD3, rows: slice, *, first: bool) -> None:
        actor, critic = cast(MLP, engine.actor.module), cast(Twin, engine.critic.module)
        count, like = rows.stop - rows.start, engine.critic.values
        # The first share writes where the optimiser reads; the others are added to it.
        self.actor_grads = engine.actor.grads if first else torch.zeros_like(engine.actor.grads)
        self.critic_grads = engine.critic.grads if first else torch.zeros_like(engine.critic.grads)
        self._actor_matrices = list(engine.actor.split(self.actor_grads))
        self._critic_matrices = _of_each_critic(engine.critic, self.critic_grads)
        self._actor = Weights(list(engine.actor.split(engine.actor.values)))
        self._target_actor = Weights(list(engine.target_actor.split(engine.target_actor.values)))
        self._critics = [Weights(m) for m in _of_each_critic(engine.critic, like)]
        targets = _of_each_critic(engine.target_critic, engine.target_critic.values)
        self._target_critics = [Weights(m) for m in targets]

        # One block [action, obs, 1]: the critic reads all of it, the actor its end.
        sizes, actions = self._critics[0].sizes, actor.outputs
        critic_input = block(count, sizes[0], like)
        self._action, self._obs = critic_input[:, :actions], critic_input[:, actions:-1]
        self._action_columns = slice(0, actions)
        scratch = like.new_empty(count * max(*self._actor.sizes, *sizes))
        self._actor_stack = Stack(critic_input[:, actions:], self._actor.sizes, actor.activation, scratch)
        self._critic_stack = Stack(critic_input, sizes, critic.activation, scratch)

        self._next_values = list(like.new_empty(2, count))
        self._next_columns = [values.unsqueeze(1) for values in self._next_values]
        self._kept_discount = like.new_empty(count)
        self._action_slope = like.new_empty(count, actions)
        self._ascent = like.new_full((1, 1), -1 / engine.batch_size)
        self._scale = 1 / engine.batch_size
        self._values, self._errors, self._slopes = (
            list(both[:, rows]) for both in (engine.values, engine._errors, engine._slopes)
        )
        self._columns = [values.unsqueeze(1) for values in self._values]
        self._slope_columns = [slope.unsqueeze(1) for slope in self._slopes]
        self._actor_values = engine._actor_values[rows].unsqueeze(1)

    def target(
        self,
        next_obs: Tensor,
        reward: Tensor,
        discount: Tensor,
        terminated: Tensor,
        noise: Tensor | None,
        out: Tensor,
    ) -> None:
        self._act(self._target_actor, next_obs)
        if noise is not None:
            self._action.add_(noise).clamp_(-1, 1)
        for weights, values in zip(self._target_critics, self._next_columns, strict=True):
            self._critic_stack.forward(weights, values)
        pessimistic = torch.minimum(*self._next_values, out=out)
        kept = torch.addcmul(discount, discount, terminated, value=-1, out=self._kept_discount)
        torch.addcmul(reward, kept, pessimistic, out=out)

    def critic_gradients(
        self, obs: Tensor, action: Tensor, target: Tensor, weights: Tensor | None, *, huber: float | None
    ) -> None:
        self._obs.copy_(obs)
        self._action.copy_(action)
        # One critic after the other through the same memory: both at once would not fit into the cache.
        for k, critic in enumerate(self._critics):
            self._critic_stack.forward(critic, self._columns[k])
            self._differentiate(k, target, huber, weights)
            self._critic_stack.backward(critic, self._slope_columns[k], self._critic_matrices[k])

    def _differentiate(self, k: int, target: Tensor, huber: float | None, weights: Tensor | None) -> None:
        """Fill errors and slopes: d loss / d value of critic k for the mean of squared or Huber errors."""
        error, slope = self._errors[k], self._slopes[k]
        torch.sub(self._values[k], target, out=error)
        if huber is None:
            torch.mul(error, 2 * self._scale, out=slope)
        else:
            torch.clamp(error, -huber, huber, out=slope).mul_(self._scale)
        if weights is not None:
            slope.mul_(weights)

    def actor_gradients(self, obs: Tensor) -> None:
        self._act(self._actor, obs)
        critic, stack = self._critics[0], self._critic_stack
        stack.forward(critic, self._actor_values)
        stack.backward_to_inputs(critic, self._ascent, self._action_columns, self._action_slope)
        torch.ops.aten.tanh_backward.grad_input(
            self._action_slope, self._action, grad_input=self._action_slope
        )
        self._actor_stack.backward(self._actor, self._action_slope, self._actor_matrices)

    def _act(self, actor: Weights, obs: Tensor) -> None:
        """Fill the critic's input with obs and the actor's action."""
        self._obs.copy_(obs)
        self._actor_stack.forward(actor, self._action)
        self._action.tanh_()


def _of_each_critic(critic: Flat, flat: Tensor) -> list[Sequence[Tensor]]:
    """The matrices of the first and of the second critic, as views of a tensor laid out like the critic."""
    both = list(critic.split(flat))
    return [[matrix[k] for matrix in both] for k in range(2)]
