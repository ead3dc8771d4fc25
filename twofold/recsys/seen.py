"""An observation with what all networks derive from it, computed once."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class Seen:
    """Tensors of one batch of observations; windows are cut when first asked for."""

    def __init__(self, obs: dict[str, Tensor]) -> None:
        self.obs = obs
        self.user = obs["user"].long().squeeze(1)  # [B]
        self.turn = obs["turn"].long()  # [B, 1]
        self.items = obs["items"].long()  # [B, T], -1 after the newest
        self.ratings = obs["ratings"]  # [B, T]
        self.belief = obs.get("belief")  # [B, b]
        self._places = torch.arange(self.items.shape[1])
        self._windows: dict[int, tuple[Tensor, Tensor, Tensor]] = {}
        self._blocked: Tensor | None = None

    @staticmethod
    def of(obs: Any) -> Seen:
        """The observation itself if it is one already."""
        return obs if isinstance(obs, Seen) else Seen(obs)

    def last(self, window: int) -> tuple[Tensor, Tensor, Tensor]:
        """The newest `window` items, ratings and which of them exist: [B, window] each, newest last."""
        if window not in self._windows:
            places = self.turn - window + torch.arange(window)
            there = places >= 0
            places = places.clamp_min(0)
            items = self.items.gather(1, places).masked_fill(~there, -1)
            self._windows[window] = items, self.ratings.gather(1, places) * there, there
        return self._windows[window]

    def blocked(self) -> Tensor:
        """Items that may not be shown now [B, T], -1 elsewhere."""
        if self._blocked is None:
            old = self._places < self.turn - self.obs["block"].long()
            self._blocked = self.items.masked_fill(old, -1)
        return self._blocked
