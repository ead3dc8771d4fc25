"""Values that change with progress: constant, linear, exponential, with a floor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from twofold.core.errors import ConfigError


@dataclass(frozen=True)
class Schedule:
    """`start`, then linearly or exponentially towards `end`, reached after `over` units of progress."""

    kind: Literal["constant", "linear", "exponential"] = "constant"
    start: float = 0.1
    end: float = 0.1  # the floor: never below, so noise does not vanish by accident
    over: float = 1.0  # units of progress (steps, episodes or updates) until `end`

    def __post_init__(self) -> None:
        if self.over <= 0:
            raise ConfigError(f"a schedule's `over` must be positive, got {self.over}")
        if self.kind == "exponential" and not (self.start > 0 and self.end > 0):
            raise ConfigError("an exponential schedule needs start and end above 0")

    def __call__(self, progress: float) -> float:
        if self.kind == "constant":
            return self.start
        done = min(max(progress / self.over, 0.0), 1.0)
        if self.kind == "linear":
            return self.start + (self.end - self.start) * done
        return float(self.start * (self.end / self.start) ** done)
