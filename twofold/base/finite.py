"""Non-finite values: the name of the first array that holds one, and its row."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from twofold.base import tree
from twofold.base.values import Array


def first_bad(**trees: object) -> str | None:
    """The path of the first array that holds a NaN or an infinity, such as 'obs' or 'next_obs.position'."""
    return next((path for path, _ in _bad(trees)), None)


def first_bad_row(**trees: object) -> str | None:
    """The same of arrays [N, ...], with the row: 'obs of row 3'."""
    for path, leaf in _bad(trees):
        rows = np.isfinite(leaf).reshape(len(leaf), -1).all(axis=1)
        return f"{path} of row {int(np.argmin(rows))}"
    return None


def _bad(trees: dict[str, object]) -> Iterator[tuple[str, Array]]:
    for name, branch in trees.items():
        if isinstance(branch, np.ndarray):  # the common case, without walking
            if branch.dtype.kind == "f" and not _is_finite(branch):
                yield name, branch
            continue
        for path, leaf in tree.items(branch, name):
            if leaf.dtype.kind == "f" and not _is_finite(leaf):
                yield path, leaf


def _is_finite(array: Array) -> bool:
    # One product keeps every NaN and infinity, at a third of the price; where it overflows, look at each number.
    return math.isfinite(np.vdot(array, array)) or bool(np.isfinite(array).all())
