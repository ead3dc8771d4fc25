"""TD3's gradients derived by hand for fully connected networks: no autograd, no allocation."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from twofold.base.errors import ConfigError
from twofold.core.experience import Array, Transition
from twofold.learners.config import TD3Config
from twofold.learners.descent import TorchDescent
from twofold.learners.engine import Batch
from twofold.learners.nets import Nets
from twofold.nets.flat import Flat
from twofold.nets.mlp import MLP
from twofold.nets.stack import Stack, Weights, block
from twofold.nets.twin import Twin


def supports(nets: Nets, cfg: TD3Config) -> bool:
    """Whether `FusedTD3` can train these networks: an MLP with tanh output and a Twin, on the CPU."""
    actor, critic = nets.actor.module, nets.critic.module
    return (
        cfg.twin
        and type(actor) is MLP
        and type(critic) is Twin
        and actor.output == "tanh"
        and (actor.inputs, actor.outputs) == (critic.inputs_obs, critic.inputs_action)
        and all(p.device.type == "cpu" for p in [*actor.parameters(), *critic.parameters()])
    )


class FusedTD3(TorchDescent):
    """Targets and gradients of TD3 on batches of `batch_size`; results repeat exactly for equal torch threads."""

    name = "fused"

    def __init__(self, nets: Nets, cfg: TD3Config, batch_size: int = 256) -> None:
        self.nets, actor, critic = nets, nets.actor, nets.critic
        target_actor, target_critic = nets.target_actor, nets.target_critic
        if not supports(nets, cfg):
            raise ConfigError("learner.engine=fused needs twin critics and plain MLPs; use engine=auto")
        self.actor, self.critic, self.huber = actor, critic, cfg.huber
        self._actor, self._target_actor = (Weights(*_of_actor(f, f.values)) for f in (actor, target_actor))
        self._critics, self._target_critics = (
            [Weights(*parts) for parts in _of_each_critic(f, f.values)] for f in (critic, target_critic)
        )
        self._actor_grads = _of_actor(actor, actor.grads)
        self._critic_grads = _of_each_critic(critic, critic.grads)
        self._allocate(batch_size)

    def _allocate(self, batch_size: int) -> None:
        """Inputs, activations, values and slopes for batches of this size."""
        self.batch_size = batch_size
        actor, critic = cast(MLP, self.actor.module), cast(Twin, self.critic.module)
        like, actions, sizes = self.critic.values, actor.outputs, self._critics[0].sizes
        # One block [action, obs, 1]: the critic reads all of it, the actor its end.
        critic_input = block(batch_size, sizes[0], like)
        self._action, self._obs = critic_input[:, :actions], critic_input[:, actions:-1]
        self._action_columns = slice(0, actions)
        scratch = like.new_empty(batch_size * max(*self._actor.sizes, *sizes))
        self._actor_stack = Stack(critic_input[:, actions:], self._actor.sizes, actor.activation, scratch)
        self._critic_stack = Stack(critic_input, sizes, critic.activation, scratch)

        self.values = like.new_zeros(2, batch_size)  # both critics at the last batch of critic_gradients
        self._errors, self._slopes = like.new_zeros(2, batch_size), like.new_zeros(2, batch_size)
        self._next_values = like.new_empty(2, batch_size)
        self._actor_values = like.new_zeros(batch_size, 1)
        self._kept_discount = like.new_empty(batch_size)
        self._action_slope = like.new_empty(batch_size, actions)
        self._ascent = like.new_full((1, 1), -1 / batch_size)
        # Views made once: making them anew in every update costs two parts in a hundred of it.
        self._each = list(zip(self.values, self._errors, self._slopes, strict=True))
        self._value_columns, self._next_columns, self._slope_columns = (
            [row.unsqueeze(1) for row in both] for both in (self.values, self._next_values, self._slopes)
        )

    def _fit(self, obs: Tensor) -> None:
        if obs.shape[0] != self.batch_size:
            self._allocate(obs.shape[0])

    def tensors(self, items: Transition) -> Batch[Tensor]:
        return Batch(*(torch.from_numpy(leaf) for leaf in leaves(items)))

    def target(self, batch: Batch[Tensor], reward: Tensor, noise: Tensor | None) -> Tensor:
        self._fit(batch.next_obs)
        self._act(self._target_actor, batch.next_obs)
        if noise is not None:
            self._action.add_(noise).clamp_(-1, 1)
        for weights, values in zip(self._target_critics, self._next_columns, strict=True):
            self._critic_stack.forward(weights, values)
        pessimistic = self._next_values.amin(dim=0)
        discount, kept = batch.discount, self._kept_discount
        torch.addcmul(discount, discount, batch.terminated, value=-1, out=kept)
        return torch.addcmul(reward, kept, pessimistic, out=pessimistic)

    def critic_gradients(self, batch: Batch[Tensor], target: Tensor) -> Tensor:
        self._fit(batch.obs)
        self._obs.copy_(batch.obs)
        self._action.copy_(batch.action)
        # One critic after the other through the same memory: both at once would not fit into the cache.
        for k, critic in enumerate(self._critics):
            self._critic_stack.forward(critic, self._value_columns[k])
            values, error, slope = self._each[k]
            fill_slope(torch.sub(values, target, out=error), slope, self.huber)
            self._critic_stack.backward(critic, self._slope_columns[k], *self._critic_grads[k])
        return loss_of(self._errors, self._slopes, self.huber)

    def actor_gradients(self, batch: Batch[Tensor]) -> Tensor:
        self._fit(batch.obs)
        self._act(self._actor, batch.obs)
        critic, stack = self._critics[0], self._critic_stack
        stack.forward(critic, self._actor_values)
        stack.backward_to_inputs(critic, self._ascent, self._action_columns, self._action_slope)
        torch.ops.aten.tanh_backward.grad_input(
            self._action_slope, self._action, grad_input=self._action_slope
        )
        self._actor_stack.backward(self._actor, self._action_slope, *self._actor_grads)
        return -self._actor_values.mean()

    def _act(self, actor: Weights, obs: Tensor) -> None:
        """Fill the critic's input with obs and the actor's action."""
        self._obs.copy_(obs)
        self._actor_stack.forward(actor, self._action)
        self._action.tanh_()


def fill_slope(error: Tensor, slope: Tensor, huber: float | None) -> None:
    """d loss / d value [B] for the mean of squared or Huber errors [B]."""
    if huber is None:
        torch.mul(error, 2 / len(error), out=slope)
    else:
        torch.clamp(error, -huber, huber, out=slope).div_(len(error))


def loss_of(errors: Tensor, slopes: Tensor, huber: float | None) -> Tensor:
    """The loss whose slopes `fill_slope` made, summed over critics [2, B]."""
    if huber is None:
        return torch.dot(slopes.view(-1), errors.view(-1)) / 2
    inside = errors.clamp(-huber, huber)
    return torch.dot(slopes.view(-1), (errors - inside / 2).view(-1))


def leaves(items: Transition) -> tuple[Array, ...]:
    """The arrays of a batch of vectors, in the order of `Batch`."""
    if isinstance(items.obs, dict) or isinstance(items.next_obs, dict):
        raise TypeError("this engine takes observations that are vectors; use engine=auto")
    return items.obs, items.action, items.reward, items.next_obs, items.terminated, items.discount


def _of_actor(actor: Flat, flat: Tensor) -> tuple[list[Tensor], list[tuple[Tensor, Tensor]]]:
    """Matrices and norms of the actor, as views of a tensor laid out like it."""
    parts = list(actor.split(flat))
    layers = len(cast(MLP, actor.module).layers)
    return parts[:layers], list(zip(parts[layers::2], parts[layers + 1 :: 2], strict=True))


def _of_each_critic(critic: Flat, flat: Tensor) -> list[tuple[list[Tensor], list[tuple[Tensor, Tensor]]]]:
    """Matrices and norms of the first and of the second critic, as views of a tensor laid out like the critic."""
    both = list(critic.split(flat))
    layers = len(cast(Twin, critic.module).layers)
    norms = [tensor.flatten(1) for tensor in both[layers:]]  # scale, shift, scale, shift, ...
    pairs = list(zip(norms[::2], norms[1::2], strict=True))
    return [
        ([matrix[k] for matrix in both[:layers]], [(scale[k], shift[k]) for scale, shift in pairs])
        for k in range(2)
    ]
