"""QMIX's mixer both ways by hand (`native/recurrent.c`): its autograd was a fifth of an update."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from twofold.native.sequence import MixerFields, Sequences, call, rows, sequences
from twofold.nets.stack import block
from twofold.team.mixers import Monotonic


class Mixing:
    """Joint values of rows, and the gradients of the last ones; in room that grows with the rows."""

    def __init__(self, mixer: Monotonic, native: Sequences) -> None:
        self.agents, self.embed = mixer.agents, mixer.embed
        self.hyper, self.state = mixer.second_in.inputs, mixer.first.inputs
        self._like, self._native, self._room = mixer.first.matrix, native, 0

    def _make(self, count: int) -> None:
        self._room, like = count, self._like
        self._states = block(count, self.state, like)

        def room(*shape: int) -> Tensor:
            return torch.empty(count, *shape, dtype=like.dtype)

        self._parts, self._into = room(2 * self.hyper + 2 * self.embed), room(self.agents * self.embed)
        self._out, self._mixed, self._scratch = room(self.embed), room(self.embed), room(self.hyper)

    @torch.no_grad()
    def forward(self, mixer: Monotonic, values: Tensor, state: Tensor, at: Tensor) -> Tensor:
        """Joint values [N] of values [N, A] in the rows `at` [N] of state [M, s]."""
        if len(at) > self._room:
            self._make(len(state))
        self._states[: len(at), :-1] = state[at]
        self._mixer, self._values, joint = (
            mixer,
            values.contiguous(),
            torch.empty(len(at), dtype=values.dtype),
        )
        self._fields = MixerFields(
            multiply=self._native.multiply,
            rows=len(at), state=self.state, agents=self.agents, embed=self.embed, hyper=self.hyper,
            states=rows(self._states), values=self._values.data_ptr(), parts=self._parts.data_ptr(),
            into=self._into.data_ptr(), out=self._out.data_ptr(), mixed=self._mixed.data_ptr(),
            joint=joint.data_ptr(), scratch=self._scratch.data_ptr(),
            first=mixer.first.matrix.data_ptr(), second_in=mixer.second_in.matrix.data_ptr(),
            second_out=mixer.second_out.matrix.data_ptr(), value=mixer.value.matrix.data_ptr(),
        )  # fmt: skip
        call(self._native.mixer[0], self._fields)
        return joint

    @torch.no_grad()
    def backward(self, d_joint: Tensor) -> Tensor:
        """The values' gradients [N, A] from the joint values' [N]; the mixer's are written into its `.grad`."""
        d_values, slopes = torch.empty_like(self._values), d_joint.contiguous()
        mixer, fields = self._mixer, self._fields
        fields.d_joint, fields.d_values = slopes.data_ptr(), d_values.data_ptr()
        fields.d_first, fields.d_value = _grad(mixer.first), _grad(mixer.value)
        fields.d_second_in, fields.d_second_out = _grad(mixer.second_in), _grad(mixer.second_out)
        call(self._native.mixer[1], fields)
        return d_values


def mixing(mixer: nn.Module | None) -> Mixing | None:
    """The way by hand, where there is one: for QMIX with hypernetworks of two layers, given a C compiler."""
    if not isinstance(mixer, Monotonic) or mixer.layers != 2:
        return None
    native = sequences(mixer.first.matrix)
    return None if native is None else Mixing(mixer, native)


def _grad(layer: nn.Module) -> int:
    (matrix,) = layer.parameters()
    assert matrix.grad is not None, "wrap the network in Flat first: its gradients are written in place"
    return matrix.grad.data_ptr()
