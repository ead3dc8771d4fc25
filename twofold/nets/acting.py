"""Acting on few observations with numpy: a tenth of torch's overhead."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from twofold.nets.mlp import MLP, Affine

Array = NDArray[np.floating]


def _relu(x: Array) -> None:
    np.maximum(x, 0, out=x)


def _tanh(x: Array) -> None:
    np.tanh(x, out=x)


def _elu(x: Array) -> None:
    np.maximum(x, np.expm1(np.minimum(x, 0)), out=x)


def _gelu(x: Array) -> None:
    x[...] = torch.nn.functional.gelu(torch.from_numpy(x)).numpy()  # numpy has no erf


def _silu(x: Array) -> None:
    x *= 0.5 * (1 + np.tanh(0.5 * x))  # the logistic function, which never overflows written like this


ACTIVATIONS: dict[str, Callable[[Array], None]] = {
    "relu": _relu,
    "tanh": _tanh,
    "elu": _elu,
    "gelu": _gelu,
    "silu": _silu,
}


class NumpyActor:
    """An MLP computed by numpy on the memory of its torch weights, so that it is never out of date."""

    def __init__(self, module: MLP) -> None:
        self._module = module
        self._activate = ACTIVATIONS[module.activation]
        self.refresh()

    def refresh(self) -> None:
        """Look the weights up again; needed only when they moved to other memory, as into a new `Flat`."""
        self._matrices = [cast(Affine, layer).matrix.detach().numpy() for layer in self._module.layers]
        norms = [cast(nn.LayerNorm, norm) for norm in self._module.norms or []]
        self._norms = [(norm.weight.detach().numpy(), norm.bias.detach().numpy()) for norm in norms]
        self._allocate(1)

    def _allocate(self, rows: int) -> None:
        """Room for `rows` observations; the last column of every input is one and multiplies the bias row."""
        dtype = self._matrices[0].dtype
        self._rows = rows
        self._inputs = [np.ones((rows, matrix.shape[0]), dtype) for matrix in self._matrices]
        self._outputs = [x[:, :-1] for x in self._inputs[1:]]
        self._steps = list(zip(self._inputs, self._matrices, self._outputs, strict=False))
        self._obs = self._inputs[0][:, :-1]

    def act(self, obs: Array) -> Array:
        """obs [N, o] -> a fresh array of actions [N, a]."""
        if len(obs) != self._rows:
            self._allocate(len(obs))
        self._obs[...] = obs
        for index, (x, matrix, y) in enumerate(self._steps):
            np.matmul(x, matrix, out=y)
            if self._norms:
                _normalise(y, *self._norms[index])
            self._activate(y)
        action: Array = self._inputs[-1] @ self._matrices[-1]
        if self._module.output == "tanh":
            np.tanh(action, out=action)
        return action


def _normalise(x: Array, scale: Array, shift: Array, eps: float = 1e-5) -> None:
    """Layer normalisation in place, with torch's epsilon."""
    x -= x.mean(axis=1, keepdims=True)
    x /= np.sqrt(np.square(x).mean(axis=1, keepdims=True) + eps)
    x *= scale
    x += shift
