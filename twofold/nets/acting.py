"""Acting and judging on few observations with numpy: a tenth of torch's overhead."""

from __future__ import annotations

from typing import cast

from torch import nn

from twofold.nets.mlp import MLP, Affine
from twofold.nets.numpy_mlp import Array, Norm, NumpyMLP
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


def numpy_halves(critics: Twin) -> list[NumpyMLP]:
    """Each of two critics, computed by numpy on the memory of their weights: [N, inputs] -> [N, 1]."""
    matrices = [cast(Affine, layer).matrix.detach().numpy() for layer in critics.layers]
    norms = [cast(TwinNorm, norm) for norm in critics.norms or []]
    scales = [(norm.scale.detach().numpy(), norm.shift.detach().numpy()) for norm in norms]
    return [
        NumpyMLP(
            [matrix[k] for matrix in matrices],
            [(scale[k, 0], shift[k, 0]) for scale, shift in scales],
            critics.activation,
            "linear",
        )
        for k in (0, 1)
    ]
