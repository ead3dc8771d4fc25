"""What may move: coordinates that are held still, and directions that ASE's constraints take away."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from ase import Atoms
from ase.constraints import FixAtoms, FixCartesian, FixConstraint, MirrorForce, MirrorTorque
from ase.filters import FrechetCellFilter, UnitCellFilter
from scipy import sparse

from twofold.core.experience import Array
from twofold.crystal.bonds import Frame, Matrix

# Any: Atoms, a filter around them, or a band of images: ASE has no type for all that it can optimise.
Optimisable: TypeAlias = Any
_COORDINATES = (FixAtoms, FixCartesian)
_TURNING = (MirrorForce, MirrorTorque)  # they turn forces around, to go uphill, and take none away


@dataclass(frozen=True)
class Motion:
    """Coordinates that may move, and orthonormal directions of them that must not."""

    free: Array  # [3 rows] bool
    held: Array  # [k, 3 rows], zero where a coordinate is not free

    @classmethod
    def of(cls, atoms: Optimisable) -> Motion:
        """Of Atoms or a cell filter around them, at the present positions."""
        inner: Atoms = atoms if isinstance(atoms, Atoms) else atoms.atoms
        free = np.ones((len(atoms), 3), bool)
        for constraint in inner.constraints:
            if isinstance(constraint, FixAtoms):
                free[constraint.index] = False
            elif isinstance(constraint, FixCartesian):
                free[constraint.index] &= ~constraint.mask
        directions = np.zeros((0, len(atoms), 3))
        taken = _taken(inner)
        if len(taken):
            directions = np.zeros((len(taken), len(atoms), 3))
            directions[:, : len(inner)] = taken
        if isinstance(atoms, UnitCellFilter):
            free[-3:] = np.asarray(atoms.mask) != 0
            directions[:, : len(inner)] = directions[:, : len(inner)] @ np.asarray(atoms.deform_grad())
        flat = free.ravel()
        return cls(flat, _orthonormal(directions.reshape(-1, flat.size) * flat))

    @property
    def everything(self) -> bool:
        """True if nothing is held."""
        return bool(self.free.all()) and not len(self.held)

    def allowed(self, vectors: Array) -> Array:
        """The part of vectors [..., 3 rows] along which something may move."""
        if self.everything:
            return vectors
        kept: Array = np.where(self.free, vectors, 0.0)
        kept = kept - (kept @ self.held.T) @ self.held
        return kept

    def movable(self, matrix: Matrix, stiffness: float) -> Matrix:
        """A matrix over all coordinates as one over the free ones; held directions get this `stiffness`."""
        inside = matrix if self.free.all() else matrix[self.free][:, self.free]
        if not len(self.held):
            return inside
        held = self.held[:, self.free]
        if not isinstance(inside, np.ndarray):
            held = sparse.csr_array(held)
        into = inside @ held.T
        corner = held @ into
        out = inside - into @ held - held.T @ into.T + held.T @ corner @ held
        return out + stiffness * (held.T @ held)


def goes_uphill(atoms: Atoms) -> bool:
    """True if a constraint turns forces around, to find a saddle: the energy may then rise."""
    return any(isinstance(constraint, _TURNING) for constraint in atoms.constraints)


def everything(rows: int) -> Motion:
    """All of `rows` rows of three may move."""
    return Motion(np.ones(3 * rows, bool), np.zeros((0, 3 * rows)))


def _taken(atoms: Atoms) -> Array:
    """Directions [k, atoms, 3] that constraints remove from forces; those that only add forces remove none.

    Constraints are asked by their own `adjust_forces`, which is linear in the forces, so that every kind is known.
    """
    others = [c for c in atoms.constraints if not isinstance(c, (*_COORDINATES, *_TURNING))]
    found = []
    for constraint in copy.deepcopy(others):  # some keep the forces that they took away
        added = _adjusted(constraint, atoms, np.zeros((len(atoms), 3)))
        for atom in _touched(constraint, len(atoms)):
            for axis in range(3):
                unit = np.zeros((len(atoms), 3))
                unit[atom, axis] = 1.0
                found.append(unit - (_adjusted(constraint, atoms, unit) - added))
    return np.array(found) if found else np.zeros((0, len(atoms), 3))


def _adjusted(constraint: FixConstraint, atoms: Atoms, forces: Array) -> Array:
    out = forces.copy()
    constraint.adjust_forces(atoms, out)
    return out


@runtime_checkable
class Indexed(Protocol):
    """A constraint that says which atoms it touches, as most of ASE's do."""

    def get_indices(self) -> Sequence[int]: ...


def _touched(constraint: FixConstraint, atoms: int) -> Array:
    indices = constraint.get_indices() if isinstance(constraint, Indexed) else range(atoms)
    return np.unique(np.asarray(indices, int))


def _orthonormal(vectors: Array) -> Array:
    """An orthonormal basis [k, n] of the space that rows [m, n] span."""
    if not vectors.size:
        return np.zeros((0, vectors.shape[1]))
    _, sizes, rows = np.linalg.svd(vectors, full_matrices=False)
    basis: Array = rows[sizes > 1e-6]
    return basis


def frame_of(atoms: Atoms | UnitCellFilter) -> Frame:
    """What is moved when these are."""
    if isinstance(atoms, Atoms):
        return Frame(atoms)
    factor = atoms.exp_cell_factor if isinstance(atoms, FrechetCellFilter) else atoms.cell_factor
    return Frame(atoms.atoms, np.asarray(atoms.deform_grad()), float(factor))


def permitted(atoms: Optimisable, move: Array) -> Array:
    """The move without what a cell filter forbids: rotation, and shape or volume where it holds them."""
    if isinstance(atoms, UnitCellFilter):
        cell = 0.5 * (move[-3:] + move[-3:].T)
        trace = np.trace(cell) / 3 * np.eye(3)
        if atoms.hydrostatic_strain:
            cell = trace
        if atoms.constant_volume:
            cell = cell - trace
        move[-3:] = cell
    return move
