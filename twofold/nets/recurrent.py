"""A gated recurrent network over whole episodes, its gradients derived by hand on preallocated tensors.

Every matrix holds its bias as its last row and every input block a last column of ones, so that biases and their
gradients are part of the products. `copies` networks of one shape run side by side: K is that axis, T time, R rows.
Where there is a C compiler, `native/recurrent.c` does the work and leaves out rows whose episodes are over.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from twofold.native.sequence import RecurrentFields, Sequences, call, rows, sequences
from twofold.nets.stack import block

_tanh_backward = torch.ops.aten.tanh_backward.grad_input
_sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input
_threshold_backward = torch.ops.aten.threshold_backward.grad_input


class Recurrent(nn.Module):
    """relu(x W_enter) -> GRU -> linear: [K, R, inputs] and hidden [K, R, width] -> [K, R, outputs] and hidden."""

    def __init__(
        self, inputs: int, width: int, outputs: int, *, generator: torch.Generator, copies: int = 1
    ) -> None:
        super().__init__()
        self.inputs, self.width, self.outputs, self.copies = inputs, width, outputs, copies
        self.columns = inputs  # of what it is given

        def matrix(rows: int, columns: int, fan: int) -> nn.Parameter:
            bound = 1 / math.sqrt(fan)
            return nn.Parameter(
                torch.empty(copies, rows + 1, columns).uniform_(-bound, bound, generator=generator)
            )

        self.enter = matrix(inputs, width, inputs)
        self.gates = matrix(width, 3 * width, width)  # columns: reset, update, candidate
        self.recur = matrix(width, 3 * width, width)  # columns: candidate, reset, update
        self.leave = matrix(width, outputs, width)

    def forward(self, x: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """One step, differentiable: the reference for `Unroll`, and what acts."""
        entered = torch.relu(_affine(self.enter, x))
        reset, update, candidate = _affine(self.gates, entered).chunk(3, -1)
        past, past_reset, past_update = _affine(self.recur, hidden).chunk(3, -1)
        reset, update = torch.sigmoid(reset + past_reset), torch.sigmoid(update + past_update)
        candidate = torch.tanh(candidate + reset * past)
        hidden = torch.lerp(candidate, hidden, update)
        return _affine(self.leave, hidden), hidden

    def out(self, hidden: Tensor) -> Tensor:
        """What a hidden state [K, R, width] says, [K, R, outputs]: the output of the step that led to it."""
        return _affine(self.leave, hidden)

    def start(self, rows: int) -> Tensor:
        """The hidden state at the beginning of an episode, [K, rows, width]."""
        return self.enter.new_zeros(self.copies, rows, self.width)

    def room(self, steps: int, rows: int) -> Unroll:
        """Room to run it over whole episodes."""
        return Unroll(self, steps, rows)


def _affine(matrix: Tensor, x: Tensor) -> Tensor:
    return torch.baddbmm(matrix[:, -1:], x, matrix[:, :-1])


class _Views(NamedTuple):
    """Pieces of the buffers that belong to one step, each [R, ...]."""

    before: Tensor  # the state before, with its column of ones
    state: Tensor
    after: Tensor
    rz: Tensor
    reset: Tensor
    update: Tensor
    new: Tensor
    past: Tensor
    d_after: Tensor
    d_past: Tensor
    d_reset: Tensor
    d_update: Tensor
    d_new: Tensor
    d_gates: Tensor  # past, reset and update: what `recur` carries back


class Unroll:
    """Room to run a `Recurrent` over up to `steps` steps of `rows` rows, forwards and backwards.

    Fill `x` [K, T, R, inputs], call `forward`, then `backward`, which writes the gradients of the last `forward`
    into the parameters' `.grad` in place (they must exist, as with `Flat`). `live` [T] tells how many rows from the
    first on matter at each step, never more than at the step before; behind them nothing is promised.
    """

    def __init__(
        self,
        net: Recurrent,
        steps: int,
        rows: int,
        *,
        native: Sequences | None = None,
        torch_only: bool = False,
    ) -> None:
        self.copies, self.steps, self.rows, self.width = net.copies, steps, rows, net.width
        like, size = net.enter, (net.copies, steps, rows)

        def room(width: int, *, ones: bool = False, more: int = 0) -> Tensor:
            if not ones:
                return torch.empty(*size, width, dtype=like.dtype, device=like.device)
            flat = block(net.copies * (steps + more) * rows, width, like)
            return flat.unflatten(0, (net.copies, steps + more, rows))  # type: ignore[no-any-return, no-untyped-call]

        self._x, self._entered = room(net.inputs, ones=True), room(net.width, ones=True)
        self._hidden = room(net.width, ones=True, more=1)  # _hidden[:, t] is the state before step t
        self._gates, self._past = room(3 * net.width), room(net.width)
        self._rz, self._candidate = self._gates[..., : 2 * net.width], self._gates[..., 2 * net.width :]
        self._q = room(net.outputs)
        # Columns: candidate's past, reset, update, candidate: the first three face `recur`, the last three `gates`.
        self._slopes = room(4 * net.width)
        self._d_hidden, self._d_entered = room(net.width), room(net.width)
        self._carry, self._scratch = torch.empty(2, rows, net.width, dtype=like.dtype, device=like.device)
        self.live: NDArray[np.int64] = np.full(steps, rows, np.int64)
        self._native = None if torch_only else native or sequences(like)
        self._sums = torch.empty(rows, 3 * net.width, dtype=like.dtype) if self._native else None
        steps = 0 if self._native else steps
        self._views = [[self._views_of(k, t) for t in range(steps)] for k in range(net.copies)]

    def _views_of(self, k: int, t: int) -> _Views:
        """The pieces of one step; made once, since making them costs as much as filling them."""
        rz, slope = self._rz[k, t], self._slopes[k, t]
        before, after = self._hidden[k, t], self._hidden[k, t + 1, :, :-1]
        kept = (rz, *rz.chunk(2, -1), self._candidate[k, t], self._past[k, t])
        gradients = (self._d_hidden[k, t], *slope.chunk(4, -1), slope[:, : 3 * self.width])
        return _Views(before, before[:, :-1], after, *kept, *gradients)

    @property
    def x(self) -> Tensor:
        """The inputs [K, T, R, inputs], to be written in place."""
        return self._x[..., :-1]

    @property
    def hidden(self) -> Tensor:
        """The states after each step of the last `forward`, [K, T, R, width]."""
        return self._hidden[:, 1:, :, :-1]

    @property
    def before(self) -> Tensor:
        """The states before each step of the last `forward`, [K, T + 1, R, width]."""
        return self._hidden[..., :-1]

    @torch.no_grad()
    def forward(self, net: Recurrent, steps: int) -> Tensor:
        """Outputs for the first `steps` steps of `x`, from a zero state: a view [K, steps, R, outputs]."""
        for k in range(self.copies):
            if self._native is not None:
                call(self._native.recurrent[0], self._fields(self._native, net, k, steps))
            else:
                self._forward(net, k, steps)
        return self._q[:, :steps]

    def _forward(self, net: Recurrent, k: int, steps: int) -> None:
        width, flat = self.width, steps * self.rows
        entered = self._flat(self._entered, k, flat)
        torch.mm(self._flat(self._x, k, flat), net.enter[k], out=entered[:, :-1])
        entered[:, :-1].relu_()
        gates, recur = net.gates[k], net.recur[k]
        torch.mm(entered, gates[:, : 2 * width], out=self._flat(self._rz, k, flat))
        torch.mm(entered, gates[:, 2 * width :], out=self._flat(self._candidate, k, flat))
        recur_past, recur_rz = recur[:, :width], recur[:, width:]
        self._hidden[k, 0, :, :-1] = 0
        for step in self._views[k][:steps]:
            step.rz.addmm_(step.before, recur_rz).sigmoid_()
            torch.mm(step.before, recur_past, out=step.past)
            step.new.addcmul_(step.reset, step.past).tanh_()
            torch.lerp(step.new, step.state, step.update, out=step.after)
        after = self._hidden[k, 1:].flatten(0, 1)[:flat]
        torch.mm(after, net.leave[k], out=self._flat(self._q, k, flat))

    @staticmethod
    def _flat(room: Tensor, k: int, flat: int) -> Tensor:
        return room[k].flatten(0, 1)[:flat]

    @torch.no_grad()
    def backward(self, net: Recurrent, d_q: Tensor, d_hidden: Tensor | None = None) -> None:
        """Gradients of the parameters from those of the outputs [K, T, R, outputs] (and of the states)."""
        steps = d_q.shape[1]
        for k in range(self.copies):
            slopes, of_states = d_q[k].contiguous(), None if d_hidden is None else d_hidden[k].contiguous()
            if self._native is not None:
                self._backward_native(self._native, net, k, slopes, of_states)
            else:
                self._backward(net, k, slopes.reshape(-1, net.outputs), of_states, steps)

    def _backward_native(
        self, native: Sequences, net: Recurrent, k: int, d_q: Tensor, d_hidden: Tensor | None
    ) -> None:
        fields = self._fields(native, net, k, len(d_q))
        fields.d_q, fields.d_memory = d_q.data_ptr(), None if d_hidden is None else d_hidden.data_ptr()
        for name, matrix in (
            ("d_enter", net.enter),
            ("d_into", net.gates),
            ("d_recur", net.recur),
            ("d_leave", net.leave),
        ):
            setattr(fields, name, _grad(matrix)[k].data_ptr())
        call(native.recurrent[1], fields)

    def _fields(self, native: Sequences, net: Recurrent, k: int, steps: int) -> RecurrentFields:
        """What the C side works on; all of it stays where it is until the call is over."""
        assert self._sums is not None
        return RecurrentFields(
            multiply=native.multiply, live=self.live.ctypes.data,
            steps=steps, rows=self.rows, inputs=net.inputs, width=net.width, outputs=net.outputs,
            x=rows(self._x[k]), entered=rows(self._entered[k]), hidden=rows(self._hidden[k]),
            gates=self._gates[k].data_ptr(), past=self._past[k].data_ptr(), q=self._q[k].data_ptr(),
            slopes=self._slopes[k].data_ptr(), d_hidden=self._d_hidden[k].data_ptr(),
            d_entered=self._d_entered[k].data_ptr(), carry=self._carry.data_ptr(), scratch=self._sums.data_ptr(),
            enter=net.enter[k].data_ptr(), into=net.gates[k].data_ptr(),
            recur=net.recur[k].data_ptr(), leave=net.leave[k].data_ptr(),
        )  # fmt: skip

    def _backward(self, net: Recurrent, k: int, d_q: Tensor, d_hidden: Tensor | None, steps: int) -> None:
        width, flat = self.width, steps * self.rows
        after = self._hidden[k, 1:].flatten(0, 1)[:flat]
        torch.mm(after.t(), d_q, out=_grad(net.leave)[k])
        torch.mm(d_q, net.leave[k, :-1].t(), out=self._flat(self._d_hidden, k, flat))
        if d_hidden is not None:
            self._d_hidden[k, :steps] += d_hidden
        self._through_time(k, net.recur[k, :-1].t(), steps)
        slopes = self._flat(self._slopes, k, flat)
        torch.mm(self._flat(self._hidden, k, flat).t(), slopes[:, : 3 * width], out=_grad(net.recur)[k])
        entered = self._flat(self._entered, k, flat)
        torch.mm(entered.t(), slopes[:, width:], out=_grad(net.gates)[k])
        d_entered = self._flat(self._d_entered, k, flat)
        torch.mm(slopes[:, width:], net.gates[k, :-1].t(), out=d_entered)
        _threshold_backward(d_entered, entered[:, :-1], 0, grad_input=d_entered)
        torch.mm(self._flat(self._x, k, flat).t(), d_entered, out=_grad(net.enter)[k])

    def _through_time(self, k: int, recur: Tensor, steps: int) -> None:
        """Turn the states' gradients into those of the gates' inputs, last step first."""
        carry, scratch = self._carry.zero_(), self._scratch
        for step in reversed(self._views[k][:steps]):
            carry.add_(step.d_after)
            torch.addcmul(carry, carry, step.update, value=-1, out=scratch)
            _tanh_backward(scratch, step.new, grad_input=step.d_new)
            torch.mul(step.d_new, step.reset, out=step.d_past)
            torch.mul(step.d_new, step.past, out=scratch)
            _sigmoid_backward(scratch, step.reset, grad_input=step.d_reset)
            torch.sub(step.state, step.new, out=scratch)
            _sigmoid_backward(scratch.mul_(carry), step.update, grad_input=step.d_update)
            carry.mul_(step.update).addmm_(step.d_gates, recur)


def _grad(parameter: Tensor) -> Tensor:
    assert parameter.grad is not None, "wrap the network in Flat first: its gradients are written in place"
    return parameter.grad
