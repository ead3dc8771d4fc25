"""Acting and judging on few observations with numpy: a tenth of torch's overhead."""

from __future__ import annotations

from typing import cast

from torch import nn

from twofold.nets.mlp import MLP, Affine
from twofold.nets.numpy_mlp import ACTIVATIONS, Array, Norm, NumpyMLP, normalise
from twofold.nets.twin import Twin, TwinNorm


class NumpyActor(NumpyMLP):
    """An MLP computed by numpy on the memory of its torch weights, so that it is never out of date."""

    def __init__(self, module: MLP) -> None:
        self._module = module
        super().__init__(*_weights(module), module.activation, module.output)

    def refresh(self) -> None:
        """Look the weights up again; needed only when they moved to other memory, as into a new `Flat`."""
        self.hold(*_weights(self._module))


def _weights(module: MLP) -> tuple[list[Array], list[Norm]]:
    matrices: list[Array] = [cast(Affine, layer).matrix.detach().numpy() for layer in module.layers]
    norms = [cast(nn.LayerNorm, norm) for norm in module.norms or []]
    return matrices, [(norm.weight.detach().numpy(), norm.bias.detach().numpy()) for norm in norms]


class NumpyTwin:
    """Two critics computed by numpy on the memory of their weights."""

    def __init__(self, critics: Twin) -> None:
        self._activate = ACTIVATIONS[critics.activation]
        self._matrices = [cast(Affine, layer).matrix.detach().numpy() for layer in critics.layers]
        norms = [cast(TwinNorm, norm) for norm in critics.norms or []]
        self._norms = [(norm.scale.detach().numpy(), norm.shift.detach().numpy()) for norm in norms]

    def values(self, x: Array) -> Array:
        """x [2, N, inputs] -> [2, N]."""
        for index, matrix in enumerate(self._matrices[:-1]):
            x = x @ matrix[:, :-1] + matrix[:, -1:]
            if self._norms:
                normalise(x, *self._norms[index])
            self._activate(x)
        last = self._matrices[-1]
        found: Array = (x @ last[:, :-1] + last[:, -1:])[..., 0]
        return found
