"""Rewards for a relaxation: the four of Trukhan et al. (arXiv 2502.08405), and one free of the forces' scale."""

from __future__ import annotations

from typing import Literal

import numpy as np

RewardName = Literal["force", "log_force", "step", "hybrid", "scale_free"]


def reward(
    name: RewardName,
    before: float,
    after: float,
    done: bool,
    weights: tuple[float, float, float],
    cost: float,
) -> float:
    """The reward of one step that took the largest force from `before` to `after` (eV/A)."""
    if name == "force":
        return -after
    if name == "log_force":
        return -_log(after)
    if name == "step":
        return float(done) - 1.0
    if name == "hybrid":
        return -weights[0] * after - weights[1] * _log(after) + weights[2] * (float(done) - 1.0)
    return scale_free(before, after, done, cost)


def scale_free(before: float, after: float, done: bool, cost: float) -> float:
    """The decades by which the largest force fell, less the cost of a call, and one for the end."""
    return float(np.clip(_log(before) - _log(after), -1.0, 1.0)) - cost + float(done)


def telescoped(before: float, after: float, eps: float, done: bool, cost: float) -> float:
    """The same with forces below `eps` as `eps`: the sum over an episode depends on its start and its calls alone.

    `scale_free` also pays for an end far below `eps`, and a decade a step at most. Of a rise two decades count.
    """
    fallen = _log(max(before, eps)) - _log(max(after, eps))
    return max(fallen, -2.0) - cost + float(done)


def _log(force: float) -> float:
    return float(np.log10(max(force, 1e-12)))
