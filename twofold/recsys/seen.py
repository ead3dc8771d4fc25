"""An observation with what all networks derive from it, computed once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor


class Window(NamedTuple):
    """The newest items of each row [B, W], newest last."""

    items: Tensor  # -1 where there is none
    ratings: Tensor  # 0 where there is none
    there: Tensor  # bool


class Seen:
    """Tensors of one batch of observations; what is derived from them is made when first asked for."""

    def __init__(self, obs: dict[str, Tensor]) -> None:
        self.obs = obs
        self.user = obs["user"].long().squeeze(1)  # [B]
        self.turn = obs["turn"].long()  # [B, 1]
        self.block = obs["block"]  # [B, 1]
        self.items = obs["items"].long()  # [B, T], -1 after the newest
        self.ratings = obs["ratings"]  # [B, T]
        self.belief = obs.get("belief")  # [B, b]
        self._derived: dict[Any, Any] = {}

    @staticmethod
    def of(obs: Any) -> Seen:
        """The observation itself if it is one already."""
        return obs if isinstance(obs, Seen) else Seen(obs)

    def once(self, name: Any, make: Callable[[], Any]) -> Any:
        """What `make` gives, computed the first time that `name` is asked for; a tensor [B, ...] or tuple of them."""
        if name not in self._derived:
            self._derived[name] = make()
        return self._derived[name]

    def part(self, rows: slice) -> Seen:
        """Some rows, with all that was derived of them so far."""
        part = Seen.__new__(Seen)
        part.obs = {}
        part.user, part.turn, part.block = self.user[rows], self.turn[rows], self.block[rows]
        part.items, part.ratings = self.items[rows], self.ratings[rows]
        part.belief = None if self.belief is None else self.belief[rows]
        part._derived = {name: _cut(value, rows) for name, value in self._derived.items()}
        return part

    def last(self, window: int) -> Window:
        """The newest `window` items, ratings and which of them exist."""
        return self.once(("last", window), lambda: self._last(window))  # type: ignore[no-any-return]

    def _last(self, window: int) -> Window:
        places = self.turn - window + torch.arange(window)
        there = places >= 0
        places = places.clamp_min_(0)
        items = self.items.gather(1, places).masked_fill_(~there, -1)
        return Window(items, self.ratings.gather(1, places) * there, there)

    def blocked(self, pad: int) -> Tensor:
        """Items that may not be shown now [B, T], the number `pad` elsewhere."""
        return self.once("blocked", lambda: self._blocked(pad))  # type: ignore[no-any-return]

    def _blocked(self, pad: int) -> Tensor:
        places = torch.arange(self.items.shape[1])
        free = (places < self.turn - self.block).logical_or_(self.items < 0)
        return self.items.masked_fill(free, pad)


def _cut(value: Any, rows: slice) -> Any:
    """Some rows of a tensor or of a tuple of them."""
    if isinstance(value, Tensor):
        return value[rows]
    cut = [leaf[rows] for leaf in value]
    return Window(*cut) if isinstance(value, Window) else tuple(cut)
