"""Rewards for a relaxation: the four of the reference, and one that does not depend on the size of the forces."""

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
    log_after = float(np.log10(max(after, 1e-12)))
    if name == "force":
        return -after
    if name == "log_force":
        return -log_after
    if name == "step":
        return float(done) - 1.0
    if name == "hybrid":
        return -weights[0] * after - weights[1] * log_after + weights[2] * (float(done) - 1.0)
    fall = float(np.log10(max(before, 1e-12))) - log_after
    return float(np.clip(fall, -1.0, 1.0)) - cost + float(done)
