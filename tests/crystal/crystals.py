"""Crystals that several tests use."""

from __future__ import annotations

import numpy as np
from ase import Atoms
from ase.build import bulk
from ase.calculators.emt import EMT


def rattled(name: str = "Cu", times: int = 1, by: float = 0.1, seed: int = 0) -> Atoms:
    """A disturbed crystal with EMT."""
    atoms = bulk(name, cubic=True).repeat(times)
    atoms.positions += by * np.random.default_rng(seed).standard_normal(atoms.positions.shape)
    atoms.calc = EMT()
    return atoms
