"""Running mean and variance of observations; part of the policy."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn

from twofold.base.values import Array

CLIP = 10.0  # standard deviations
STILL = 1e-2  # a column whose deviation is smaller keeps its scale: noise is not made a signal
SELDOM = 0.5  # a column that is zero more often keeps its scale: contact forces, say, whose deviation tells no size


class Normaliser:
    """Observations with mean 0 and variance 1, clipped; columns that hardly or seldom move are only centred."""

    def __init__(self, size: int) -> None:
        self.count = 0
        self.mean, self.squares = np.zeros(size), np.zeros(size)  # squares: sum of squared deviations
        self.zeros = np.zeros(size, np.int64)  # how often a column was exactly zero
        self._shift, self._scale = np.zeros(size, np.float32), np.ones(size, np.float32)

    def observe(self, obs: Array) -> None:
        """Count a batch [N, o] (Chan et al.: exact, and stable in one pass)."""
        batch = obs.astype(np.float64)
        rows, mean = len(batch), batch.mean(axis=0)
        total = self.count + rows
        delta = mean - self.mean
        self.squares += ((batch - mean) ** 2).sum(axis=0) + delta**2 * self.count * rows / total
        self.mean += delta * rows / total
        self.zeros += (batch == 0).sum(axis=0)
        self.count = total
        self._refresh()

    def _refresh(self) -> None:
        deviation = np.sqrt(self.squares / max(self.count, 1))
        kept = (deviation < STILL) | (self.zeros > SELDOM * self.count)
        self._shift[:] = self.mean
        self._scale[:] = 1 / np.where(kept, 1.0, deviation)

    def __call__(self, obs: Array) -> Array:
        """obs [N, o] as networks see it."""
        normal: Array = ((obs - self._shift) * self._scale).clip(-CLIP, CLIP)
        return normal

    def before(self, actor: nn.Module) -> nn.Module:
        """The actor for raw observations; it follows what is counted later."""
        return _Normalised(actor, torch.from_numpy(self._shift), torch.from_numpy(self._scale))

    def state_dict(self) -> dict[str, Array | int]:
        sums = {"mean": self.mean, "squares": self.squares, "zeros": self.zeros}
        return {"count": self.count, **{name: found.copy() for name, found in sums.items()}}

    def load_state_dict(self, state: Mapping[str, Array | int]) -> None:
        self.count = int(state["count"])
        self.mean[:], self.squares[:] = state["mean"], state["squares"]
        self.zeros[:] = state.get("zeros", 0)  # not counted when the file was made: no column is kept for it
        self._refresh()


class _Normalised(nn.Module):
    shift: Tensor
    scale: Tensor

    def __init__(self, actor: nn.Module, shift: Tensor, scale: Tensor) -> None:
        super().__init__()
        self.actor = actor
        self.register_buffer("shift", shift)
        self.register_buffer("scale", scale)

    def forward(self, obs: Tensor) -> Tensor:
        action: Tensor = self.actor(((obs - self.shift) * self.scale).clamp(-CLIP, CLIP))
        return action
