"""Multilayer perceptrons whose bias is the last row of the weight matrix."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "tanh": torch.tanh,
    "elu": functional.elu,
    "gelu": functional.gelu,
    "silu": functional.silu,
}
OUTPUTS = ("linear", "tanh")


class Affine(nn.Module):
    """y = x W + b, W and b being one matrix [inputs + 1, outputs], or `copies` of it."""

    def __init__(
        self, inputs: int, outputs: int, *, generator: torch.Generator, copies: int | None = None
    ) -> None:
        super().__init__()
        self.inputs, self.outputs = inputs, outputs
        # One matrix, because an input column of ones then makes bias and bias gradient part of the products.
        matrix = torch.empty(*([] if copies is None else [copies]), inputs + 1, outputs)
        bound = 1 / math.sqrt(inputs)
        self.matrix = nn.Parameter(matrix.uniform_(-bound, bound, generator=generator))

    def forward(self, x: Tensor) -> Tensor:
        """x [B, inputs] -> [B, outputs]; with copies [copies, B, inputs] -> [copies, B, outputs]."""
        return affine(self.matrix, x)


def affine(matrix: Tensor, x: Tensor) -> Tensor:
    """x W + b for matrix [..., inputs + 1, outputs] and x [..., inputs]."""
    # One split has one backward pass; two slices would each fill a matrix of zeros.
    weight, bias = torch.split(matrix, [matrix.shape[-2] - 1, 1], dim=-2)
    if matrix.dim() == 3:
        return torch.baddbmm(bias, x, weight)
    if x.dim() == 2:
        return torch.addmm(bias, x, weight)
    return x @ weight + bias.squeeze(0)


class MLP(nn.Module):
    """Fully connected network [B, inputs] -> [B, outputs], initialised from `generator` alone."""

    def __init__(
        self,
        inputs: int,
        hidden: Sequence[int],
        outputs: int,
        *,
        activation: str = "relu",
        layer_norm: bool = False,
        output: str = "linear",
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        check_choice("activation", activation, tuple(ACTIVATIONS))
        check_choice("output", output, OUTPUTS)
        self.inputs, self.outputs = inputs, outputs
        self.activation, self.output = activation, output
        sizes = [inputs, *hidden, outputs]
        pairs = itertools.pairwise(sizes)
        self.layers = nn.ModuleList(Affine(a, b, generator=generator) for a, b in pairs)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for width in hidden) if layer_norm else None

    def forward(self, x: Tensor) -> Tensor:
        x = self.before_output(x)
        return torch.tanh(x) if self.output == "tanh" else x

    def before_output(self, x: Tensor) -> Tensor:
        """What the last layer says, before the tanh of an actor."""
        activate = ACTIVATIONS[self.activation]
        for index, layer in enumerate(self.layers[:-1]):
            x = layer(x)
            if self.norms is not None:
                x = self.norms[index](x)
            x = activate(x)
        last: Tensor = self.layers[-1](x)
        return last


def check_choice(setting: str, value: str, choices: Sequence[str]) -> None:
    """Raise when a named setting is not one of its choices."""
    if value not in choices:
        raise ValueError(f"{setting} must be one of {', '.join(choices)}, got {value!r}")
