"""What users would rate: a full matrix, or factors where a matrix would not fit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from twofold.recsys.data import Array

MOST_CELLS = 200_000_000  # of all drawn tables of a user model together


@dataclass(frozen=True)
class Matrix:
    """Ratings by look-up; `values` is [users, items]."""

    values: Array

    @property
    def shape(self) -> tuple[int, int]:
        return self.values.shape[0], self.values.shape[1]

    def at(self, users: Array, items: Array) -> Array:
        return self.values[users, items]

    def rows(self, users: Array) -> Array:
        """All items for these users [n, items]."""
        return self.values[users]

    def item_vectors(self) -> Array:
        """Vectors whose Euclidean distances are those of the rating columns [items, d]."""
        return np.ascontiguousarray(self.values.T, np.float32)


@dataclass(frozen=True)
class Factors:
    """Ratings as clipped (and rounded) products: user [users, k] . item [items, k]."""

    user: Array
    item: Array
    low: float
    high: float
    rounded: bool = True

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.user), len(self.item)

    def at(self, users: Array, items: Array) -> Array:
        return self._rating(np.einsum("...k,...k->...", self.user[users], self.item[items]))

    def rows(self, users: Array) -> Array:
        return self._rating(self.user[users] @ self.item.T)

    def item_vectors(self) -> Array:
        """Whitened item factors: their distances equal those of the unrounded rating columns."""
        gram = self.user.T.astype(np.float64) @ self.user
        root = np.linalg.cholesky(gram + 1e-9 * np.trace(gram) * np.eye(len(gram)))
        return (self.item @ root).astype(np.float32)

    def _rating(self, raw: Array) -> Array:
        return np.clip(np.round(raw) if self.rounded else raw, self.low, self.high).astype(np.float32)


def moments(rows: Array, inputs: Array, target: Array, count: int) -> tuple[Array, Array]:
    """For each row id the sums of x x' [count, k, k] and of x y [count, k] over its ratings."""
    width = inputs.shape[1]
    gram = np.zeros((count, width, width))
    moment = np.zeros((count, width))
    order = np.argsort(rows, kind="stable")
    starts = np.searchsorted(rows[order], np.arange(count + 1))
    for row in range(count):
        some = order[starts[row] : starts[row + 1]]
        gram[row] = inputs[some].T @ inputs[some]
        moment[row] = inputs[some].T @ target[some]
    return gram, moment


def hashed(*parts: Array | int) -> NDArray[np.uint64]:
    """Well mixed 64-bit integers: randomness that is a pure function of its arguments."""
    state = np.uint64(0x9E3779B97F4A7C15)
    mixed: NDArray[np.uint64] = np.zeros((), np.uint64)
    with np.errstate(over="ignore"):
        for part in parts:
            mixed = (mixed ^ np.asarray(part).astype(np.uint64)) + state
            mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            mixed = mixed ^ (mixed >> np.uint64(31))
    return np.asarray(mixed, np.uint64)


def hashed_uniform(*parts: Array | int) -> Array:
    """Numbers in (0, 1) from arrays of integers."""
    return (hashed(*parts) >> np.uint64(11)).astype(np.float64) * 2.0**-53 + 2.0**-54


def hashed_normal(*parts: Array | int) -> Array:
    """Standard normal numbers from arrays of integers (Box-Muller)."""
    radius = np.sqrt(-2.0 * np.log(hashed_uniform(*parts, 1)))
    return (radius * np.cos(2.0 * np.pi * hashed_uniform(*parts, 2))).astype(np.float32)
