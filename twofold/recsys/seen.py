"""An observation with what all networks derive from it, computed once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from twofold.recsys.data import Array


class Window(NamedTuple):
    """The newest items of each row [B, W], newest last."""

    items: Array  # -1 where there is none
    ratings: Array  # 0 where there is none
    there: Array  # bool


class Seen:
    """Arrays of one batch of observations; what is derived from them is made when first asked for.

    It is kept in numpy, whose small operations cost a third of torch's; what networks read are tensors.
    """

    def __init__(self, obs: dict[str, Any]) -> None:
        self.obs = obs
        arrays = {name: np.asarray(leaf) for name, leaf in obs.items()}
        self.user, self.turn, self.block = arrays["user"], arrays["turn"], arrays["block"]  # [B, 1]
        self.items = arrays["items"]  # [B, T], -1 after the newest
        self.ratings = arrays["ratings"]  # [B, T]
        self.belief = arrays.get("belief")  # [B, b]
        self.longest = 0  # window that was asked for; shorter ones are its end
        self._derived: dict[Any, Any] = {}
        self._whole: Seen | None = None
        self._rows = slice(None)

    def __len__(self) -> int:
        return len(self.turn)

    @staticmethod
    def of(obs: Any) -> Seen:
        """The observation itself if it is one already."""
        return obs if isinstance(obs, Seen) else Seen(obs)

    def part(self, rows: slice) -> Seen:
        """Some rows; what was derived of all of them is cut, not made again."""
        part = Seen({name: np.asarray(leaf)[rows] for name, leaf in self.obs.items()})
        part._whole, part._rows, part.longest = self, rows, self.longest
        return part

    def once(self, name: Any, make: Callable[[], Any]) -> Any:
        """What `make` gives, made the first time that `name` is asked for; [B, ...] or a tuple of such."""
        if name not in self._derived:
            whole = self._whole
            known = whole is not None and name in whole._derived
            self._derived[name] = _cut(whole._derived[name], self._rows) if whole and known else make()
        return self._derived[name]

    def last(self, window: int) -> Window:
        """The newest `window` items, ratings and which of them exist."""
        if window < self.longest:
            return Window(*(leaf[:, -window:] for leaf in self.last(self.longest)))
        self.longest = window
        return self.once(("last", window), lambda: self._last(window))  # type: ignore[no-any-return]

    def _last(self, window: int) -> Window:
        places = self.turn + np.arange(-window, 0)
        there = places >= 0
        at = np.arange(len(self))[:, None], np.maximum(places, 0)
        return Window(np.where(there, self.items[at], -1), self.ratings[at] * there, there)

    def blocked(self, pad: int) -> Array:
        """Items that may not be shown now [B, T], the number `pad` elsewhere."""
        return self.once("blocked", lambda: self._blocked(pad))  # type: ignore[no-any-return]

    def _blocked(self, pad: int) -> Array:
        places = np.arange(self.items.shape[1])
        counts = (places >= self.turn - self.block) & (self.items >= 0)
        return np.where(counts, self.items, np.int64(pad))


def _cut(value: Any, rows: slice) -> Any:
    """Some rows of an array or tensor, or of a tuple of them."""
    if isinstance(value, (np.ndarray, Tensor)):
        return value[rows]
    cut = [leaf[rows] for leaf in value]
    return Window(*cut) if isinstance(value, Window) else tuple(cut)
