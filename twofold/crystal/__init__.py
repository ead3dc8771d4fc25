"""Crystals: relaxation as a world for TD3, and an ASE optimiser that needs few force calls."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from twofold.crystal.menu import COMMANDS
from twofold.settings.domains import Domain

if TYPE_CHECKING:
    from twofold.crystal.calculators import make_calculator
    from twofold.crystal.compare import compare
    from twofold.crystal.relaxer import TD3Relaxer
    from twofold.crystal.spring import SpringSettings, SpringStep

__all__ = ["DOMAIN", "SpringSettings", "SpringStep", "TD3Relaxer", "compare", "make_calculator"]

_PARTS = ("displacements", "graphs", "networks", "world")
DOMAIN = Domain(
    name="crystal",
    about="crystals: an ASE optimiser that needs few force calls, and its worlds",
    parts=tuple(f"twofold.crystal.{part}" for part in _PARTS),
    presets=Path(__file__).resolve().parent / "conf",
    commands=COMMANDS,
    packages=("ase", "matscipy", "scipy", "chgnet", "mace-torch", "tblite"),
    extra="crystal",
)
_HOMES = {
    "TD3Relaxer": "relaxer",
    "SpringSettings": "spring",
    "SpringStep": "spring",
    "make_calculator": "calculators",
    "compare": "compare",
}


def __getattr__(name: str) -> object:
    """Imported when first used."""
    import importlib

    if name not in _HOMES:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(importlib.import_module(f"twofold.crystal.{_HOMES[name]}"), name)
