"""The bonds of a crystal, each once, and how generalised coordinates (atoms, perhaps the cell) stretch them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from ase import Atoms
from ase.data import covalent_radii
from matscipy.neighbours import neighbour_list
from scipy import sparse

from twofold.core.experience import Array

Matrix = Any  # Any: a numpy array or a scipy sparse array: scipy has no type for both, nor types at all


@dataclass(frozen=True)
class Frame:
    """What an optimiser moves: `atoms`, and the cell too when `cell_factor` is above 0.

    Coordinates are rows of 3: one per atom (in the undeformed cell, as in ASE's cell filters), then three rows that
    hold `cell_factor` times the deformation (or its logarithm).
    """

    atoms: Atoms
    deformation: Array = field(default_factory=lambda: np.eye(3))  # [3, 3]
    cell_factor: float = 0.0

    @property
    def rows(self) -> int:
        return len(self.atoms) + (3 if self.cell_factor > 0 else 0)


def neighbours(quantities: str, atoms: Atoms, cutoff: float) -> tuple[Array, ...]:
    """matscipy's neighbour list, also for molecules and slabs whose cell is not complete."""
    found = neighbour_list(
        quantities, positions=atoms.positions, cell=atoms.cell.complete(), pbc=atoms.pbc, cutoff=cutoff
    )
    return found if isinstance(found, tuple) else (found,)


def length_scale(atoms: Atoms, smallest: float, largest: float = 1.4) -> float:
    """Typical first-neighbour distance in units of the sum of covalent radii; bounded, for squeezed starts."""
    radii = covalent_radii[atoms.numbers]
    nearest = np.full(len(atoms), np.inf)
    i, j, distance = neighbours("ijd", atoms, 2 * largest * float(radii.max()))
    np.minimum.at(nearest, i, distance / (radii[i] + radii[j]))
    found = nearest[np.isfinite(nearest)]
    return float(np.clip(np.median(found), smallest, largest)) if len(found) else 1.0


@dataclass(frozen=True)
class Bonds:
    """E bonds i-j with their vectors; `length` is the natural one; `kind` numbers the pairs of elements."""

    frame: Frame
    i: Array  # [E]
    j: Array
    vector: Array  # [E, 3], from i to j
    distance: Array  # [E]
    length: Array  # [E]
    kind: Array  # [E] in 0..kinds-1
    kinds: int

    @property
    def unit(self) -> Array:
        return self.vector / self.distance[:, None]

    def stretched(self, displacement: Array) -> Array:
        """Bond vectors [E, 3] after a displacement [rows, 3] of the coordinates (first order in the cell)."""
        atoms = displacement[: len(self.frame.atoms)]
        change = atoms[self.j] - atoms[self.i]
        after: Array = self.vector + change
        if self.frame.cell_factor == 0:
            return after
        strain = displacement[-3:] / self.frame.cell_factor
        after = self.vector + change @ self.frame.deformation.T + self.vector @ strain.T
        return after

    def pull(self, tension: Array) -> Array:
        """Generalised forces [..., rows, 3] of bonds that pull with vectors `tension` [..., E, 3] from i to j."""
        number = len(self.frame.atoms)
        out = np.empty((*tension.shape[:-2], self.frame.rows, 3))
        kinds = int(np.prod(tension.shape[:-2]))
        flat, result = tension.reshape(kinds, *tension.shape[-2:]), out.reshape(kinds, self.frame.rows, 3)
        for k, axis in np.ndindex(len(flat), 3):
            along = flat[k, :, axis]
            result[k, :number, axis] = np.bincount(self.i, along, number) - np.bincount(self.j, along, number)
        if self.frame.cell_factor > 0:
            result[:, :number] = result[:, :number] @ self.frame.deformation
            result[:, number:] = -np.einsum("kea,eb->kab", flat, self.vector) / self.frame.cell_factor
        return out

    def hessian(self, along: Array, across: Array, dense: bool) -> Matrix:
        """Second derivatives of springs `along` and `across` each bond: [3 rows, 3 rows], dense or sparse."""
        unit, number = self.unit, len(self.frame.atoms)
        block = (along - across)[:, None, None] * (unit[:, :, None] * unit[:, None, :])
        block += across[:, None, None] * np.eye(3)
        if self.frame.cell_factor == 0:
            return self._atoms(block, dense)
        turn = self.frame.deformation
        atoms = self._atoms(np.einsum("ac,eab,bd->ecd", turn, block, turn), dense)
        arm: Array = self.vector / self.frame.cell_factor
        mixed = np.einsum("ac,eab,ed->ecbd", turn, block, arm).reshape(-1, 3, 9)
        border = np.zeros((number, 3, 9))
        np.add.at(border, self.j, mixed)
        np.subtract.at(border, self.i, mixed)
        edge = border.reshape(3 * number, 9)
        corner = np.einsum("eab,ec,ed->acbd", block, arm, arm).reshape(9, 9)
        if dense:
            return np.block([[atoms, edge], [edge.T, corner]])
        whole: Matrix = sparse.block_array([[atoms, sparse.csr_array(edge)], [edge.T, corner]], format="csr")
        return whole

    def _atoms(self, block: Array, dense: bool) -> Matrix:
        number = len(self.frame.atoms)
        row = np.concatenate([self.i, self.j, self.i, self.j])
        column = np.concatenate([self.j, self.i, self.i, self.j])
        blocks = np.concatenate([-block, -block, block, block])
        if dense:
            out = np.zeros((number * number, 9))
            cell = row * number + column
            for entry, values in enumerate(blocks.reshape(-1, 9).T):
                out[:, entry] = np.bincount(cell, values, number * number)
            return out.reshape(number, number, 3, 3).transpose(0, 2, 1, 3).reshape(3 * number, 3 * number)
        three = np.arange(3)
        rows = np.broadcast_to(3 * row[:, None, None] + three[:, None], blocks.shape).ravel()
        columns = np.broadcast_to(3 * column[:, None, None] + three, blocks.shape).ravel()
        found: Matrix = sparse.coo_array((blocks.ravel(), (rows, columns)), shape=(3 * number,) * 2).tocsr()
        return found


def find_bonds(frame: Frame, scale: float, reach: float) -> Bonds:
    """All bonds up to `reach` natural lengths; natural = `scale` x the sum of the covalent radii."""
    atoms, radii = frame.atoms, covalent_radii[frame.atoms.numbers]
    i, j, vector, distance, shift = neighbours("ijDdS", atoms, 2 * reach * scale * float(radii.max()))
    length = scale * (radii[i] + radii[j])
    # Each bond comes twice; of an atom's bond to its own image one direction is kept, and only the cell stretches it.
    first = np.where(shift[:, 0] != 0, shift[:, 0], np.where(shift[:, 1] != 0, shift[:, 1], shift[:, 2]))
    once = (i < j) | ((i == j) & (first > 0) & (frame.cell_factor > 0))
    keep = once & (distance < reach * length)
    _, element = np.unique(atoms.numbers, return_inverse=True)
    low, high = np.minimum(element[i], element[j])[keep], np.maximum(element[i], element[j])[keep]
    elements = int(element.max()) + 1
    kind = high * (high + 1) // 2 + low
    return Bonds(
        frame,
        i[keep],
        j[keep],
        vector[keep],
        distance[keep],
        length[keep],
        kind,
        elements * (elements + 1) // 2,
    )
