"""What replay holds: an item is a dataclass of arrays, a batch is the same dataclass with one more axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

import gymnasium as gym
import numpy as np

from twofold.base.errors import WorldError
from twofold.base.foreign import AnySpace
from twofold.base.values import Array as Array

Obs = Array | dict[str, Array]  # [N, ...], or several such by name
Item = TypeVar("Item")  # what replay holds: a dataclass of arrays


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


@dataclass(frozen=True)
class Written(Generic[Item]):
    """Items that are complete, stacked, and where they come from."""

    items: Item  # [K, ...]
    row: Array  # [K]: the row whose episode it belongs to; items of one row come in the order of its steps
    last: Array  # [K] bool: the last item of its episode


def named(obs: Obs) -> dict[str, Array]:
    """The observation of a world whose observations have names."""
    if not isinstance(obs, dict):
        raise WorldError(f"observations with names were expected, this world gives an array {obs.shape}")
    return obs


def blank_like(space: AnySpace, rows: int = 0) -> Obs:
    """Zeros of a Gymnasium space with a first axis of `rows`; dict spaces give dicts."""
    if isinstance(space, gym.spaces.Dict):
        return {key: _blank(sub, rows) for key, sub in space.spaces.items()}
    return _blank(space, rows)


def _blank(space: AnySpace, rows: int) -> Array:
    if space.shape is None:
        raise WorldError(
            f"a space {space} has no fixed shape: arrays, or a flat dictionary of arrays, are needed"
        )
    return np.zeros((rows, *space.shape), space.dtype)


def rescale(action: Array, low: Array, high: Array) -> Array:
    """From [-1, 1] to a world's own bounds, per dimension."""
    real: Array = (low + (action + 1) * 0.5 * (high - low)).astype(np.float32)
    return real
