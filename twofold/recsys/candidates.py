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
    """Features [B, k, outputs] of candidate items [B, k]: vector, expectation, own past, likeness to the window."""

    def __init__(self, cfg: ItemNetConfig, tables: Tables) -> None:
        super().__init__()
        self.cfg, self.tables = cfg, tables
        self.outputs = tables.width + 1 + WINDOW
        self.learned = slice(self.outputs, self.outputs)  # columns that depend on parameters
        if cfg.learn_pairs:
            self.learned = slice(self.outputs, self.outputs + WINDOW)
            self.outputs += WINDOW
            # Starting at the fixed vectors makes every pair distinct; the rest is learned from there.
            self.own = nn.Parameter(tables.item_vectors.clone())
        if cfg.memory:
            self.outputs += 4

    def forward(self, seen: Seen, items: Tensor) -> Tensor:
        vectors, expected = self.tables.vectors(items), self.tables.expected(seen, items)
        window = self.tables.window_vectors(seen, WINDOW)
        found = [vectors, expected.unsqueeze(-1), torch.bmm(vectors, window.transpose(1, 2))]
        if self.cfg.learn_pairs:
            found.append(torch.bmm(torch.embedding(self.own, items), self.own_window(seen).transpose(1, 2)))
        if self.cfg.memory:
            found += self._memory(seen, items, expected)
        return torch.cat(found, dim=-1)

    def own_window(self, seen: Seen) -> Tensor:
        """Learned vectors [B, WINDOW, d] of the newest items, zeros where there is none."""
        last = seen.last(WINDOW)
        return torch.embedding(self.own, last.items.clamp_min(0)) * last.there.unsqueeze(-1)

    def _memory(self, seen: Seen, items: Tensor, expected: Tensor) -> list[Tensor]:
        """Was it shown, how long ago, what did it get, and with how many window items is it untried? [B, k, 1] each."""
        turns = seen.items.shape[1]
        shown = (seen.items.unsqueeze(1) == items.unsqueeze(2)).float()  # [B, k, T]
        last = (shown * torch.arange(1.0, turns + 1)).amax(dim=2)  # 0: never shown
        ever = last > 0
        age = (seen.turn + 1 - last).mul_(ever).div_(turns)
        got = seen.ratings.gather(1, last.long().sub_(1).clamp_min_(0)) - self.tables.level(seen)
        known = torch.where(ever, got, expected)
        near, count = seen.once("near", lambda: _near_the_window(seen))
        tried = (torch.bmm(shown, near) > 0).sum(dim=2)
        untried = (count - tried).div_(WINDOW)
        return [ever.float().unsqueeze(-1), *(part.unsqueeze(-1) for part in (age, known, untried))]


def _near_the_window(seen: Seen) -> tuple[Tensor, Tensor]:
    """Which turns lie within a window of one at which a window item was shown [B, T, WINDOW]; how many there are [B, 1].

    A candidate that was shown at none of an item's turns was never tried beside it: a risk of quitting.
    """
    last = seen.last(WINDOW)
    shown = (seen.items.unsqueeze(1) == last.items.unsqueeze(2)).logical_and_(last.there.unsqueeze(2))
    near = functional.max_pool1d(shown.float(), 2 * WINDOW + 1, stride=1, padding=WINDOW)
    return near.transpose(1, 2), last.there.sum(dim=1, keepdim=True).float()
