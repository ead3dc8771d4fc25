"""Crystals: relaxation as a world for TD3, and an ASE optimiser that needs few force calls."""

from __future__ import annotations

from typing import Any

from twofold.crystal import displacements, graphs, networks, reference, world

__all__ = [
    "SpringSettings",
    "SpringStep",
    "TD3Relaxer",
    "compare",
    "displacements",
    "graphs",
    "make_calculator",
    "networks",
    "reference",
    "world",
]

_HOMES = {
    "TD3Relaxer": "relaxer",
    "SpringSettings": "spring",
    "SpringStep": "spring",
    "make_calculator": "calculators",
    "compare": "compare",
}


def __getattr__(name: str) -> Any:
    """Imported when first used."""
    import importlib

    if name not in _HOMES:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
