"""Non-finite values: the name of the first array that holds one, and its row."""

from __future__ import annotations

import math

import numpy as np

from twofold.base import tree
from twofold.base.values import Array


def first_bad(**trees: object) -> str | None:
    """The path of the first array that holds a NaN or an infinity, such as 'obs' or 'next_obs.position'."""
    for name, branch in trees.items():
        if isinstance(branch, np.ndarray):  # the common case, without walking
            if branch.dtype.kind == "f" and not _is_finite(branch):
                return name
            continue
        for path, leaf in tree.items(branch, name):
            if leaf.dtype.kind == "f" and not _is_finite(leaf):
                return path
    return None


def first_bad_row(**trees: object) -> str | None:
    """The same of arrays [N, ...], with the row: 'obs of row 3'."""
    bad = first_bad(**trees)
    if bad is None:
        return None
    array = next(
        leaf for name, branch in trees.items() for path, leaf in tree.items(branch, name) if path == bad
    )
    rows = np.isfinite(array).reshape(len(array), -1).all(axis=1)
    return f"{bad} of row {int(np.argmin(rows))}"


def _is_finite(array: Array) -> bool:
    # One product keeps every NaN and infinity, at a third of the price; where it overflows, look at each number.
    return math.isfinite(np.vdot(array, array)) or bool(np.isfinite(array).all())
