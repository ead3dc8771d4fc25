"""An observation with what all networks derive from it, computed once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, NamedTuple, TypeVar, cast

import numpy as np
from torch import Tensor

from twofold.recsys.data import Array

Listed = tuple[Array, Array]  # for some users their likeliest items, and the scores of these, both [n, m]
Value = TypeVar("Value")


class Window(NamedTuple):
    """The newest items of each row [B, W], newest last."""

    items: Array  # -1 where there is none
    ratings: Array  # 0 where there is none
    there: Array  # bool


class Derived(Generic[Value]):
    """A name for something that is derived from an observation, with the type that it has."""


LAST: Derived[Window] = Derived()
BLOCKED: Derived[Array] = Derived()


class Seen:
    """Arrays of one batch of observations; what is derived from them is made when first asked for.

    It is kept in numpy, whose small operations cost a third of torch's; what networks read are tensors.
    `forbidden` [B, m] are items that may not be shown beside those of the episode, -1 pads. `takes` says what each row
    takes most likely where that is not a matter of the user's number: of strangers, what their history tells.
    """

    def __init__(
        self,
        obs: Mapping[str, Array | Tensor],
        forbidden: Array | None = None,
        takes: Listed | None = None,
    ) -> None:
        self.obs, self.forbidden, self.takes = obs, forbidden, takes
        arrays = {name: _array(leaf) for name, leaf in obs.items()}
        self.user, self.turn, self.block = arrays["user"], arrays["turn"], arrays["block"]  # [B, 1]
        self.items = arrays["items"]  # [B, T], -1 after the newest
        self.ratings = arrays["ratings"]  # [B, T]
        self.belief = arrays.get("belief")  # [B, b]
        self.risk = arrays.get("risk")  # [B, items]: chance that an item ends the episode, where it is known
        self.stays = arrays.get("stays")  # [B, 1]: 1 where the user cannot leave before the end
        self.longest = 0  # window that was asked for; shorter ones are its end
        # Each key says the type of its value, which the type of one dictionary cannot.
        self._derived: dict[tuple[object, int], object] = {}
        self._whole: Seen | None = None
        self._rows = slice(None)

    def __len__(self) -> int:
        return len(self.turn)

    @staticmethod
    def of(obs: Observation) -> Seen:
        """The observation itself if it is one already."""
        return obs if isinstance(obs, Seen) else Seen(obs)

    def part(self, rows: slice) -> Seen:
        """Some rows; what was derived of all of them is cut, not made again."""
        forbidden = None if self.forbidden is None else self.forbidden[rows]
        takes = None if self.takes is None else (self.takes[0][rows], self.takes[1][rows])
        part = Seen({name: _array(leaf)[rows] for name, leaf in self.obs.items()}, forbidden, takes)
        part._whole, part._rows, part.longest = self, rows, self.longest
        return part

    def once(self, what: Derived[Value], make: Callable[[], Value], size: int = 0) -> Value:
        """What `make` gives, made the first time that it is asked for in this size; [B, ...] or a tuple of such."""
        key = (what, size)
        if key not in self._derived:
            whole = self._whole
            known = whole is not None and key in whole._derived
            self._derived[key] = _cut(whole._derived[key], self._rows) if whole and known else make()
        return cast(Value, self._derived[key])

    def last(self, window: int) -> Window:
        """The newest `window` items, ratings and which of them exist."""
        if window < self.longest:
            return Window(*(leaf[:, -window:] for leaf in self.last(self.longest)))
        self.longest = window
        return self.once(LAST, lambda: self._last(window), window)

    def _last(self, window: int) -> Window:
        places = self.turn + np.arange(-window, 0)
        there = places >= 0
        at = np.arange(len(self))[:, None], np.maximum(places, 0)
        return Window(np.where(there, self.items[at], -1), self.ratings[at] * there, there)

    def blocked(self, pad: int) -> Array:
        """Items that may not be shown now [B, T + m], the number `pad` elsewhere."""
        return self.once(BLOCKED, lambda: self._blocked(pad))

    def _blocked(self, pad: int) -> Array:
        places = np.arange(self.items.shape[1])
        counts = (places >= self.turn - self.block) & (self.items >= 0)
        shown = np.where(counts, self.items, np.int64(pad))
        if self.forbidden is None:
            return shown
        return np.hstack([shown, np.where(self.forbidden >= 0, self.forbidden, np.int64(pad))])


Observation = Mapping[str, Array | Tensor] | Seen


def _array(leaf: Array | Tensor) -> Array:
    return leaf.cpu().numpy() if isinstance(leaf, Tensor) else np.asarray(leaf)


def _cut(value: object, rows: slice) -> object:
    """Some rows of an array or tensor, or of a tuple of them."""
    if isinstance(value, (np.ndarray, Tensor)):
        return value[rows]
    assert isinstance(value, tuple)  # as `once` says
    cut = [leaf[rows] for leaf in value]
    return Window(*cut) if isinstance(value, Window) else tuple(cut)
