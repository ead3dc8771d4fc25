"""Internal coordinates of molecules: bonds, angles, torsions, planes. In them the energy is nearly quadratic.

A bond counts by Morse's variable (1 - exp(-a (r - r0))) / a, in which a Morse bond is a parabola, so that a quadratic
model knows a bond's anharmonicity from the first call. The Cartesian coordinates themselves close the list: whatever
no bond describes (fragments, atoms in a row) has a coordinate too, and nothing is ever singular.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from ase import Atoms
from ase.data import covalent_radii

from twofold.core.experience import Array
from twofold.crystal.angles import perpendicular
from twofold.crystal.bonds import neighbours

SLACK = 0.45  # A beyond the sum of covalent radii up to which two atoms are bonded; starts may be rattled
MORSE = 2.1  # 1/A; between 1.8 and 2.3 for most bonds of light elements
STRAIGHT = -0.97  # cosine of an angle beyond which it bends in two directions
TWISTED = 0.3  # sine of an angle below which a torsion over it says nothing
FLAT = 0.5  # volume of three unit vectors below which they are one plane


@dataclass(frozen=True)
class Links:
    """Every bond, seen from both of its atoms."""

    centre: Array  # [L]
    other: Array  # [L]
    shift: Array  # [L, 3], the lattice vector to the other's image
    back: Array  # [L], the same bond seen from the other end

    def vectors(self, positions: Array) -> Array:
        """From centre to other [L, 3] at positions [n, 3]."""
        out: Array = positions[self.other] - positions[self.centre] + self.shift
        return out


def find_links(atoms: Atoms) -> Links:
    """The first shell of every atom, ordered by atom."""
    radii = covalent_radii[atoms.numbers]
    i, j, distance, image = neighbours("ijdS", atoms, 2 * float(radii.max()) + SLACK)
    keep = distance < radii[i] + radii[j] + SLACK
    i, j, image = i[keep], j[keep], image[keep]
    order = np.lexsort((j, i))
    i, j, image = i[order], j[order], image[order]
    place = {(a, b, *s): n for n, (a, b, s) in enumerate(zip(i, j, image, strict=True))}
    back = [place[(b, a, *(-s))] for a, b, s in zip(i, j, image, strict=True)]
    return Links(i, j, image @ atoms.cell.array, np.array(back, int))


def _index(rows: Sequence[Sequence[np.intp]], width: int) -> Array:
    return np.array(rows, int).reshape(-1, width)


class Internals:
    """Which coordinates a molecule has, and their values and first derivatives at any positions."""

    def __init__(self, atoms: Atoms) -> None:
        self.numbers, self.links = atoms.numbers.copy(), find_links(atoms)
        links, vectors = self.links, self.links.vectors(atoms.positions)
        self.length = np.linalg.norm(vectors, axis=1)
        unit = vectors / self.length[:, None]
        self.around = [np.flatnonzero(links.centre == atom) for atom in range(len(atoms))]
        self.bonds = np.flatnonzero(links.back >= np.arange(len(links.back)))
        pairs = _index([p for near in self.around for p in combinations(near, 2)], 2)
        straight = (unit[pairs[:, 0]] * unit[pairs[:, 1]]).sum(axis=1) < STRAIGHT
        self.angles, self.rows = pairs[~straight], np.repeat(pairs[straight], 2, axis=0)
        self.normals = np.stack(perpendicular(unit[pairs[straight, 0]]), axis=1).reshape(-1, 3)
        self.torsions = self._torsions(unit)
        triples = _index([tuple(near) for near in self.around if len(near) == 3], 3)
        a, b, c = unit[triples].transpose(1, 0, 2)
        self.planes = triples[np.abs((a * np.cross(b, c)).sum(axis=1)) < FLAT]

    def _torsions(self, unit: Array) -> Array:
        """Three links each: outwards, along the axis, outwards at its other end."""
        links, found = self.links, []
        for axis in self.bonds:
            for first in self.around[links.centre[axis]]:
                for last in self.around[links.other[axis]]:
                    if first != axis and last != links.back[axis] and links.other[first] != links.other[last]:
                        found.append((first, axis, last))
        rows = _index(found, 3)
        one, axis, other = unit[rows].transpose(1, 0, 2)
        bent = (np.linalg.norm(np.cross(one, axis), axis=1) > TWISTED) & (
            np.linalg.norm(np.cross(axis, other), axis=1) > TWISTED
        )
        kept: Array = rows[bent]
        return kept

    def same(self, other: Internals) -> bool:
        """True if both are made of the same atoms in the same order."""
        mine, theirs = self._parts(), other._parts()
        return all(np.array_equal(a, b) for a, b in zip(mine, theirs, strict=True))

    def _parts(self) -> tuple[Array, ...]:
        links = self.links
        return links.centre, links.other, links.shift, self.angles, self.rows, self.torsions, self.planes

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many bonds, angles, straight angles, torsions, planes and Cartesian coordinates."""
        parts = (self.bonds, self.angles, self.rows, self.torsions, self.planes)
        return (*(len(part) for part in parts), 3 * len(self.numbers))

    def __call__(self, positions: Array) -> tuple[Array, Array]:
        """Values [m] and first derivatives [m, 3n]."""
        vectors = self.links.vectors(positions)
        length = np.linalg.norm(vectors, axis=1)
        unit = vectors / length[:, None]
        parts = [
            self._stretch(length, unit),
            self._bend(length, unit),
            self._bow(length, unit),
            self._twist(vectors),
            self._lift(length, unit),
        ]
        values = np.concatenate([value for value, _ in parts] + [positions.ravel()])
        slopes = [self._scatter(slope) for _, slope in parts]
        return values, np.concatenate([*slopes, np.eye(positions.size)])

    def between(self, after: Array, before: Array) -> Array:
        """The change of the values, torsions by the shorter way around."""
        change: Array = after - before
        bonds, angles, rows, torsions, *_ = self.sizes
        turn = slice(bonds + angles + rows, bonds + angles + rows + torsions)
        change[turn] = (change[turn] + np.pi) % (2 * np.pi) - np.pi
        return change

    def _scatter(self, slopes: list[tuple[Array, Array]]) -> Array:
        """Derivatives by link vectors [(links [m], slopes [m, 3]), ...] as derivatives by positions [m, 3n]."""
        number = len(slopes[0][0])
        out, rows = np.zeros((number, len(self.numbers), 3)), np.arange(number)
        for link, slope in slopes:
            out[rows, self.links.other[link]] += slope
            out[rows, self.links.centre[link]] -= slope
        return out.reshape(number, 3 * len(self.numbers))

    def _stretch(self, length: Array, unit: Array) -> tuple[Array, list[tuple[Array, Array]]]:
        decay = np.exp(-MORSE * (length[self.bonds] - self.length[self.bonds]))
        return (1 - decay) / MORSE, [(self.bonds, decay[:, None] * unit[self.bonds])]

    def _bend(self, length: Array, unit: Array) -> tuple[Array, list[tuple[Array, Array]]]:
        one, other = self.angles.T
        u, v = unit[one], unit[other]
        cosine = (u * v).sum(axis=1).clip(-1, 1)[:, None]
        sine = np.sqrt(np.maximum(1 - cosine**2, 1e-4))
        toward = (cosine * u - v) / (sine * length[one, None])
        turned = (cosine * v - u) / (sine * length[other, None])
        return np.arccos(cosine[:, 0]), [(one, toward), (other, turned)]

    def _bow(self, length: Array, unit: Array) -> tuple[Array, list[tuple[Array, Array]]]:
        value, slopes = np.zeros(len(self.rows)), []
        for link in self.rows.T:
            along = (self.normals * unit[link]).sum(axis=1)
            value = value + along
            slopes.append((link, (self.normals - along[:, None] * unit[link]) / length[link, None]))
        return value, slopes

    def _twist(self, vectors: Array) -> tuple[Array, list[tuple[Array, Array]]]:
        first, axis, last = self.torsions.T
        a, b, c = -vectors[first], vectors[axis], vectors[last]
        m, n, span = np.cross(a, b), np.cross(b, c), np.linalg.norm(b, axis=1)
        value = np.arctan2(span * (a * n).sum(axis=1), (m * n).sum(axis=1))
        least = 1e-3 * span**2  # an angle that straightens out must not blow up
        by_a = (span / np.maximum((m * m).sum(axis=1), least))[:, None] * m
        by_c = (span / np.maximum((n * n).sum(axis=1), least))[:, None] * n
        share = [((v * b).sum(axis=1) / span**2)[:, None] for v in (a, c)]
        return value, [(first, -by_a), (axis, -share[0] * by_a - share[1] * by_c), (last, by_c)]

    def _lift(self, length: Array, unit: Array) -> tuple[Array, list[tuple[Array, Array]]]:
        links = self.planes.T
        units = [unit[link] for link in links]
        slopes = []
        for k, link in enumerate(links):
            normal = np.cross(units[(k + 1) % 3], units[(k + 2) % 3])
            along = (normal * units[k]).sum(axis=1, keepdims=True)
            slopes.append((link, (normal - along * units[k]) / length[link, None]))
        return (units[0] * np.cross(units[1], units[2])).sum(axis=1), slopes
