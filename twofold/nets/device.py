"""Where tensors live."""

from __future__ import annotations

from typing import Literal

import torch

from twofold.base.errors import ConfigError

CPU = torch.device("cpu")
DeviceName = Literal["cpu", "auto", "cuda", "mps"]


def device_of(name: DeviceName) -> torch.device:
    """The device that a setting names; one that torch does not have here is refused, never replaced."""
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    chosen = next(kind for kind in there if there[kind]) if name == "auto" else name
    if not there[chosen]:
        raise ConfigError(
            f"learner.device={name}: torch {torch.__version__} finds no such device here; use cpu"
        )
    return torch.device(chosen)


def check_cpu(name: DeviceName, what: str) -> None:
    """Refuse another device for what is written for the CPU alone."""
    if device_of(name).type != "cpu":
        raise ConfigError(f"learner.device={name}: {what} on the CPU alone; use cpu")
