"""Values that change with progress, and spans of time."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from twofold.base.errors import ConfigError
from twofold.base.setting import setting, settings


@settings
class Schedule:
    """A value, or how it moves: `0.1`, `{start: 0.25, end: 0.12, over: 1_200_000}`, `{..., over: 0.8, per: run}`."""

    start: float = setting("initial value; a bare number is a constant", default=0.0)
    end: float | None = setting("final value; null: constant", default=None)
    after: float = setting("where the change starts, in the unit of `per`", default=0.0, ge=0)
    over: float = setting("how long the change takes, in the unit of `per`", default=1_000_000.0, gt=0)
    per: Literal["step", "episode", "update", "run"] = setting(
        "unit of `after` and `over`; run: shares of the run after its warm-up", default="step"
    )
    shape: Literal["linear", "exponential"] = setting("shape of the change", default="linear")

    @model_validator(mode="before")
    @classmethod
    def _bare_number(cls, given: object) -> object:
        return {"start": given} if isinstance(given, (int, float)) and not isinstance(given, bool) else given

    def __post_init__(self) -> None:
        if self.shape == "exponential" and self.end is not None and not (self.start > 0 and self.end > 0):
            raise ConfigError("an exponential schedule needs start and end above 0")
        if self.per == "run" and self.end is not None and self.after + self.over > 1:
            raise ConfigError("with per=run, after and over are shares of the run: at most 1 together")

    def __call__(self, progress: float) -> float:
        """The value after `progress` units of `per`."""
        if self.end is None:
            return self.start
        done = min(max((progress - self.after) / self.over, 0.0), 1.0)
        if self.shape == "linear":
            return self.start + (self.end - self.start) * done
        return float(self.start * (self.end / self.start) ** done)


@settings
class Span:
    """Steps, or what seconds are in steps of the world at hand: `8`, `{seconds: 0.06}`."""

    steps: int = setting("a bare number is this", default=1, ge=1)
    seconds: float | None = setting(
        "of the world's own clock, at least one step; null, or a world without a clock: `steps`",
        default=None,
        gt=0,
    )

    @model_validator(mode="before")
    @classmethod
    def _bare_number(cls, given: object) -> object:
        return {"steps": given} if isinstance(given, int) and not isinstance(given, bool) else given

    def counted(self, step_seconds: float | None) -> Span:
        """In steps of a world whose steps take so long."""
        if self.seconds is None or step_seconds is None:
            return self
        return Span(max(round(self.seconds / step_seconds), 1))
