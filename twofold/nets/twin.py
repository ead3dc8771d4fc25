"""Two critics as one batched ensemble."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Protocol, cast, runtime_checkable

import torch
from torch import Tensor, nn
from torch.nn import functional

from twofold.nets.mlp import ACTIVATIONS, Affine, affine, check_choice

Tensors = Tensor | dict[str, Tensor]


class Twin(nn.Module):
    """Two independent critics of (obs, action), computed together: every weight has a leading axis of 2."""

    def __init__(
        self,
        inputs_obs: int,
        inputs_action: int,
        hidden: Sequence[int],
        *,
        activation: str = "relu",
        layer_norm: bool = False,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        check_choice("activation", activation, tuple(ACTIVATIONS))
        self.inputs_obs, self.inputs_action = inputs_obs, inputs_action
        self.activation = activation
        sizes = [inputs_obs + inputs_action, *hidden, 1]
        pairs = itertools.pairwise(sizes)
        self.layers = nn.ModuleList(Affine(a, b, generator=generator, copies=2) for a, b in pairs)
        self.norms = nn.ModuleList(TwinNorm(width) for width in hidden) if layer_norm else None

    def forward(self, obs: Tensor, action: Tensor) -> Tensor:
        """obs [B, o], action [B, a] -> values [2, B]."""
        # The action comes first: [obs, 1], what an actor's first layer reads, is the end of [action, obs, 1].
        x = torch.cat([action, obs], dim=-1)
        return self.values(x.expand(2, *x.shape), slice(None))

    def first(self, obs: Tensor, action: Tensor) -> Tensor:
        """The first critic alone: [B]; half the work of `forward`."""
        return self.values(torch.cat([action, obs], dim=-1), 0)

    def values(self, x: Tensor, critics: slice | int) -> Tensor:
        """Of both critics (`slice(None)`: [2, B, inputs] -> [2, B]) or of one ([B, inputs] -> [B])."""
        activate = ACTIVATIONS[self.activation]
        matrices = [cast(Affine, layer).matrix[critics] for layer in self.layers]
        for index, matrix in enumerate(matrices[:-1]):
            x = affine(matrix, x)
            if self.norms is not None:
                x = self.norms[index](x, critics)
            x = activate(x)
        return affine(matrices[-1], x).squeeze(-1)


class TwinNorm(nn.Module):
    """Layer normalisation with a scale and a shift for each of two critics."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(2, 1, width))
        self.shift = nn.Parameter(torch.zeros(2, 1, width))

    def forward(self, x: Tensor, critics: slice | int) -> Tensor:
        """x [2, B, width] for both critics or [B, width] for one."""
        normal = functional.layer_norm(x, x.shape[-1:])
        return normal * self.scale[critics] + self.shift[critics]


@runtime_checkable
class FirstValue(Protocol):
    """A critic that can answer for its first half alone, at half the price."""

    def first(self, obs: Tensors, action: Tensor) -> Tensor: ...


def first_value(critic: nn.Module, obs: Tensors, action: Tensor) -> Tensor:
    """Q_1(s, a): [B]."""
    if isinstance(critic, FirstValue):
        return critic.first(obs, action)
    values: Tensor = critic(obs, action)
    return values[0]
