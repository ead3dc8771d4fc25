"""Networks and what moves their weights; imported when first used, because `numpy_mlp` serves where torch is not."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from twofold.nets.flat import Adam, Flat
    from twofold.nets.mlp import MLP
    from twofold.nets.target import copy_of, track
    from twofold.nets.twin import Twin

__all__ = ["MLP", "Adam", "Flat", "Twin", "copy_of", "track"]
_HOMES = {
    "MLP": "mlp",
    "Adam": "flat",
    "Flat": "flat",
    "Twin": "twin",
    "copy_of": "target",
    "track": "target",
}


def __getattr__(name: str) -> object:
    """Imported when first used."""
    if name not in _HOMES:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(importlib.import_module(f"twofold.nets.{_HOMES[name]}"), name)
