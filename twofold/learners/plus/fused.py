"""TD3's gradients with state-action embeddings, derived by hand on preallocated tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import torch
from torch import Tensor, nn

from twofold.core.experience import Transition
from twofold.learners.descent import TorchDescent
from twofold.learners.engine import Batch, as_tensors
from twofold.learners.fused import fill_slope, loss_of
from twofold.learners.nets import Nets
from twofold.learners.plus.config import PlusConfig
from twofold.learners.plus.reference import frozen_copies
from twofold.nets.flat import Flat
from twofold.nets.mlp import MLP, Affine
from twofold.nets.sale import SMALLEST, Encoder, SaleActor, SaleCritic
from twofold.nets.stack import Stack, Weights, block
from twofold.nets.twin import TwinNorm


class _Dense:
    """Output [rows, width] of one layer divided by its mean absolute value, and the way back."""

    def __init__(self, rows: int, width: int, like: Tensor) -> None:
        self.raw, self._room = like.new_empty(rows, width), like.new_empty(rows, width)
        self._scale, self._shared = like.new_empty(rows, 1), like.new_empty(rows, 1)
        self._averaging = like.new_full((width, 1), 1 / width)  # a product with it is faster than a mean

    def normalise(self, out: Tensor) -> None:
        """Fill `out` with AvgL1(raw)."""
        torch.mm(torch.abs(self.raw, out=self._room), self._averaging, out=self._scale)
        self._scale.clamp_(min=SMALLEST).reciprocal_()
        torch.mul(self.raw, self._scale, out=out)

    def backward_(self, slope: Tensor, normal: Tensor) -> Tensor:
        """From the slope of AvgL1(raw) = normal to that of raw, in place: (g - sign(x) mean(g y)) / mean |x|."""
        torch.mm(torch.mul(slope, normal, out=self._room), self._averaging, out=self._shared)
        sign = torch.sign(self.raw, out=self._room)
        return slope.addcmul_(sign, self._shared, value=-1).mul_(self._scale)


class _Encoders:
    """The weights of an `Encoder` as products need them."""

    def __init__(self, encoder: Encoder) -> None:
        self.state, self.action = _weights(encoder.state), _weights(encoder.action)


class _Critic:
    """The weights of one of the two critics, or their gradients."""

    def __init__(self, critic: SaleCritic, k: int, pick: Callable[[Tensor], Tensor]) -> None:
        self.first = pick(critic.first_layer.matrix)[k]
        matrices = [pick(cast(Affine, layer).matrix)[k] for layer in critic.body.layers]
        norms = [cast(TwinNorm, norm) for norm in critic.body.norms or []]
        pairs = [(pick(n.scale)[k].flatten(), pick(n.shift)[k].flatten()) for n in norms]
        self.matrices, self.norms = matrices, pairs
        self.body = Weights(matrices, pairs)


class FusedSale(TorchDescent):
    """Targets and gradients of TD3 with embeddings, without autograd."""

    name = "fused"

    def __init__(self, nets: Nets, cfg: PlusConfig, encoder: Flat, batch_size: int = 256) -> None:
        self.nets, self.encoder, self.huber = nets, encoder, cfg.huber
        self._frozen = frozen_copies(nets, encoder)
        encoders = cast(Encoder, encoder.module)
        self._learned = _Encoders(encoders)
        self._learned_grads = [_grads(part) for part in (encoders.state, encoders.action)]
        self._online = _Side(nets.actor.module, nets.critic.module)
        self._targets = _Side(nets.target_actor.module, nets.target_critic.module)
        critics = cast(SaleCritic, nets.critic.module)
        self._critic_grads = [_Critic(critics, k, _grad) for k in range(2)]
        actors = cast(SaleActor, nets.actor.module)
        self._actor_grads = (_grad(actors.first.matrix), _grads(actors.body))
        self._looked: tuple[_Side | None, Tensor | None] = (None, None)  # whose zs of what is in its places
        self._allocate(batch_size)

    def _allocate(self, rows: int) -> None:
        """Inputs, activations, values and slopes for batches of this size."""
        self.batch_size, side, like = rows, self._online, self.nets.critic.values
        actions, width, size = side.actions, side.width, side.embedding
        self._inputs = block(rows, actions + side.inputs, like)  # [action, obs, 1]
        self._action, self._obs = self._inputs[:, :actions], self._inputs[:, actions:-1]
        self._seen = self._inputs[:, actions:]
        self._pairs = block(rows, actions + size, like)  # [action, zs, 1]
        self._judged = block(rows, width + 2 * size, like)  # [own, zsa, zs, 1]
        self._acted = block(rows, width + size, like)  # [own, zs, 1]
        scratch = like.new_empty(rows * max(width, size))
        made = {"scratch": scratch}
        encoder = cast(SaleCritic, self.nets.critic.module).encoder
        kind = encoder.state.activation
        self._state = Stack(self._seen, self._learned.state.sizes, kind, **made)
        self._pair = Stack(self._pairs, self._learned.action.sizes, kind, **made)
        self._body = Stack(self._judged, side.critics[0].body.sizes, side.critic_activation, **made)
        self._policy = Stack(self._acted, side.actor.sizes, side.actor_activation, **made)
        self._own, self._actor_own = _Dense(rows, width, like), _Dense(rows, width, like)
        self._zs = _Dense(rows, size, like)
        self._next_zs, self._zsa_slope = like.new_empty(rows, size), like.new_empty(rows, size)
        self._zsa = like.new_empty(rows, size)
        self._zs_slope, self._own_slope = like.new_empty(rows, size), like.new_empty(rows, width)
        self._both_slope = like.new_empty(rows, width + size)
        self._action_slope, self._through_zsa = (like.new_empty(rows, actions) for _ in range(2))
        self.values, self._errors, self._slopes, self._next = (like.new_zeros(2, rows) for _ in range(4))
        self._actor_values = like.new_zeros(rows, 1)
        self._ascent = like.new_full((1, 1), -1 / rows)

    def _fit(self, obs: Tensor) -> None:
        if obs.shape[0] != self.batch_size:
            self._looked = (None, None)
            self._allocate(obs.shape[0])

    def tensors(self, items: Transition) -> Batch[Tensor]:
        return cast(Batch[Tensor], as_tensors(items, self.nets.critic.values.device))

    def renew(self, share: float) -> None:
        for frozen in self._frozen:
            frozen.lerp_(self.encoder.values[: len(frozen)], share)
        self._looked = (None, None)

    # ---- embeddings ----

    def encoder_gradients(self, batch: Batch[Tensor], following: Tensor) -> Tensor:
        self._fit(batch.obs)
        learned, zs = self._learned, self._pairs[:, self._online.actions : -1]
        self._embed(learned, following, self._next_zs)
        self._embed(learned, batch.obs, zs)
        self._pairs[:, : self._online.actions].copy_(batch.action)
        self._pair.forward(learned.action, self._zsa)
        error = self._zsa.sub_(self._next_zs)
        loss = torch.dot(error.view(-1), error.view(-1)) / error.numel()
        slope = torch.mul(error, 2 / error.numel(), out=self._zsa_slope)
        below = self._pair.backward(learned.action, slope, *self._learned_grads[1])
        columns = learned.action.transposed[0][:, self._online.actions :]
        torch.mm(below, columns, out=self._zs_slope)
        self._state.backward(learned.state, self._zs.backward_(self._zs_slope, zs), *self._learned_grads[0])
        return loss

    def _embed(self, encoders: _Encoders, obs: Tensor, out: Tensor) -> None:
        """Fill `out` with zs."""
        self._looked = (None, None)
        self._obs.copy_(obs)
        self._state.forward(encoders.state, self._zs.raw)
        self._zs.normalise(out)

    def _pair_up(self, side: _Side) -> None:
        """From action and zs, in their places, to zsa in the critic's input."""
        self._pairs[:, : side.actions].copy_(self._action)
        zsa = self._judged[:, side.width : side.width + side.embedding]
        self._pair.forward(side.encoders.action, zsa)

    def _look(self, side: _Side, obs: Tensor) -> None:
        """Put zs where actor, pair encoder and critics read it."""
        if self._looked[0] is side and self._looked[1] is obs:  # the actor's step after the critics'
            return
        zs = self._judged[:, side.width + side.embedding : -1]
        self._embed(side.encoders, obs, zs)
        self._looked = (side, obs)
        self._pairs[:, side.actions : -1].copy_(zs)
        self._acted[:, side.width : -1].copy_(zs)

    def _act(self, side: _Side) -> None:
        """Fill the action with the actor's."""
        torch.mm(self._seen, side.first, out=self._actor_own.raw)
        self._actor_own.normalise(self._acted[:, : side.width])
        self._policy.forward(side.actor, self._action)
        self._action.tanh_()

    def _judge(self, critic: _Critic, out: Tensor) -> None:
        """Fill `out` [B, 1] with one critic's values."""
        torch.mm(self._inputs, critic.first, out=self._own.raw)
        self._own.normalise(self._judged[:, : self._online.width])
        self._body.forward(critic.body, out)

    # ---- TD3 ----

    def target(self, batch: Batch[Tensor], reward: Tensor, noise: Tensor | None) -> Tensor:
        self._fit(batch.next_obs)
        side = self._targets
        self._look(side, batch.next_obs)
        self._act(side)
        if noise is not None:
            self._action.add_(noise).clamp_(-1, 1)
        self._pair_up(side)
        for critic, values in zip(side.critics, self._next, strict=True):
            self._judge(critic, values.unsqueeze(1))
        return reward + batch.discount * (1 - batch.terminated) * self._next.amin(dim=0)

    def critic_gradients(self, batch: Batch[Tensor], target: Tensor) -> Tensor:
        self._fit(batch.obs)
        side = self._online
        self._look(side, batch.obs)
        self._action.copy_(batch.action)
        self._pair_up(side)
        for k, critic in enumerate(side.critics):
            self._judge(critic, self.values[k].unsqueeze(1))
            error = torch.sub(self.values[k], target, out=self._errors[k])
            fill_slope(error, self._slopes[k], self.huber)
            self._learn(critic, self._critic_grads[k], self._slopes[k].unsqueeze(1))
        return loss_of(self._errors, self._slopes, self.huber)

    def _learn(self, critic: _Critic, grads: _Critic, slope: Tensor) -> None:
        """Fill one critic's gradients from the slope [B, 1] of its values."""
        own = self._judged[:, : self._online.width]
        below = self._body.backward(critic.body, slope, grads.matrices, grads.norms)
        torch.mm(below, critic.body.transposed[0][:, : self._online.width], out=self._own_slope)
        torch.mm(self._inputs.t(), self._own.backward_(self._own_slope, own), out=grads.first)

    def actor_gradients(self, batch: Batch[Tensor]) -> Tensor:
        """Those of -mean Q_1: through the critic's first layer and through zsa."""
        self._fit(batch.obs)
        side = self._online
        self._look(side, batch.obs)
        self._act(side)
        self._pair_up(side)
        self._judge(side.critics[0], self._actor_values)
        self._slope_of_action(side)
        first, (body, norms) = self._actor_grads
        below = self._policy.backward(side.actor, self._action_slope, body, norms)
        torch.mm(below, side.actor.transposed[0][:, : side.width], out=self._own_slope)
        own = self._acted[:, : side.width]
        torch.mm(self._seen.t(), self._actor_own.backward_(self._own_slope, own), out=first)
        return -self._actor_values.mean()

    def _slope_of_action(self, side: _Side) -> None:
        """Fill the slope of the loss at the actor's output before its tanh: through the first layer and through zsa."""
        critic, columns = side.critics[0], slice(0, side.width + side.embedding)
        self._body.backward_to_inputs(critic.body, self._ascent, columns, self._both_slope)
        own, of_zsa = self._both_slope[:, : side.width], self._both_slope[:, side.width :]
        own = self._own.backward_(own, self._judged[:, : side.width])
        torch.mm(own, critic.first[: side.actions].t(), out=self._action_slope)
        actions = slice(0, side.actions)
        self._pair.backward_to_inputs(side.encoders.action, of_zsa, actions, self._through_zsa)
        self._action_slope.add_(self._through_zsa)
        torch.ops.aten.tanh_backward.grad_input(
            self._action_slope, self._action, grad_input=self._action_slope
        )


class _Side:
    """Online or target networks: their weights and sizes."""

    def __init__(self, actor: nn.Module, critic: nn.Module) -> None:
        actors, critics = cast(SaleActor, actor), cast(SaleCritic, critic)
        self.encoders = _Encoders(critics.encoder)
        self.first, self.actor = actors.first.matrix.data, _weights(actors.body)
        self.critics = [_Critic(critics, k, _value) for k in range(2)]
        self.inputs, self.actions = actors.state.inputs, actors.body.outputs
        self.width, self.embedding = actors.first.outputs, actors.state.outputs
        self.actor_activation, self.critic_activation = actors.body.activation, critics.body.activation


def _value(parameter: Tensor) -> Tensor:
    return parameter.data


def _grad(parameter: Tensor) -> Tensor:
    return cast(Tensor, parameter.grad)


def _weights(network: MLP) -> Weights:
    return Weights([cast(Affine, layer).matrix.data for layer in network.layers])


def _grads(network: MLP) -> tuple[Sequence[Tensor], Sequence[tuple[Tensor, Tensor]]]:
    return [_grad(cast(Affine, layer).matrix) for layer in network.layers], ()
