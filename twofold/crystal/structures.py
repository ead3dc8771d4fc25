"""Structures: files, CSVs of CIF text and built-in crystals; and the ways to disturb them."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
from ase import Atoms
from ase.build import bulk
from ase.constraints import FixAtoms
from ase.data import atomic_numbers
from ase.formula import Formula

from twofold.base.errors import UserError
from twofold.base.regular import is_there, names_in
from twofold.base.setting import setting, settings
from twofold.core.experience import Array
from twofold.crystal.bonds import neighbours
from twofold.crystal.reading import MOST_ATOMS, read_structures, read_table

SHIPPED = Path(__file__).parent / "shipped"
_FARTHEST = 1e5  # Angstrom; whoever searches for neighbours makes a grid of all that lies between
ORDERED = {  # prototype -> (fractional places, element of each place)
    "B2": ([[0, 0, 0], [0.5, 0.5, 0.5]], (0, 1)),
    "L12": ([[0.5, 0.5, 0], [0.5, 0, 0.5], [0, 0.5, 0.5], [0, 0, 0]], (0, 0, 0, 1)),
    "L10": ([[0, 0, 0], [0.5, 0.5, 0], [0.5, 0, 0.5], [0, 0.5, 0.5]], (0, 0, 1, 1)),
}


def load(source: str | Path) -> list[Atoms]:
    """Structures from a file (CIF, POSCAR, extxyz, ... or CSV of CIF text) or a built-in crystal such as 'Cu*2x2x2'."""
    path = shipped(str(source)) or Path(source)
    if path.suffix == ".csv":
        return [checked(atoms, f"{path}, row {number}") for number, atoms in read_table(path)]
    if is_there(path) or path.suffix or "/" in str(source):
        return [checked(atoms, str(path)) for atoms in read_structures(path)]
    return [builtin(str(source))]


def shipped(source: str) -> Path | None:
    """The file of the package that 'shipped:NAME' means."""
    kind, _, name = source.partition(":")
    if kind != "shipped":
        return None
    if name not in (known := names_in(SHIPPED)):
        raise UserError(f"no shipped structures '{name}': there are {', '.join(sorted(known))}")
    return SHIPPED / name


class BadStructure(UserError, ValueError):
    """Atoms that no force can be computed for."""


def checked(atoms: Atoms, where: str, closest: float = 0.3) -> Atoms:
    """The structure, or an error that says what is wrong with it; no two atoms may be nearer than `closest` (A)."""
    if len(atoms) == 0:
        raise BadStructure(f"{where}: holds no atoms")
    if not np.isfinite(atoms.positions).all() or not np.isfinite(atoms.cell.array).all():
        raise BadStructure(f"{where}: a position or the cell is not finite")
    if max(np.abs(atoms.positions).max(), np.abs(atoms.cell.array).max()) > _FARTHEST:
        raise BadStructure(f"{where}: a position or a cell vector is beyond {_FARTHEST:g} A")
    if (atoms.pbc & ~atoms.cell.array.any(axis=1)).any():
        raise BadStructure(
            f"{where}: periodic along an axis whose cell vector is zero: set a cell, or pbc=False"
        )
    if atoms.pbc.any() and atoms.cell.rank == 3 and atoms.cell.volume < 1e-6:
        raise BadStructure(f"{where}: periodic, but its cell has no volume")
    if (short := nearest_pair(atoms)) < closest:
        raise BadStructure(f"{where}: two atoms overlap ({short:.2g} A apart): move one of them")
    return atoms


def nearest_pair(atoms: Atoms, within: float = 3.0) -> float:
    """The shortest distance between two atoms (images too), or infinity beyond `within`."""
    (distance,) = neighbours("d", atoms, within)
    return float(distance.min()) if len(distance) else float("inf")


def builtin(text: str) -> Atoms:
    """'Cu', 'Cu*2x2x2' (cubic cells), 'NiAl:B2', 'Ni3Al:L12*2x2x2', 'CuAu:L10', 'NaCl:rocksalt'."""
    match = re.fullmatch(r"([A-Z][A-Za-z0-9]*)(?::([A-Za-z0-9]+))?(?:\*(\d+)x(\d+)x(\d+))?", text)
    if not match:
        raise UserError(
            f"'{text}' is neither a file nor a crystal such as Cu, Cu*2x2x2, NiAl:B2 or NaCl:rocksalt"
        )
    name, prototype, *times = match.groups()
    try:
        elements = list(Formula(name).count())
        if not all(e in atomic_numbers for e in elements):
            raise ValueError(f"unknown element in '{name}'")
        atoms = _ordered(elements, prototype) if prototype in ORDERED else _plain(name, prototype)
    except (ValueError, RuntimeError, KeyError) as error:
        raise UserError(f"cannot build the crystal '{text}': {error}") from None
    if not times[0]:
        return atoms
    many = tuple(int(n[:9]) for n in times)
    if not all(many) or len(atoms) * math.prod(many) > MOST_ATOMS or max(map(len, times)) > 9:
        raise UserError(f"'{text[:80]}' must have at least one and at most {MOST_ATOMS:,} atoms")
    return atoms.repeat(many)


def _plain(name: str, prototype: str | None) -> Atoms:
    if prototype in ("rocksalt", "zincblende", "cesiumchloride"):
        from ase.data import covalent_radii

        both = sum(covalent_radii[atomic_numbers[e]] for e in Formula(name).count())
        edge = (
            both
            * {"rocksalt": 2.1, "zincblende": 4 / np.sqrt(3), "cesiumchloride": 2.4 / np.sqrt(3)}[prototype]
        )
        return bulk(name, prototype, a=edge, cubic=True)
    return bulk(name, prototype, cubic=True) if prototype != "hcp" else bulk(name, "hcp")


def _ordered(elements: list[str], prototype: str) -> Atoms:
    """An ordered alloy, its edge from the elements' own densities (Vegard)."""
    places, which = ORDERED[prototype]
    if len(elements) != 2:
        raise ValueError(f"{prototype} needs two elements")
    symbols = [elements[k] for k in which]
    volume = sum(bulk(symbol).cell.volume / len(bulk(symbol)) for symbol in symbols)
    return Atoms(symbols, scaled_positions=places, cell=[volume ** (1 / 3)] * 3, pbc=True)


