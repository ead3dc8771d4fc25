"""What the episode so far says about an item that might be shown next."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from .networks import ItemNetConfig
from .seen import Seen
from .tables import Tables

WINDOW = 7  # items back that a new item is compared with


class Candidates(nn.Module):
    """Features [B, k, outputs] of candidate items [B, k]: expectation, own past, likeness to the window."""

    def __init__(self, cfg: ItemNetConfig, tables: Tables) -> None:
        super().__init__()
        self.cfg, self.tables = cfg, tables
        self.outputs = WINDOW + 1
        if cfg.memory:
            self.outputs += 4
        if cfg.learn_pairs:
            self.outputs += WINDOW
            # Starting at the fixed vectors makes every pair distinct; the rest is learned from there.
            self.own = nn.Parameter(tables.item_vectors.clone())

    def forward(self, seen: Seen, items: Tensor) -> Tensor:
        window, _, there = seen.last(WINDOW)
        expected = self.tables.expected(seen, items).unsqueeze(-1)
        found = [expected, self._likeness(self.tables.item_vectors, items, window, there)]
        if self.cfg.learn_pairs:
            found.append(self._likeness(self.own, items, window, there))
        if self.cfg.memory:
            found.append(self._memory(seen, items, window, there, expected))
        return torch.cat(found, dim=-1)

    @staticmethod
    def _likeness(vectors: Tensor, items: Tensor, window: Tensor, there: Tensor) -> Tensor:
        """Dot products with the window's items [B, k, WINDOW]."""
        return torch.einsum("bkd,bwd->bkw", vectors[items], vectors[window]) * there.unsqueeze(1)

    def _memory(self, seen: Seen, items: Tensor, window: Tensor, there: Tensor, expected: Tensor) -> Tensor:
        """Was it shown, how long ago, what did it get, and with how many window items is it untried?"""
        history = seen.items
        turns = torch.arange(history.shape[1])
        shown = history.unsqueeze(1) == items.unsqueeze(2)  # [B, k, T]
        ever = shown.any(dim=2)
        last = (shown * (turns + 1)).amax(dim=2) - 1
        age = (seen.turn - last) * ever / history.shape[1]
        level = self.tables.level(seen.user).unsqueeze(1)
        got = (seen.ratings.gather(1, last.clamp_min(0)) - level) * ever
        known = torch.where(ever, got, expected.squeeze(-1))
        untried = self._untried(history, shown, window, there)
        return torch.stack([ever.float(), age, known, untried], dim=-1)

    @staticmethod
    def _untried(history: Tensor, shown: Tensor, window: Tensor, there: Tensor) -> Tensor:
        """How many window items were never within a window of the candidate before: a risk of quitting."""
        near = functional.max_pool1d(shown.float(), 2 * WINDOW + 1, stride=1, padding=WINDOW)  # [B, k, T]
        same = (history.unsqueeze(1) == window.unsqueeze(2)) & there.unsqueeze(2)  # [B, W, T]
        tried = torch.einsum("bkt,bwt->bkw", near, same.float()) > 0
        return ((~tried) & there.unsqueeze(1)).sum(dim=2) / WINDOW
