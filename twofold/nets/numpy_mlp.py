"""A multilayer perceptron computed by numpy alone: what acts on few observations, and where torch is not wanted."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]
Norm = tuple[Array, Array]  # scale and shift of a layer normalisation


def _relu(x: Array) -> None:
    np.maximum(x, 0, out=x)


def _tanh(x: Array) -> None:
    np.tanh(x, out=x)


def _elu(x: Array) -> None:
    np.maximum(x, np.expm1(np.minimum(x, 0)), out=x)


def _gelu(x: Array) -> None:
    import torch  # numpy has no erf

    x[...] = torch.nn.functional.gelu(torch.from_numpy(x)).numpy()


def _silu(x: Array) -> None:
    x *= 0.5 * (1 + np.tanh(0.5 * x))  # the logistic function, which never overflows written like this


ACTIVATIONS: dict[str, Callable[[Array], None]] = {
    "relu": _relu,
    "tanh": _tanh,
    "elu": _elu,
    "gelu": _gelu,
    "silu": _silu,
}


class NumpyMLP:
    """obs [N, o] -> [N, a]; the last row of every matrix is the bias, as in `nets.mlp.Affine`."""

    def __init__(self, matrices: list[Array], norms: list[Norm], activation: str, output: str) -> None:
        self._activate, self._output = ACTIVATIONS[activation], output
        self.hold(matrices, norms)

    @classmethod
    def of(cls, state: Mapping[str, Array], activation: str, output: str) -> NumpyMLP:
        """From the saved state of an `MLP`; a KeyError names what it lacks."""
        layers = sum(name.endswith(".matrix") for name in state)
        normed = sum(name.startswith("norms.") for name in state) // 2
        matrices = [state[f"layers.{i}.matrix"] for i in range(layers)]
        norms = [(state[f"norms.{i}.weight"], state[f"norms.{i}.bias"]) for i in range(normed)]
        return cls(matrices, norms, activation, output)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of inputs and outputs."""
        return self._matrices[0].shape[0] - 1, self._matrices[-1].shape[1]

    def hold(self, matrices: list[Array], norms: list[Norm]) -> None:
        """Compute with these weights; they are looked at, not copied."""
        self._matrices, self._norms = matrices, norms
        self._allocate(1)

    def _allocate(self, rows: int) -> None:
        """Room for `rows` observations; the last column of every input is one and multiplies the bias row."""
        dtype = self._matrices[0].dtype
        self._rows = rows
        self._inputs: list[Array] = [np.ones((rows, matrix.shape[0]), dtype) for matrix in self._matrices]
        self._outputs = [x[:, :-1] for x in self._inputs[1:]]
        self._steps = list(zip(self._inputs, self._matrices, self._outputs, strict=False))
        self._obs = self._inputs[0][:, :-1]

    def act(self, obs: Array) -> Array:
        """obs [N, o] -> a fresh array [N, a]."""
        if len(obs) != self._rows:
            self._allocate(len(obs))
        self._obs[...] = obs
        for index, (x, matrix, y) in enumerate(self._steps):
            np.matmul(x, matrix, out=y)
            if self._norms:
                normalise(y, *self._norms[index])
            self._activate(y)
        action: Array = self._inputs[-1] @ self._matrices[-1]
        if self._output == "tanh":
            np.tanh(action, out=action)
        return action


def normalise(x: Array, scale: Array, shift: Array, eps: float = 1e-5) -> None:
    """Layer normalisation in place, with torch's epsilon."""
    x -= x.mean(axis=-1, keepdims=True)
    x /= np.sqrt(np.square(x).mean(axis=-1, keepdims=True) + eps)
    x *= scale
    x += shift
