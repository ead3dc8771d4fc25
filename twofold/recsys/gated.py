"""A gated recurrent unit over a window, its gradient derived by hand: a third of autograd's operations."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

_tanh_backward = torch.ops.aten.tanh_backward
_sigmoid_backward = torch.ops.aten.sigmoid_backward


class GatedWindow(torch.autograd.Function):
    """x [B, W, i], mask [B, W, 1] and two matrices with their bias as last row -> the last state [B, w].

    Columns of both matrices: reset, keep, new. The state stays zero until the first item; the mask holds nothing
    between items, since windows are filled from their end.
    """

    @staticmethod
    # Any: torch's context takes whatever attribute it is given.
    def forward(ctx: Any, x: Tensor, mask: Tensor, inputs: Tensor, recurrent: Tensor) -> Tensor:
        rows, steps, _ = x.shape
        width = recurrent.shape[1] // 3
        x = x.transpose(0, 1).reshape(steps * rows, -1)
        entries = torch.addmm(inputs[-1], x, inputs[:-1]).view(steps, rows, -1)
        gates, new = torch.split(entries, [2 * width, width], dim=2)  # both are filled in place, step by step
        states = x.new_zeros(steps + 1, rows, width)
        pasts = x.new_empty(steps, rows, 3 * width)
        there = mask.transpose(0, 1).contiguous()
        weight, bias = recurrent[:-1], recurrent[-1]
        parts = (gates, new, pasts, states, states[1:], there)
        for gate, fresh, past, state, after, here in zip(*(part.unbind(0) for part in parts), strict=False):
            torch.addmm(bias, state, weight, out=past)
            gate.add_(past[:, : 2 * width]).sigmoid_()
            fresh.addcmul_(gate[:, :width], past[:, 2 * width :]).tanh_()
            torch.lerp(fresh, state, gate[:, width:], out=after).mul_(here)
        ctx.save_for_backward(x, inputs, recurrent, entries, states, pasts, there)
        return states[-1].clone()

    @staticmethod
    # Any: as above.
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, ...]:
        x, inputs, recurrent, entries, states, pasts, there = ctx.saved_tensors
        steps, rows, width = there.shape[0], there.shape[1], states.shape[2]
        d_entries, d_pasts = torch.empty_like(entries), torch.empty_like(pasts)
        carry, transposed = slopes[0], recurrent[:-1].t()
        for t in reversed(range(steps)):
            reset, keep, new = torch.split(entries[t], width, dim=1)
            d_reset, d_keep, d_new = torch.split(d_entries[t], width, dim=1)
            carry = carry * there[t]
            torch.mul(_tanh_backward(carry, new), 1 - keep, out=d_new)
            d_reset.copy_(_sigmoid_backward(d_new * pasts[t, :, 2 * width :], reset))
            d_keep.copy_(_sigmoid_backward((states[t] - new).mul_(carry), keep))
            d_pasts[t].copy_(d_entries[t])
            d_pasts[t, :, 2 * width :].mul_(reset)
            carry = torch.addmm(carry * keep, d_pasts[t], transposed)
        d_entries, d_pasts = d_entries.view(steps * rows, -1), d_pasts.view(steps * rows, -1)
        d_x = None
        if ctx.needs_input_grad[0]:
            d_x = (d_entries @ inputs[:-1].t()).view(steps, rows, -1).transpose(0, 1)
        before = states[:-1].view(steps * rows, width)
        return d_x, None, _with_bias(x, d_entries), _with_bias(before, d_pasts)


def _with_bias(x: Tensor, slope: Tensor) -> Tensor:
    """The gradient of a matrix whose last row is the bias."""
    return torch.cat([x.t() @ slope, slope.sum(dim=0, keepdim=True)])
