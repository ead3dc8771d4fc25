"""Which settings are searched, and where: `log 1e-5..1e-2`, `0.9..0.999`, `int 1..8`, `256,256|512,512`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from twofold.base.errors import ConfigError, UserError
from twofold.settings.config import Resolved, layers_for, resolve
from twofold.settings.presets import parse_value

Value = object  # of a setting: what YAML can hold
_NUMBER = r"[-+]?[0-9][0-9_]*\.?[0-9]*(?:[eE][-+]?[0-9]+)?|[-+]?\.[0-9]+(?:[eE][-+]?[0-9]+)?"
_RANGE = re.compile(rf"(?:(log|int)\s+)?({_NUMBER})\.\.({_NUMBER})")


@dataclass(frozen=True)
class Span:
    """Numbers between two ends."""

    low: float
    high: float
    scale: Literal["linear", "log", "int"]

    def ends(self) -> tuple[Value, ...]:
        return (int(self.low), int(self.high)) if self.scale == "int" else (self.low, self.high)


@dataclass(frozen=True)
class Choice:
    """One of several values; Optuna knows them by their texts."""

    texts: tuple[str, ...]

    def ends(self) -> tuple[Value, ...]:
        return tuple(parse_value(text) for text in self.texts)


Axis = Span | Choice


def parse_axis(key: str, text: str) -> Axis | None:
    """The axis that a typed value asks for; None if it is a plain value."""
    if "|" in text:
        texts = tuple(part.strip() for part in text.split("|"))
        if len(set(texts)) < len(texts) or not all(texts):
            raise UserError(f"{key}={text}: choices must be different and not empty, such as 'relu|elu'")
        return Choice(texts)
    match = _RANGE.fullmatch(text.strip())
    if match is None:
        if ".." in text:
            raise UserError(f"{key}={text}: write 'log 1e-5..1e-2', '0.9..0.999' or 'int 1..8'")
        return None
    scale, low, high = match[1] or "linear", float(match[2]), float(match[3])
    if not low < high or (scale == "log" and low <= 0) or (scale == "int" and low % 1 + high % 1):
        raise UserError(f"{key}={text}: from a smaller to a larger number (above 0 for log, whole for int)")
    return Span(low, high, "log" if scale == "log" else "int" if scale == "int" else "linear")


@dataclass(frozen=True)
class Space:
    """All axes by setting, and what is fixed for every trial."""

    config: str
    env_config: str
    axes: Mapping[str, Axis]
    fixed: Mapping[str, Value]

    def resolved(self, values: Mapping[str, Value]) -> Resolved:
        return resolve(layers_for(self.config, self.env_config, {**self.fixed, **values}))

    def check(self) -> None:
        """Refuse a range whose ends no run could have, before anything starts."""
        self.resolved({})
        for key, axis in self.axes.items():
            for value in axis.ends():
                try:
                    self.resolved({key: value})
                except ConfigError as error:
                    raise ConfigError(
                        f"the sweep of {key} reaches a value that is refused: {error}"
                    ) from None


def make_space(config: str, env_config: str, typed: Mapping[str, str]) -> Space:
    """What was typed, taken apart into axes and fixed settings; all of it is checked."""
    axes = {key: axis for key, text in typed.items() if (axis := parse_axis(key, text)) is not None}
    if not axes:
        raise UserError("nothing to search: give a range, such as learner.actor_lr='log 1e-5..1e-2'")
    if "seed" in typed:
        raise UserError("a sweep chooses the seeds of its runs: give --final=N and --seed=N (of the search)")
    fixed = {key: parse_value(text) for key, text in typed.items() if key not in axes}
    space = Space(config, env_config, axes, fixed)
    space.check()
    return space
