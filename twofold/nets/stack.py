"""Forward and backward passes of fully connected layers on preallocated tensors, without autograd."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor
from torch.nn import functional

_aten = torch.ops.aten
NORM_EPS = 1e-5  # of layer norm, as in torch
_ALIGN = 16  # rows start at multiples of 64 bytes, which the matrix products like best


@dataclass(frozen=True)
class Activation:
    """An activation written into `out`, and a gradient multiplied by its derivative."""

    forward: Callable[[Tensor, Tensor], object]  # (before, out); both are one tensor unless keeps_input
    backward: Callable[[Tensor, Tensor, Tensor], object]  # (gradient, kept, out); kept is input or output
    keeps_input: bool = False


def _elu_(x: Tensor) -> None:
    """max(x, exp(min(x, 0)) - 1) in place: half the time of torch's, which takes expm1."""
    torch.maximum(x, x.clamp(max=0).exp_().sub_(1), out=x)


ACTIVATIONS: dict[str, Activation] = {
    "relu": Activation(
        lambda x, out: torch.relu_(out),
        lambda gradient, y, out: _aten.threshold_backward.grad_input(gradient, y, 0, grad_input=out),
    ),
    "tanh": Activation(
        lambda x, out: torch.tanh_(out),
        lambda gradient, y, out: _aten.tanh_backward.grad_input(gradient, y, grad_input=out),
    ),
    "elu": Activation(
        lambda x, out: _elu_(out),
        lambda gradient, y, out: _aten.elu_backward.grad_input(gradient, 1, 1, 1, True, y, grad_input=out),
    ),
    "gelu": Activation(
        # With `out`, torch 2.13 computes it wrongly where rows of float32 do not touch.
        lambda x, out: out.copy_(functional.gelu(x)),
        lambda gradient, x, out: out.copy_(_aten.gelu_backward(gradient.expand_as(x).contiguous(), x)),
        keeps_input=True,
    ),
    "silu": Activation(
        lambda x, out: _aten.silu.out(x, out=out),
        lambda gradient, x, out: _aten.silu_backward.grad_input(gradient, x, grad_input=out),
        keeps_input=True,
    ),
}


def block(rows: int, width: int, like: Tensor) -> Tensor:
    """Room for [rows, width] and a last column of ones, which multiplies the bias row."""
    stride = -(-(width + 1) // _ALIGN) * _ALIGN
    room = torch.zeros(rows, stride, dtype=like.dtype, device=like.device)[:, : width + 1]
    room[:, width] = 1
    return room


class Weights:
    """The matrices [inputs + 1, outputs] of one network, and the views of them that products need.

    With layer norm, `norms` holds a (scale [width], shift [width]) for each hidden layer.
    """

    def __init__(self, matrices: Sequence[Tensor], norms: Sequence[tuple[Tensor, Tensor]] = ()) -> None:
        self.matrices, self.norms = list(matrices), list(norms)
        self.sizes = [matrix.shape[0] - 1 for matrix in matrices] + [matrices[-1].shape[1]]
        self.transposed = [matrix[:-1].t() for matrix in matrices]


class Stack:
    """Room for one pass of `rows` rows through layers of the given sizes; any `Weights` of them can use it.

    The backward pass overwrites the activations it has used: what counts is that everything stays in cache.
    """

    def __init__(self, inputs: Tensor, sizes: Sequence[int], activation: str, scratch: Tensor) -> None:
        rows, hidden = inputs.shape[0], sizes[1:-1]
        self.activation = ACTIVATIONS[activation]
        self.inputs = [inputs] + [block(rows, width, inputs) for width in hidden]
        self.outputs = [x[:, :-1] for x in self.inputs[1:]]
        fresh = [inputs.new_empty(rows, width) for width in hidden]
        self.before = fresh if self.activation.keeps_input else self.outputs
        self._scratch = [scratch[: rows * width].view(rows, width) for width in hidden]
        self._transposed = [x.t() for x in self.inputs]
        # With layer norm only: what was normalised, its mean and one over its deviation; and slopes after it.
        self._normalised = [inputs.new_empty(rows, width) for width in hidden]
        self._dense = [inputs.new_empty(rows, width) for width in hidden]  # its kernel copies anything else
        self._moments = [(inputs, inputs)] * len(hidden)

    def forward(self, weights: Weights, out: Tensor) -> None:
        """Fill `out` with the last layer's output."""
        matrices = weights.matrices
        if weights.norms:
            self._forward_normalised(weights)
            torch.mm(self.inputs[-1], matrices[-1], out=out)
            return
        for x, matrix, before, y in zip(self.inputs, matrices, self.before, self.outputs, strict=False):
            torch.mm(x, matrix, out=before)
            self.activation.forward(before, y)
        torch.mm(self.inputs[-1], matrices[-1], out=out)

    def _forward_normalised(self, weights: Weights) -> None:
        """The hidden layers: product, layer norm, activation."""
        for layer, (x, (scale, shift)) in enumerate(zip(self.inputs, weights.norms, strict=False)):
            raw, before = self._normalised[layer], self.before[layer]
            torch.mm(x, weights.matrices[layer], out=raw)
            normal, *moments = torch.native_layer_norm(raw, scale.shape, scale, shift, NORM_EPS)
            self._moments[layer] = (moments[0], moments[1])
            before.copy_(normal)
            self.activation.forward(before, self.outputs[layer])

    def backward(
        self,
        weights: Weights,
        slope: Tensor,
        grads: Sequence[Tensor],
        norm_grads: Sequence[tuple[Tensor, Tensor]] = (),
    ) -> Tensor:
        """Fill `grads`, shaped like the matrices, from the slope [rows, outputs] of the last forward pass.

        What is returned is the slope of the first layer's outputs before their normalisation and activation.
        """
        for layer in reversed(range(len(grads))):
            torch.mm(self._transposed[layer], slope, out=grads[layer])
            if layer:
                slope = self._through(layer, weights, slope, norm_grads[layer - 1 :])
        return slope

    def backward_to_inputs(self, weights: Weights, slope: Tensor, columns: slice, out: Tensor) -> None:
        """Fill `out` with the gradient of some input columns; no gradient of a matrix is computed.

        The slope may be one row [1, outputs] that holds for all.
        """
        for layer in reversed(range(1, len(self.inputs))):
            slope = self._through(layer, weights, slope)
        torch.mm(slope.expand(len(out), -1), weights.transposed[0][:, columns], out=out)

    def _through(
        self, layer: int, weights: Weights, slope: Tensor, norm_grads: Sequence[tuple[Tensor, Tensor]] = ()
    ) -> Tensor:
        """The gradient before the activation (and before the layer norm, if any) of the outputs below `layer`."""
        gradient, outputs = self._scratch[layer - 1][: len(slope)], self.outputs[layer - 1]
        # A slope of one column makes an outer product, which is faster as an elementwise one.
        multiply = torch.mul if slope.shape[1] == 1 else torch.mm
        multiply(slope, weights.transposed[layer], out=gradient)
        slope = self._dense[layer - 1] if weights.norms else outputs
        self.activation.backward(gradient, self.before[layer - 1], slope)
        if not weights.norms:
            return slope
        (scale, shift), (mean, rstd) = weights.norms[layer - 1], self._moments[layer - 1]
        wanted = [True, bool(norm_grads), bool(norm_grads)]
        below, *of_norm = _aten.native_layer_norm_backward(
            slope, self._normalised[layer - 1], scale.shape, mean, rstd, scale, shift, wanted
        )
        if norm_grads:
            for grad, found in zip(norm_grads[0], of_norm, strict=True):
                grad.copy_(found)
        return cast(Tensor, below)
