"""What replay holds: an item is a dataclass of arrays, a batch is the same dataclass with one more axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Obs = Any  # an array [N, ...] or a nested dict of such arrays


@dataclass(frozen=True)
class Steps:
    """One step of N rows, as the collector saw it."""

    obs: Obs
    action: Array
    reward: Array  # [N]
    next_obs: Obs  # the true next observation, also where the episode ended
    terminated: Array  # [N] bool; the world really ended
    truncated: Array  # [N] bool; cut short (time limit, stop): the value goes on
    valid: Array  # [N] bool; False where a broken worker made this step meaningless


@dataclass(frozen=True)
class Transition:
    """TD3's item."""

    obs: Obs
    action: Array
    reward: Array  # the discounted sum of up to n rewards
    next_obs: Obs
    terminated: Array  # 1 only where the world really ended; a time limit is not an end
    discount: Array  # gamma ** (number of rewards in the sum)


def blank_like(space: Any, rows: int = 0) -> Any:
    """Zeros of a Gymnasium space with a first axis of `rows`; dict spaces give dicts."""
    if hasattr(space, "spaces") and isinstance(space.spaces, dict):
        return {key: blank_like(sub, rows) for key, sub in space.spaces.items()}
    return np.zeros((rows, *space.shape), space.dtype)