@settings
class Distortion:
    """How a structure is disturbed before it is relaxed; zeros do nothing."""

    trans_coef: float = setting(
        "each coordinate is displaced uniformly in [0, this)", default=0.0, ge=0, le=100, unit="Angstrom"
    )
    rattle: float = setting(
        "standard deviation of a Gaussian displacement", default=0.0, ge=0, le=100, unit="Angstrom"
    )
    strain: float = setting("each of six components is uniform in [-this, this]", default=0.0, ge=0, lt=1)
    vacancies: int = setting("atoms taken out", default=0, ge=0)
    r0: float = setting(
        "displacements are scaled back until no two atoms are closer",
        default=1.5,
        ge=0,
        le=100,
        unit="Angstrom",
    )

    def __call__(self, atoms: Atoms, rng: np.random.Generator) -> Atoms:
        """A disturbed copy."""
        out = atoms.copy()
        if self.vacancies:
            keep = np.ones(len(out), bool)
            keep[rng.choice(len(out), min(self.vacancies, len(out) - 1), replace=False)] = False
            out = out[keep]
        if self.strain:
            strain = rng.uniform(-self.strain, self.strain, (3, 3))
            out.set_cell(out.cell @ (np.eye(3) + 0.5 * (strain + strain.T)), scale_atoms=True)
        shift = self.trans_coef * rng.random(out.positions.shape)
        shift += self.rattle * rng.standard_normal(out.positions.shape)
        for constraint in out.constraints:
            if isinstance(constraint, FixAtoms):
                shift[constraint.index] = 0.0
        return moved_apart(out, shift, self.r0)


def moved_apart(atoms: Atoms, shift: Array, r0: float) -> Atoms:
    """The atoms after the largest share of `shift` that leaves no pair closer than `r0` (20 bisections)."""
    out = atoms.copy()
    out.positions += shift
    if nearest_pair(out) >= r0:
        return out
    low, high = 0.0, 1.0
    for _ in range(20):
        share = 0.5 * (low + high)
        out.positions = atoms.positions + share * shift
        low, high = (share, high) if nearest_pair(out) >= r0 else (low, share)
    out.positions = atoms.positions + low * shift
    return out
