"""Bounds of the values that targets bootstrap from."""

from __future__ import annotations

import torch
from torch import Tensor

from twofold.core.protocols import State


class Bounds:
    """Extremes of all targets so far; those at the last take-over bound the values of new targets.

    TD7 (Fujimoto et al. 2023): a value above every target so far is an extrapolation, not knowledge.
    """

    def __init__(self) -> None:
        self.seen: tuple[float, float] | None = None
        self.held: tuple[float, float] | None = None  # nothing is bounded before the first take-over

    def clip(self, target: Tensor, reward: Tensor, kept: Tensor) -> Tensor:
        """r + kept clip(v) from target = r + kept v [B], where kept >= 0 is the discount, 0 at ends."""
        if self.held is not None:
            low, high = (torch.add(reward, kept, alpha=bound) for bound in self.held)
            target = torch.clamp(target, low, high)
        least, most = (float(extreme) for extreme in torch.aminmax(target))
        before = self.seen or (least, most)
        self.seen = (min(before[0], least), max(before[1], most))
        return target

    def take_over(self) -> None:
        """From now on the extremes seen so far are the bounds."""
        self.held = self.seen

    def state_dict(self) -> State:
        return {"seen": _listed(self.seen), "held": _listed(self.held)}

    def load_state_dict(self, state: State) -> None:
        self.seen, self.held = _pair(state["seen"]), _pair(state["held"])


def _listed(pair: tuple[float, float] | None) -> list[float] | None:
    return None if pair is None else list(pair)


def _pair(listed: list[float] | None) -> tuple[float, float] | None:
    return None if listed is None else (float(listed[0]), float(listed[1]))
