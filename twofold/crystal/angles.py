"""Angles between neighbouring bonds: the stiffness that a pair potential lacks where bonds are directed."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from twofold.core.experience import Array
from twofold.crystal.bonds import Bonds, Matrix

SHELL = 1.3  # natural lengths up to which a neighbour is bonded
STRAIGHT = 0.15  # sine of an angle below which it bends in two directions


def angle_hessian(bonds: Bonds, stiffness: Array, share: float) -> Matrix:
    """Springs on the angles between bonds, sparse [3 rows, 3 rows].

    An angle is as stiff as its bonds [E], of their geometric mean a `share`, at their length.
    """
    ends, size = _Ends(bonds, stiffness), 3 * bonds.frame.rows
    bends = [ends.bend(first, second) for first, second in ends.pairs()]
    if not bends:
        return sparse.csr_array((size, size))
    changes = sparse.vstack([change for change, _ in bends], format="csr")
    weights = sparse.diags_array(share * np.concatenate([strength for _, strength in bends]))
    hessian: Matrix = (changes.T @ weights @ changes).tocsr()
    return hessian


class _Ends:
    """Every bond of the first shell seen from both of its atoms."""

    def __init__(self, bonds: Bonds, stiffness: Array) -> None:
        near = np.flatnonzero(bonds.distance < SHELL * bonds.length)
        self.frame = bonds.frame
        self.centre = np.concatenate([bonds.i[near], bonds.j[near]])
        order = np.argsort(self.centre, kind="stable")
        self.centre = self.centre[order]
        self.other = np.concatenate([bonds.j[near], bonds.i[near]])[order]
        self.vector = np.concatenate([bonds.vector[near], -bonds.vector[near]])[order]
        self.distance = np.tile(bonds.distance[near], 2)[order]
        self.unit = self.vector / self.distance[:, None]
        self.strength = np.maximum(np.tile(stiffness[near], 2)[order], 0.0) * self.distance**2  # eV

    def pairs(self) -> list[tuple[Array, Array]]:
        """Every two ends at one atom, atoms of equal coordination together."""
        _, first, counts = np.unique(self.centre, return_index=True, return_counts=True)
        found = []
        for count in np.unique(counts[counts > 1]):
            ends = first[counts == count][:, None] + np.arange(count)
            one, other = np.triu_indices(count, 1)
            found.append((ends[:, one].ravel(), ends[:, other].ravel()))
        return found

    def bend(self, first: Array, second: Array) -> tuple[Matrix, Array]:
        """How the angles between these ends change with the coordinates [m, 3 rows], and their stiffness (eV)."""
        u, v = self.unit[first], self.unit[second]
        cosine = (u * v).sum(axis=1).clip(-1, 1)
        sine = np.sqrt(1 - cosine**2)
        bent = sine > STRAIGHT
        away = (cosine[:, None] * u - v)[bent] / sine[bent, None]
        back = (cosine[:, None] * v - u)[bent] / sine[bent, None]
        normals = perpendicular(u[~bent])
        toward = np.concatenate([away, *normals])
        turned = np.concatenate([back, *(-np.sign(cosine[~bent])[:, None] * n for n in normals)])
        first = np.concatenate([first[bent], first[~bent], first[~bent]])
        second = np.concatenate([second[bent], second[~bent], second[~bent]])
        strength = np.sqrt(self.strength[first] * self.strength[second])
        return self._changes([(first, toward), (second, turned)]), strength

    def _changes(self, parts: list[tuple[Array, Array]]) -> Matrix:
        """Rows of first derivatives: each part turns an end by a unit vector's worth, over its length."""
        number, size = len(parts[0][0]), 3 * self.frame.rows
        row, column, value = [], [], []
        three = np.arange(3)
        for ends, direction in parts:
            slope = direction / self.distance[ends][:, None]
            inner = slope @ self.frame.deformation if self.frame.cell_factor else slope
            for atom, sign in ((self.other[ends], 1.0), (self.centre[ends], -1.0)):
                column.append((3 * atom[:, None] + three).ravel())
                value.append(sign * inner.ravel())
                row.append(np.repeat(np.arange(number), 3))
            if self.frame.cell_factor:
                cell = slope[:, :, None] * self.vector[ends][:, None, :] / self.frame.cell_factor
                column.append(np.tile(np.arange(size - 9, size), number))
                value.append(cell.ravel())
                row.append(np.repeat(np.arange(number), 9))
        place = np.concatenate(row), np.concatenate(column)
        return sparse.coo_array((np.concatenate(value), place), shape=(number, size)).tocsr()


def perpendicular(unit: Array) -> tuple[Array, Array]:
    """Two unit vectors [m, 3] at right angles to each given one and to each other."""
    axis = np.eye(3)[np.abs(unit).argmin(axis=1)] if len(unit) else np.zeros((0, 3))
    one = np.cross(unit, axis)
    one /= np.maximum(np.linalg.norm(one, axis=1, keepdims=True), 1e-12)
    return one, np.cross(unit, one)
