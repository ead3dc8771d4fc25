"""What the episode so far says about an item that might be shown next."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from .data import Array
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
        return self.completed(seen, items, self.fixed(seen, items))

    def fixed(self, seen: Seen, items: Tensor) -> list[Tensor]:
        """What no parameter changes: the item, what is expected of it and whom it is like, and the memory of it."""
        known = torch.embedding(self.tables.joined, items)
        # Expectation, and likeness to the window's items.
        met = torch.bmm(known, self._questions(seen).transpose(1, 2))
        found = [known[:, :, : self.tables.width], met]
        return [*found, self._memory(seen, items, met[:, :, 0].numpy())] if self.cfg.memory else found

    def completed(self, seen: Seen, items: Tensor, fixed: list[Tensor]) -> Tensor:
        """All features, from the fixed ones."""
        if self.cfg.learn_pairs:
            own = torch.bmm(torch.embedding(self.own, items), self.own_window(seen).transpose(1, 2))
            fixed = [*fixed[:2], own, *fixed[2:]]
        return torch.cat(fixed, dim=-1)

    def derive(self, seen: Seen) -> None:
        """Make what the features need and no parameter changes."""
        self._questions(seen)
        self._window(seen)
        if self.cfg.memory:
            self._near_the_window(seen)

    def _questions(self, seen: Seen) -> Tensor:
        """What is asked of every candidate, as products with what is known of it [B, 1 + WINDOW, d + r + b]."""

        def made() -> Tensor:
            tables = self.tables
            questions = torch.zeros(len(seen), 1 + WINDOW, tables.joined.shape[1])
            questions[:, 0, tables.width :] = tables.person(seen)
            questions[:, 1:, : tables.width] = tables.window_vectors(seen, WINDOW)
            return questions

        return seen.once("questions", made)  # type: ignore[no-any-return]

    def _window(self, seen: Seen) -> tuple[Tensor, Tensor]:
        """The window's items, 0 where there is none [B, WINDOW], and 1 where there is one [B, WINDOW, 1]."""

        def made() -> tuple[Tensor, Tensor]:
            last = seen.last(WINDOW)
            there = last.there[:, :, None].astype(np.float32)
            return torch.from_numpy(np.maximum(last.items, 0)), torch.from_numpy(there)

        return seen.once("window", made)  # type: ignore[no-any-return]

    def own_window(self, seen: Seen) -> Tensor:
        """Learned vectors [B, WINDOW, d] of the newest items, zeros where there is none."""
        items, there = self._window(seen)
        return torch.embedding(self.own, items) * there

    def add_gradient(self, seen: Seen, items: Tensor, d_likeness: Tensor) -> None:
        """Add to the gradient of the learned vectors that of their likeness [B, WINDOW] for one item [B] per row."""
        (window, there), grad = self._window(seen), self.own.grad
        assert grad is not None
        d_likeness = d_likeness.unsqueeze(2) * there
        others = torch.embedding(self.own, window)
        grad.index_add_(0, items, torch.bmm(d_likeness.transpose(1, 2), others).squeeze(1))
        d_window = d_likeness * torch.embedding(self.own, items).unsqueeze(1)
        grad.index_add_(0, window.view(-1), d_window.view(-1, grad.shape[1]))

    def _memory(self, seen: Seen, items: Tensor, expected: Array) -> Tensor:
        """Was it shown, how long ago, what did it get, and with how many window items is it untried? [B, k, 4]."""
        turns = seen.items.shape[1]
        shown = items.numpy().astype(seen.items.dtype)[:, :, None] == seen.items[:, None]  # [B, k, T]
        last = (shown * np.arange(1, turns + 1, dtype=np.int16)).max(axis=2)  # 0: never shown
        ever = last > 0
        got = seen.ratings[np.arange(len(seen))[:, None], last - 1] - self.tables.level(seen)
        near, count = self._near_the_window(seen)
        tried = torch.bmm(torch.from_numpy(shown.astype(np.float32)), near).numpy() > 0
        found = np.empty((*ever.shape, 4), np.float32)
        found[..., 0] = ever
        found[..., 1] = (seen.turn + 1 - last) * ever / turns
        found[..., 2] = np.where(ever, got, expected)
        found[..., 3] = (count - tried.sum(axis=2)) / WINDOW
        return torch.from_numpy(found)

    def _near_the_window(self, seen: Seen) -> tuple[Tensor, Array]:
        """How often each window item was shown within a window of each turn [B, T, WINDOW]; how many there are [B, 1].

        A candidate that was shown at no turn near an item was never tried beside it: a risk of quitting.
        """

        def counted() -> tuple[Tensor, Array]:
            last, turns = seen.last(WINDOW), np.arange(seen.items.shape[1])
            shown = (last.items[:, :, None] == seen.items[:, None]) & last.there[:, :, None]
            close = (np.abs(turns[:, None] - turns) <= WINDOW).astype(np.float32)
            near = torch.from_numpy(shown.astype(np.float32)) @ torch.from_numpy(close)
            return near.transpose(1, 2), last.there.sum(axis=1, keepdims=True)

        return seen.once("near", counted)  # type: ignore[no-any-return]
