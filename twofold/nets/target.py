"""Target networks: slow copies of the trained ones."""

from __future__ import annotations

import copy
from typing import TypeVar

from torch import nn

from twofold.nets.flat import Flat

ModuleT = TypeVar("ModuleT", bound=nn.Module)


def track(target: Flat, online: Flat, tau: float) -> None:
    """Move the target a share `tau` of the way to the online values."""
    target.values.lerp_(online.values, tau)


def copy_of(module: ModuleT) -> ModuleT:
    """An independent copy that holds no gradients and asks for none."""
    duplicate = copy.deepcopy(module)
    for parameter in duplicate.parameters():
        parameter.grad = None
        parameter.requires_grad_(False)
    return duplicate
