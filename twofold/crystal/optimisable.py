"""What ASE can optimise, looked into: the atoms inside, their cell, and what tells one from another."""

from __future__ import annotations

import numpy as np
from ase import Atoms
from ase.filters import Filter, OptimizableFilter, StrainFilter, UnitCellFilter
from ase.optimize.optimize import OptimizableAtoms

from twofold.core.experience import Array
from twofold.crystal.motion import Optimisable
from twofold.crystal.structures import BadStructure


def unwrapped(atoms: Optimisable) -> Optimisable:
    """What an optimizable is made of: BasinHopping hands its optimiser one in place of atoms."""
    if isinstance(atoms, OptimizableAtoms):
        return atoms.atoms
    atoms = atoms.filterobj if isinstance(atoms, OptimizableFilter) else atoms
    if isinstance(atoms, (UnitCellFilter, StrainFilter)) and atoms_of(atoms).cell.rank < 3:
        raise BadStructure("cannot relax the cell of this structure: it has none in three dimensions")
    return atoms


def atoms_of(atoms: Optimisable) -> Atoms:
    """The atoms inside of what is optimised."""
    while not isinstance(atoms, Atoms):
        atoms = atoms.atoms
    return atoms


def identity(atoms: Optimisable) -> str:
    """What a restart file must agree with: the kind of thing, its atoms in their order, the boundary conditions."""
    if not isinstance(atoms, (Atoms, Filter)):
        return f"{type(atoms).__name__} of {len(atoms)} rows"
    inner = atoms_of(atoms)
    kind = "" if isinstance(atoms, Atoms) else f"{type(atoms).__name__} of "
    return f"{kind}{inner.get_chemical_formula('reduce')}, pbc {inner.pbc.astype(int).tolist()}"


def cell_of(atoms: Optimisable) -> Array:
    """The cell [3, 3] that coordinates belong to: the atoms' own, or the one that a filter measures strain from."""
    if isinstance(atoms, (UnitCellFilter, StrainFilter)):
        return np.array(atoms.orig_cell if isinstance(atoms, UnitCellFilter) else atoms.origcell)
    return atoms_of(atoms).cell.array.copy() if isinstance(atoms, (Atoms, Filter)) else np.zeros((3, 3))
