"""Passes through the fully connected parts of actor and critics over items, forwards and backwards by hand."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from twofold.nets.mlp import Affine
from twofold.nets.stack import Stack, Weights, block
from twofold.recsys.item_nets import ItemActor, ItemCritic

_tanh_backward = torch.ops.aten.tanh_backward


def matrices(layers: nn.ModuleList) -> list[nn.Parameter]:
    """The matrix of every layer."""
    return [cast(Affine, layer).matrix for layer in layers]


def gradients(layers: nn.ModuleList) -> list[Tensor]:
    """The gradient of every layer's matrix: flat networks keep them in one memory."""
    return [cast(Tensor, matrix.grad) for matrix in matrices(layers)]


def actor_weights(actor: ItemActor) -> Weights:
    """The matrices of an actor's body, on the same memory."""
    return Weights([matrix.detach() for matrix in matrices(actor.body.layers)])


def critic_weights(critic: ItemCritic) -> list[Weights]:
    """The matrices of the first and of the second critic, on the same memory."""
    return [Weights([matrix.detach()[k] for matrix in matrices(critic.head.layers)]) for k in range(2)]


class ActorHead:
    """Room for one pass of `rows` rows: state and guide -> point of the item space."""

    def __init__(self, actor: ItemActor, rows: int) -> None:
        self.positive = actor.cfg.positive_actions
        sizes = actor_weights(actor).sizes
        inputs = block(rows, sizes[0], next(actor.parameters()))
        self.states = actor.state.outputs
        self._state, self._guide = inputs[:, : self.states], inputs[:, self.states : -1]
        scratch = torch.empty(rows * max(sizes))
        self._stack = Stack(inputs, sizes, actor.body.activation, scratch)
        self._squashed = torch.empty(rows, sizes[-1])

    def forward(self, weights: Weights, state: Tensor, guide: Tensor | None) -> Tensor:
        """The point, of unit length or in [0, 1]."""
        self._state.copy_(state)
        self._stack_forward(weights, guide)
        if self.positive:
            return self._free.clamp(-1, 1).add_(1).div_(2)
        length: Tensor = torch.linalg.vector_norm(self._free, dim=1, keepdim=True)
        self._length = length.clamp_min_(1e-12)
        self._point = self._free / self._length
        return self._point

    def _stack_forward(self, weights: Weights, guide: Tensor | None) -> None:
        """Fill what is squashed, and the free point before it is put on the sphere or into the box."""
        if guide is not None:
            self._guide.copy_(guide)
        self._stack.forward(weights, self._squashed)
        self._squashed.tanh_()
        self._free = self._squashed if guide is None else self._squashed + guide

    def backward(
        self, weights: Weights, d_point: Tensor, grads: list[Tensor], d_state: bool
    ) -> Tensor | None:
        """Fill `grads` from the gradient of the last point; that of the state if it is asked for."""
        if self.positive:
            slope = d_point.masked_fill(self._free.abs() > 1, 0.0).div_(2)
        else:
            along = (self._point * d_point).sum(dim=1, keepdim=True)
            slope = torch.addcmul(d_point, self._point, along, value=-1).div_(self._length)
        slope = self._stack.backward(weights, _tanh_backward(slope, self._squashed), grads)
        return slope @ weights.transposed[0][:, : self.states] if d_state else None


class CriticHead:
    """Room for one pass of `rows` rows: features and state -> the values of both critics."""

    def __init__(self, critic: ItemCritic, rows: int) -> None:
        sizes = critic_weights(critic)[0].sizes
        inputs = block(rows, sizes[0], next(critic.parameters()))
        self.features = sizes[0] - critic.state.outputs
        self._features, self._state = inputs[:, : self.features], inputs[:, self.features : -1]
        scratch = torch.empty(rows * max(sizes))
        self._stacks = [Stack(inputs, sizes, critic.head.activation, scratch) for _ in range(2)]
        self.values = torch.zeros(2, rows)
        self._columns = [row.unsqueeze(1) for row in self.values]
        self._first = torch.zeros(rows, 1)
        self._ascent = torch.full((1, 1), -1 / rows)

    def forward(self, weights: list[Weights], features: Tensor, state: Tensor) -> Tensor:
        """Values [2, B], overwritten by the next pass."""
        self._features.copy_(features)
        self._state.copy_(state)
        for stack, matrices, column in zip(self._stacks, weights, self._columns, strict=True):
            stack.forward(matrices, column)
        return self.values

    def backward(
        self, weights: list[Weights], slopes: Tensor, grads: list[list[Tensor]], columns: slice
    ) -> Tensor:
        """Fill `grads` from the gradient of the values [2, B]; the gradient of some input columns."""
        both = list(zip(self._stacks, weights, slopes, grads, strict=True))
        firsts = [stack.backward(own, slope.unsqueeze(1), into) for stack, own, slope, into in both]
        parts = [own.transposed[0][:, columns] for own in weights]
        return (firsts[0] @ parts[0]).addmm_(firsts[1], parts[1])

    def ascend(self, weights: Weights, features: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """-mean of the first critic, and its gradient by the features."""
        self._features.copy_(features)
        self._state.copy_(state)
        self._stacks[0].forward(weights, self._first)
        d_features = torch.empty_like(features)
        columns = slice(0, self.features)
        self._stacks[0].backward_to_inputs(weights, self._ascent, columns, d_features)
        return -self._first.mean(), d_features
