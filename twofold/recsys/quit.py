"""When a user has had enough: the two families of quit rules, batched over rows, and their windows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from twofold.recsys.data import Array
from twofold.recsys.truth import Factors, Matrix, hashed_uniform

TABLE_CELLS = 200_000_000  # tables of more cells than this are not made: distances are computed when needed


class QuitRule(Protocol):
    """Does the new item, after the items of the window, end the episode?"""

    def hits(self, worlds: Array, seeds: Array, items: Array, window: Array) -> Array:
        """worlds, episode seeds, items [N], window [N, n] with -1 where there is no item -> bool [N]."""
        ...


@dataclass(frozen=True)
class Never:
    """No quitting."""

    def hits(self, worlds: Array, seeds: Array, items: Array, window: Array) -> Array:
        return np.zeros(len(items), bool)


@dataclass(frozen=True)
class CloseTable:
    """Quit when a window item is close to the new one; the table has one more item, never close."""

    close: Array  # bool [worlds, items + 1, items + 1]

    def hits(self, worlds: Array, seeds: Array, items: Array, window: Array) -> Array:
        size = self.close.shape[-1]
        flat = (worlds * size + items)[:, None] * size + window
        # The pad is the table's last column: index -1 of this row is the last of the row before, so move it.
        flat[window < 0] += size
        return np.asarray(self.close.ravel()[flat].any(axis=1))


@dataclass(frozen=True)
class CloseVectors:
    """The same for large catalogues: distances of vectors [worlds, items, d] are computed when needed."""

    vectors: Array
    thresholds: Array  # [worlds]

    def hits(self, worlds: Array, seeds: Array, items: Array, window: Array) -> Array:
        new = self.vectors[worlds, items]
        old = self.vectors[worlds[:, None], window]
        near = np.square(old - new[:, None]).sum(axis=2) < np.square(self.thresholds[worlds])[:, None]
        return np.asarray((near & (window >= 0)).any(axis=1))


@dataclass(frozen=True)
class CloseByChance:
    """A rule, and unknown close pairs: each pair is one with chance `share`, redrawn for each episode.

    Which items bore together can hardly be told from a log; a policy trained so keeps to what it has tried.
    """

    known: QuitRule
    share: float

    def hits(self, worlds: Array, seeds: Array, items: Array, window: Array) -> Array:
        new = items[:, None]
        drawn = hashed_uniform(seeds[:, None], np.minimum(new, window), np.maximum(new, window), 5)
        chance = ((drawn < self.share) & (window >= 0)).any(axis=1)
        return self.known.hits(worlds, seeds, items, window) | chance


@dataclass(frozen=True)
class CategoryCount:
    """Quit when any category of the new item occurs more than `threshold` times in the window."""

    categories: Array  # int [items, c], -1 pads
    threshold: float

    def hits(self, worlds: Array, seeds: Array, items: Array, window: Array) -> Array:
        new = self.categories[items]  # [N, c]
        old = np.where((window >= 0)[:, :, None], self.categories[window], -2)  # [N, n, c]
        same = new[:, :, None, None] == old[:, None]
        counts = (same & (new >= 0)[:, :, None, None]).sum(axis=(2, 3))
        return np.asarray((counts > self.threshold).any(axis=1))


def window_of(history: Array, turns: Array, size: int, rule: Literal["intended", "compat"]) -> Array:
    """The items that count before turn `turns` [N]: [N, size], -1 where there is none.

    `compat` is the slice seq[t - n : t] as Python takes it: for t < n its start counts from the end, so in the
    first turns only the last n - t items (or all, while t is small) are looked at.
    """
    offsets = turns[:, None] - 1 - np.arange(size)
    start = np.maximum(turns - size, 0)
    if rule == "compat":
        start = np.where(turns < size, np.maximum(2 * turns - size, 0), turns - size)
    counted = offsets >= start[:, None]
    return np.where(counted, np.take_along_axis(history, np.maximum(offsets, 0), axis=1), -1)


def close_by_distance(table: Matrix | Factors, threshold: float) -> CloseTable | CloseVectors:
    """Items whose rating columns are nearer than `threshold` (Euclidean) are close."""
    vectors = table.item_vectors()
    if len(vectors) ** 2 > TABLE_CELLS // 8:
        return CloseVectors(vectors[None], np.array([threshold], np.float32))
    return CloseTable(_padded(distances(vectors) < threshold)[None])


def close_by_share(vectors: Array, share: float, worlds: int) -> CloseTable | CloseVectors:
    """The closest pairs of item vectors; how many is unknown, so the share differs from world to world.

    World by world the share goes from a quarter of `share` to four times it, evenly on a log scale.
    """
    places = np.linspace(-1.0, 1.0, worlds) if worlds > 1 else np.zeros(1)
    shares = np.minimum(share * 4.0 ** np.random.default_rng(0).permutation(places), 1.0)
    if worlds * len(vectors) ** 2 > TABLE_CELLS:
        thresholds = np.quantile(_random_distances(vectors), shares)
        return CloseVectors(np.broadcast_to(vectors, (worlds, *vectors.shape)), thresholds.astype(np.float32))
    apart = distances(vectors)
    thresholds = np.quantile(apart[np.triu_indices(len(apart), 1)], shares)
    return CloseTable(np.stack([_padded(apart <= threshold) for threshold in thresholds]))


def redrawn(rule: CloseTable, rng: np.random.Generator, levels: Array | None = None) -> CloseTable:
    """As many close pairs as the rule's first world has, elsewhere.

    Anywhere; or, with the items' mean ratings as `levels`, the same graph among items of the same tenth of them.
    """
    close = rule.close[0][:-1, :-1]
    if levels is None:
        one, other = np.triu_indices(len(close), 1)
        drawn = rng.permutation(len(one))[: int(close[one, other].sum())]
        graph = np.eye(len(close), dtype=bool)
        graph[one[drawn], other[drawn]] = graph[other[drawn], one[drawn]] = True
        return CloseTable(_padded(graph)[None])
    places = np.arange(len(close))
    for tenth in np.array_split(np.argsort(levels, kind="stable"), 10):
        places[tenth] = rng.permutation(tenth)
    return CloseTable(_padded(close[places][:, places])[None])


def distances(vectors: Array) -> Array:
    """Euclidean distances of all pairs [n, n]."""
    vectors = vectors.astype(np.float64)
    squares = np.square(vectors).sum(axis=1)
    apart = np.sqrt(np.maximum(squares[:, None] + squares - 2 * vectors @ vectors.T, 0.0))
    np.fill_diagonal(apart, 0.0)
    return np.asarray(apart)


def _padded(close: Array) -> Array:
    return np.pad(close, ((0, 1), (0, 1)))


def _random_distances(vectors: Array) -> Array:
    """Distances of random pairs."""
    pairs = np.random.default_rng(0).integers(len(vectors), size=(2, 200_000))
    return np.asarray(np.linalg.norm(vectors[pairs[0]] - vectors[pairs[1]], axis=1)[pairs[0] != pairs[1]])
