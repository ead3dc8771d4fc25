"""What the episode so far says about an item that might be shown next."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

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

    def add_gradient(self, seen: Seen, items: Tensor, d_likeness: Tensor) -> None:
        """Add to the gradient of the learned vectors that of their likeness [B, WINDOW] for one item [B] per row."""
        last, grad = seen.last(WINDOW), self.own.grad
        assert grad is not None
        d_likeness = (d_likeness * last.there).unsqueeze(1)
        window = last.items.clamp_min(0)
        own, others = torch.embedding(self.own, items), torch.embedding(self.own, window)
        grad.index_add_(0, items, torch.bmm(d_likeness, others).squeeze(1))
        d_window = d_likeness.transpose(1, 2) * own.unsqueeze(1)
        grad.index_add_(0, window.view(-1), d_window.view(-1, grad.shape[1]))

    def derive(self, seen: Seen) -> None:
        """Make what the features need and no parameter changes."""
        self.tables.window_vectors(seen, WINDOW)
        self.tables.person(seen)
        if self.cfg.memory:
            self._near_the_window(seen)

    def _memory(self, seen: Seen, items: Tensor, expected: Tensor) -> list[Tensor]:
        """Was it shown, how long ago, what did it get, and with how many window items is it untried? [B, k, 1] each."""
        turns = seen.items.shape[1]
        shown = _same(items, seen.items)  # [B, k, T]
        last = (shown * torch.arange(1.0, turns + 1)).amax(dim=2)  # 0: never shown
        ever = last > 0
        age = (seen.turn + 1 - last).mul_(ever).div_(turns)
        got = seen.ratings.gather(1, last.long().sub_(1).clamp_min_(0)) - self.tables.level(seen)
        known = torch.where(ever, got, expected)
        near, count = self._near_the_window(seen)
        tried = torch.bmm(shown, near).clamp_(max=1.0).sum(dim=2)
        untried = (count - tried).div_(WINDOW)
        return [part.unsqueeze(-1) for part in (ever.float(), age, known, untried)]

    def _near_the_window(self, seen: Seen) -> tuple[Tensor, Tensor]:
        """How often each window item was shown within a window of each turn [B, T, WINDOW]; how many there are [B, 1].

        A candidate that was shown at no turn near an item was never tried beside it: a risk of quitting.
        """

        def counted() -> tuple[Tensor, Tensor]:
            last, turns = seen.last(WINDOW), torch.arange(seen.items.shape[1])
            shown = _same(last.items.masked_fill(~last.there, -2), seen.items)
            close = ((turns.unsqueeze(1) - turns).abs() <= WINDOW).float()
            return (shown @ close).transpose(1, 2), last.there.sum(dim=1, keepdim=True).float()

        return seen.once("near", counted)  # type: ignore[no-any-return]


def _same(items: Tensor, history: Tensor) -> Tensor:
    """1 where the history [B, T] shows an item [B, k], else 0: [B, k, T]."""
    # numpy compares and converts in a third of torch's time.
    same = items.numpy()[:, :, None] == history.numpy()[:, None]
    return torch.from_numpy(same.astype(np.float32))
