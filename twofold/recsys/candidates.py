"""What the episode so far says about an item that might be shown next."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor, nn

from twofold.recsys.data import Array
from twofold.recsys.networks import ItemNetConfig
from twofold.recsys.seen import Derived, Seen
from twofold.recsys.tables import Tables, taken_by
from twofold.recsys.taking import Taking, listed_scores

WINDOW = 7  # items back that a new item is compared with
TEN = 10  # turns that what a quit costs is counted in
WINDOW_ITEMS: Derived[tuple[Tensor, Tensor]] = Derived()
NEAR: Derived[tuple[Tensor, Array]] = Derived()
_ONES = np.ones(WINDOW, np.float32)


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
        if tables.taking is not None:
            self.outputs += 1
        if tables.remembers:
            self.outputs += 2

    def prior(self) -> Tensor | None:
        """Weights [outputs] of a planner: the rating expected or known, what taking is worth, the price of a quit."""
        tables = self.tables
        if not tables.starts and tables.taking is None and not tables.remembers:
            return None
        weights = torch.zeros(self.outputs)
        memory = self.learned.stop if self.cfg.learn_pairs else tables.width + 1 + WINDOW
        weights[memory + 2 if self.cfg.memory else tables.width] = 1.0
        if tables.taking is not None:
            weights[self.outputs - (3 if tables.remembers else 1)] = self.cfg.take_worth
        if tables.remembers:
            weights[self.outputs - 1] = -self.cfg.quit_price * TEN
        return weights

    def forward(self, seen: Seen, items: Tensor) -> Tensor:
        return self.completed(seen, items, self.fixed(seen, items))

    def fixed(self, seen: Seen, items: Tensor) -> list[Tensor]:
        """What no parameter changes: the item, what is expected of it and whom it is like, and the memory of it."""
        tables = self.tables
        known = torch.embedding(tables.joined, items)
        vectors, factors = known[:, :, : tables.width], known[:, :, tables.width :]
        expected = torch.bmm(factors, tables.person(seen).unsqueeze(2))
        likeness = torch.bmm(vectors, tables.window_vectors(seen, WINDOW).transpose(1, 2))
        found = [vectors, expected, likeness]
        if self.cfg.memory:
            found.append(self._memory(seen, items, expected[:, :, 0].numpy()))
        if tables.taking is not None:
            found.append(self._taking(tables.taking, seen, items.numpy()))
        if seen.risk is not None:
            found.append(self._risk(seen.risk, seen, items.numpy()))
        return found

    @staticmethod
    def _taking(taking: Taking, seen: Seen, items: Array) -> Tensor:
        """How likely an item is taken, if it was not shown in this episode already [B, k, 1]."""
        shown = (items[:, :, None] == seen.items[:, None]).any(axis=2)
        scores = listed_scores(items, taken_by(seen, taking))
        return torch.from_numpy(np.where(shown, np.float32(0), scores)[:, :, None])

    def _risk(self, risk: Array, seen: Seen, items: Array) -> Tensor:
        """The chance that an item ends the episode, and what that costs: turns left, in tens, at the user's best."""
        chance = np.take_along_axis(risk, items, axis=1)
        left = np.maximum(seen.items.shape[1] - seen.turn - 1, 0) / np.float32(
            TEN
        )  # none after the last turn
        lost = left * self.tables.now(seen).max(axis=1, keepdims=True)
        return torch.from_numpy(np.stack([chance, chance * lost.astype(np.float32)], axis=2))

    def completed(self, seen: Seen, items: Tensor, fixed: list[Tensor]) -> Tensor:
        """All features, from the fixed ones."""
        fixed = [leaf.to(self.tables.place) for leaf in fixed]
        if self.cfg.learn_pairs:
            items = items.to(self.tables.place)
            own = torch.bmm(torch.embedding(self.own, items), self.own_window(seen).transpose(1, 2))
            fixed = [*fixed[:3], own, *fixed[3:]]
        return torch.cat(fixed, dim=-1)

    def derive(self, seen: Seen) -> None:
        """Make what the features need and no parameter changes."""
        self.tables.person(seen)
        self.tables.window_vectors(seen, WINDOW)
        if self.cfg.learn_pairs:
            self._window(seen)
        if self.cfg.memory:
            self._near_the_window(seen)

    def _window(self, seen: Seen) -> tuple[Tensor, Tensor]:
        """The window's items, 0 where there is none [B, WINDOW], and 1 where there is one [B, WINDOW, 1]."""

        def made() -> tuple[Tensor, Tensor]:
            last = seen.last(WINDOW)
            there = last.there[:, :, None].astype(np.float32)
            items, place = torch.from_numpy(np.maximum(last.items, 0)), self.tables.place
            return items.to(place), torch.from_numpy(there).to(place)

        return seen.once(WINDOW_ITEMS, made)

    def own_window(self, seen: Seen) -> Tensor:
        """Learned vectors [B, WINDOW, d] of the newest items, zeros where there is none."""
        items, there = self._window(seen)
        return torch.embedding(self.own, items) * there

    def add_gradient(self, seen: Seen, items: Tensor, d_likeness: Tensor) -> None:
        """Add to the gradient of the learned vectors that of their likeness [B, WINDOW] for one item [B, 1] per row."""
        (window, there), grad = self._window(seen), self.own.grad
        assert grad is not None
        d_likeness = d_likeness.unsqueeze(2) * there
        places = torch.cat([window, items], dim=1)
        own = torch.embedding(self.own, places)
        slopes = torch.empty_like(own)
        torch.mul(d_likeness, own[:, WINDOW:], out=slopes[:, :WINDOW])
        torch.bmm(d_likeness.transpose(1, 2), own[:, :WINDOW], out=slopes[:, WINDOW:])
        grad.index_add_(0, places.view(-1), slopes.view(-1, grad.shape[1]))

    def _memory(self, seen: Seen, items: Tensor, expected: Array) -> Tensor:
        """Was it shown, how long ago, what did it get, and with how many window items is it untried? [B, k, 4]."""
        turns = seen.items.shape[1]
        shown = items.numpy().astype(seen.items.dtype)[:, :, None] == seen.items[:, None]  # [B, k, T]
        last = (shown * _counting(turns)).max(axis=2)  # 0: never shown
        ever = last > 0
        got = seen.ratings[np.arange(len(seen))[:, None], last - 1] - self.tables.level(seen)
        near, count = self._near_the_window(seen)
        tried = torch.bmm(torch.from_numpy(shown.astype(np.float32)), near).numpy()
        found = np.empty((*ever.shape, 4), np.float32)
        found[..., 0] = ever
        found[..., 1] = (seen.turn + 1 - last) * ever / turns
        found[..., 2] = np.where(ever, got, expected)
        found[..., 3] = (count - np.minimum(tried, 1.0, out=tried) @ _ONES) / WINDOW
        return torch.from_numpy(found)

    def _near_the_window(self, seen: Seen) -> tuple[Tensor, Array]:
        """How often each window item was shown within a window of each turn [B, T, WINDOW]; how many there are [B, 1].

        A candidate that was shown at no turn near an item was never tried beside it: a risk of quitting.
        """

        def counted() -> tuple[Tensor, Array]:
            last = seen.last(WINDOW)
            window = np.where(last.there, last.items, -2).astype(seen.items.dtype)  # -2 is in no history
            shown = (window[:, :, None] == seen.items[:, None]).astype(np.float32)
            near = torch.from_numpy(shown) @ _close(seen.items.shape[1])
            return near.transpose(1, 2), last.there.sum(axis=1, keepdims=True)

        return seen.once(NEAR, counted)


@lru_cache(maxsize=8)
def _counting(turns: int) -> Array:
    """1, 2, ... turns."""
    return np.arange(1, turns + 1, dtype=np.int16)


@lru_cache(maxsize=8)
def _close(turns: int) -> Tensor:
    """1 for turns that lie within a window of each other [T, T]."""
    places = torch.arange(turns)
    return ((places.unsqueeze(1) - places).abs() <= WINDOW).float()
