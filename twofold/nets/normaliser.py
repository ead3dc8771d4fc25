"""Running mean and variance of observations; saved with the policy."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from twofold.core.experience import Array


class Normaliser:
    """Observations with mean 0 and variance 1, clipped; every collected observation is counted once."""

    def __init__(self, size: int, clip: float = 10.0) -> None:
        self.count, self.clip = 0, clip
        self.mean, self.squares = np.zeros(size), np.zeros(size)  # squares: sum of squared deviations
        self._refresh()

    def observe(self, obs: Array) -> None:
        """Count a batch [N, o] (Chan et al.: exact, and stable in one pass)."""
        batch = obs.astype(np.float64)
        rows, mean = len(batch), batch.mean(axis=0)
        total = self.count + rows
        delta = mean - self.mean
        self.squares += ((batch - mean) ** 2).sum(axis=0) + delta**2 * self.count * rows / total
        self.mean += delta * rows / total
        self.count = total
        self._refresh()

    def _refresh(self) -> None:
        variance = self.squares / max(self.count, 1)
        scale = 1 / np.sqrt(np.where(self.count > 1, variance, 1.0) + 1e-8)
        self._shift, self._scale = self.mean.astype(np.float32), scale.astype(np.float32)

    def __call__(self, obs: Array) -> Array:
        return ((obs - self._shift) * self._scale).clip(-self.clip, self.clip)

    def tensor(self, obs: Tensor) -> Tensor:
        shift, scale = torch.from_numpy(self._shift), torch.from_numpy(self._scale)
        return ((obs - shift) * scale).clamp(-self.clip, self.clip)

    def constants(self) -> tuple[Array, Array, float]:
        """Shift, scale and clip, for export."""
        return self._shift, self._scale, self.clip

    def state_dict(self) -> dict[str, Any]:
        return {"count": self.count, "mean": self.mean.copy(), "squares": self.squares.copy()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.count = int(state["count"])
        self.mean, self.squares = np.array(state["mean"]), np.array(state["squares"])
        self._refresh()
