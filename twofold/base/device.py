"""Where tensors live."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from twofold.base.errors import ConfigError

if TYPE_CHECKING:
    import torch

DeviceName = Literal["cpu", "auto", "cuda", "mps"]


@runtime_checkable
class Placed(Protocol):
    """Networks that a learner can put on any device."""

    place: torch.device


def device_of(name: DeviceName) -> torch.device:
    """The device that a setting names; one that torch does not have here is refused, never replaced."""
    import torch

    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    chosen = next(kind for kind in there if there[kind]) if name == "auto" else name
    if not there[chosen]:
        raise ConfigError(f"device={name}: torch {torch.__version__} finds no such device here; use cpu")
    return torch.device(chosen)


def put(networks: object, name: DeviceName) -> None:
    """Tell networks where their learner computes; those that know of the CPU alone are left there, or refused."""
    place = device_of(name)
    if isinstance(networks, Placed):
        networks.place = place
    elif place.type != "cpu":
        raise ConfigError(f"device={name}: {type(networks).__name__} run on the CPU alone; use cpu")


def check_cpu(place: torch.device, what: str) -> None:
    """Refuse another device for what is written for the CPU alone."""
    if place.type != "cpu":
        raise ConfigError(f"device={place.type}: {what} on the CPU alone; use cpu")
