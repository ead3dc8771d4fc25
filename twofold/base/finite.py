"""Non-finite values: the name of the first array that holds one."""

from __future__ import annotations

import numpy as np

from twofold.base import tree


def first_bad(**trees: object) -> str | None:
    """The path of the first array that holds a NaN or an infinity, such as 'obs' or 'next_obs.position'."""
    for name, branch in trees.items():
        if isinstance(branch, np.ndarray):  # the common case, without walking
            if branch.dtype.kind == "f" and not np.isfinite(branch).all():
                return name
            continue
        for path, leaf in tree.items(branch, name):
            if leaf.dtype.kind == "f" and not np.isfinite(leaf).all():
                return path
    return None
