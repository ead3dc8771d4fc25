"""Questions to a recommender, and its answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from twofold.recsys.data import Array

Entry = str | int | tuple[str | int, float] | list[str | int | float]  # an item, or an item and its rating


@dataclass(frozen=True)
class Recommendation:
    """One recommended item."""

    item: int
    name: str  # as in the data
    title: str  # what a person is shown
    value: float  # the smaller critic's value of showing it now (discounted, relative to the user's level)
    expected_rating: float  # by the user model and the given history, on the scale of the data
    reasons: tuple[str, ...]  # the item's features that lift the expectation


@dataclass(frozen=True)
class Lists:
    """Recommendations for many users, best first; -1 where nothing is left to recommend."""

    items: Array  # int64 [N, k]
    values: Array  # float32 [N, k]
    expected: Array  # float32 [N, k]
    known: Array  # bool [N]: whether the user is in the data


@dataclass(frozen=True)
class Changes:
    """How today's catalogue differs from the one that a policy was trained on."""

    new: tuple[str, ...]  # cannot be recommended until a policy is trained with them
    gone: tuple[str, ...]  # are not recommended any more

    def text(self) -> str:
        lines = [f"{len(self.new)} items are new and cannot be recommended yet: {_some(self.new)}"] * bool(
            self.new
        )
        lines += [f"{len(self.gone)} items are gone and are left out: {_some(self.gone)}"] * bool(self.gone)
        return "\n".join(lines) or "the catalogue is the one that the policy was trained on"


def _some(names: Sequence[str], most: int = 5) -> str:
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")


@dataclass(frozen=True)
class Question:
    """Who asks, and what may be shown: names as in the data."""

    user: str | int | None = None
    history: Sequence[Entry] = ()
    repeats: bool = False  # items of the history may come again
    rated: bool = False  # items that the user rated in the data may come again
    without: Sequence[str] = ()  # further items that must not come


def padded(rows: Sequence[Array]) -> Array:
    """Rows of different lengths as one array [N, longest], -1 pads."""
    found: Array = np.full((len(rows), max(map(len, rows), default=0)), -1, np.int64)
    for row, values in enumerate(rows):
        found[row, : len(values)] = values
    return found


def stretched(rows: Sequence[Sequence[float]]) -> Array:
    """Rows of different lengths as one array, each filled up with its last value."""
    longest = max(map(len, rows), default=0)
    filled = [[*row, *[row[-1]] * (longest - len(row))] for row in rows]
    return np.array(filled, np.float64).reshape(len(rows), longest)
