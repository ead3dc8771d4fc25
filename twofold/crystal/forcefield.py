"""How stiff internal coordinates are before any step: a dozen constants fitted to Hessians (benchmarks/crystal_fit.py).

The stiffness of a bond belongs to the length at which it rests (Badger's rule), not to the one it has in a start.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from ase.data import covalent_radii

from twofold.core.experience import Array
from twofold.crystal.internals import MORSE, Internals


@dataclass(frozen=True)
class Constants:
    """Logarithms are natural, of eV/Angstrom^2 or eV/radian^2; periods count hydrogen as 0 and stop at 2."""

    bond: tuple[float, ...] = (3.6, 3.495, 3.038, 3.255, 2.797, 2.383)  # period pairs 00, 01, 02, 11, 12, 22
    length: tuple[float, ...] = (0.74, 1.09, 1.48, 1.54, 1.8, 2.1)  # Angstrom, where these hold
    order: float = 4.328  # decay of a bond's stiffness per Angstrom
    radius: float = 2.937  # growth with the sum of covalent radii, per Angstrom
    angle: tuple[float, ...] = (1.872, 1.351, 1.259)  # by the number of hydrogens at its ends
    centre: float = -0.406  # of an angle at an atom of the second period of eight, or a later one
    share: float = -0.092  # power of its bonds' stiffness
    straight: float = -0.298
    straight_order: float = 1.133
    # of all torsions around a bond together, by the neighbours (2, 3, 4) of its ends: 22, 23, 24, 33, 34, 44
    torsion: tuple[float, ...] = (-1.9, -1.537, -2.196, -1.33, -2.316, -1.164)
    torsion_order: float = 11.119
    plane: float = -1.967
    plane_share: float = 6.317
    ring: float = 0.221  # added where the bond is part of a ring
    bond_bond: float = 0.061  # couplings, as shares of the geometric mean: two bonds at one atom,
    bond_angle: float = 0.145  # a bond and an angle that it is part of,
    angle_angle: float = 0.086  # two angles with a bond in common
    cartesian: float = -4.277


def period(numbers: Array) -> Array:
    """0 for hydrogen and helium, 1 for lithium to neon, 2 for all heavier ones."""
    out: Array = np.where(numbers <= 2, 0, np.where(numbers <= 10, 1, 2))
    return out


class ForceField:
    """Stiffness of every internal coordinate, given the lengths at which bonds rest."""

    def __init__(self, internals: Internals, constants: Constants = Constants()) -> None:  # noqa: B008 - frozen
        self.internals, self.constants = internals, constants
        links, numbers = internals.links, internals.numbers
        i, j = links.centre[internals.bonds], links.other[internals.bonds]
        low, high = np.sort(period(numbers)[np.stack([i, j])], axis=0)
        self.kind = low * (5 - low) // 2 + high
        self.radii = covalent_radii[numbers[i]] + covalent_radii[numbers[j]]
        self.bond_of = np.zeros(len(links.centre), int)
        self.bond_of[internals.bonds] = np.arange(len(internals.bonds))
        self.bond_of[links.back[internals.bonds]] = np.arange(len(internals.bonds))
        self.light = (numbers[links.other] == 1).astype(int)
        self.axis = self._axes()
        self.ringed = np.array([self._in_ring(int(bond)) for bond in internals.bonds], np.bool_)
        self.coupling = self._couplings()
        self.heavy = (period(numbers)[links.centre] == 2).astype(float)

    def bonds(self, length: Array) -> Array:
        """Logarithm of each bond's stiffness when it rests at `length` [bonds]."""
        c = self.constants
        reference = np.array(c.length)[self.kind]
        out: Array = np.array(c.bond)[self.kind] - c.order * (length - reference)
        out = out + c.radius * (self.radii - reference)
        return np.clip(out, 0.0, 5.5)

    def __call__(self, length: Array) -> Array:
        """Stiffness [m] of all coordinates; a bond's is per Morse variable."""
        c, own = self.constants, self.internals
        bonds = self.bonds(length)
        links = bonds[self.bond_of]
        morse = bonds + 2 * MORSE * (length - own.length[own.bonds])
        one, other = own.angles.T
        angles = np.array(c.angle)[self.light[one] + self.light[other]] + c.centre * self.heavy[one]
        angles = angles + c.share * (0.5 * (links[one] + links[other]) - 3.4)
        rows = c.straight + c.straight_order * (links[own.rows].mean(axis=1) - 3.4)
        planes = np.clip(c.plane + c.plane_share * (links[own.planes].mean(axis=1) - 3.4), -2.5, 2.5)
        cartesian = np.full(3 * len(own.numbers), c.cartesian)
        found: Array = np.exp(
            np.concatenate([morse, angles, rows, self._torsions(length), planes, cartesian])
        )
        return found

    def _torsions(self, length: Array) -> Array:
        """The stiffness of a bond's torsion, shared by all the torsions around it."""
        c = self.constants
        axis = self.bond_of[self.internals.torsions[:, 1]]
        number = np.bincount(axis, minlength=len(length))
        shorter = np.clip(self.radii - length, -0.1, 0.25)
        whole = (
            np.array(c.torsion)[self.axis] + c.torsion_order * shorter + np.where(self.ringed, c.ring, 0.0)
        )
        out: Array = (whole - np.log(np.maximum(number, 1)))[axis]
        return out

    def _axes(self) -> Array:
        """The kind of each bond as an axis, by how many neighbours its ends have."""
        own = self.internals
        neighbours = np.array([len(near) for near in own.around]).clip(2, 4) - 2
        ends = neighbours[np.stack([own.links.centre[own.bonds], own.links.other[own.bonds]])]
        low, high = np.sort(ends, axis=0)
        out: Array = low * (5 - low) // 2 + high
        return out

    def _in_ring(self, bond: int) -> bool:
        """True if one end can be reached from the other without this bond."""
        own, links = self.internals, self.internals.links
        seen, edge = {int(links.centre[bond])}, [int(links.centre[bond])]
        while edge:
            near = [k for k in own.around[edge.pop()] if k not in (bond, links.back[bond])]
            new = {int(links.other[k]) for k in near} - seen
            seen |= new
            edge += new
        return int(links.other[bond]) in seen

    def _couplings(self) -> Array:
        """Shares [m, m], without the diagonal's ones."""
        c, own = self.constants, self.internals
        size, first = sum(own.sizes), len(own.bonds)
        out = np.zeros((size, size))
        links = self.bond_of[own.angles]  # [angles, 2]
        out[links[:, 0], links[:, 1]] = c.bond_bond
        number = np.arange(len(own.angles))
        for side in (0, 1):
            out[links[:, side], first + number] = c.bond_angle
        shared = (own.angles[:, None, :, None] == own.angles[None, :, None, :]).any(axis=(2, 3))
        out[first : first + len(number), first : first + len(number)] = np.triu(c.angle_angle * shared, 1)
        return out + out.T

    def matrix(self, stiffness: Array) -> Array:
        """Second derivatives [m, m] by these diagonal ones."""
        root = np.sqrt(stiffness)
        out: Array = np.diag(stiffness) + self.coupling * root * root[:, None]
        return out
