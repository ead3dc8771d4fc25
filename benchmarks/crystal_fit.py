"""Fits the constants of twofold/crystal/forcefield.py to GFN2-xTB Hessians of the molecules that are tuned on.

    python benchmarks/crystal_fit.py --cache=FOLDER

The molecules are TUNED["molecules"] of crystal_systems.py and those of data/tuning.extxyz (geometries by RDKit's
MMFF94), none of which is in a test. Fitted is what a quasi-Newton step feels: the logarithms of the eigenvalues of the
true Hessian relative to the model's, which are all zero for a perfect one.
"""

from __future__ import annotations

import argparse
from dataclasses import astuple, fields
from pathlib import Path

import numpy as np
from ase import Atoms
from ase.build import molecule
from ase.io import read
from ase.optimize import BFGS
from crystal_systems import DATA, TUNED, xtb
from scipy.optimize import least_squares

from twofold.core.experience import Array
from twofold.crystal.forcefield import Constants, ForceField
from twofold.crystal.internals import Internals

FIXED = ("length",)
EQUAL = 30  # modes of a molecule that counts once
STEP = 0.005  # A, of the central differences


def tuning() -> dict[str, Atoms]:
    """The molecules that constants may see."""
    found = {name: molecule(name) for name in TUNED["molecules"]}
    return found | {atoms.info["name"]: atoms for atoms in read(DATA / "tuning.extxyz", ":")}


def hessian(name: str, atoms: Atoms, cache: Path) -> tuple[Atoms, Array]:
    """The molecule at its minimum and its second derivatives there [3n, 3n]; kept in `cache`."""
    path = cache / f"{name}.npz"
    atoms = atoms.copy()
    if path.exists():
        kept = np.load(path)
        atoms.positions = kept["positions"]
        return atoms, kept["hessian"]
    atoms.calc = xtb()
    BFGS(atoms, alpha=15.0, logfile=None).run(fmax=0.002, steps=500)
    rows = []
    for coordinate in range(3 * len(atoms)):
        forces = []
        for sign in (1, -1):
            moved = atoms.copy()
            moved.positions.ravel()[coordinate] += sign * STEP
            moved.calc = atoms.calc
            forces.append(moved.get_forces().ravel())
        rows.append((forces[1] - forces[0]) / (2 * STEP))
    found = np.array(rows)
    found = 0.5 * (found + found.T)
    cache.mkdir(parents=True, exist_ok=True)
    np.savez(path, positions=atoms.positions, hessian=found)
    return atoms, found


def inner_space(atoms: Atoms) -> Array:
    """An orthonormal basis [3n, 3n - 6 or 5] of what is neither translation nor rotation."""
    centred = atoms.positions - atoms.positions.mean(axis=0)
    rigid = [np.tile(axis, len(atoms)) for axis in np.eye(3)]
    rigid += [np.cross(axis, centred).ravel() for axis in np.eye(3)]
    _, sizes, rows = np.linalg.svd(np.array(rigid))
    return rows[(sizes > 1e-6 * sizes.max()).sum() :].T


def unpacked(values: Array) -> Constants:
    """Constants from the vector of those that are fitted."""
    out, place = {}, 0
    for field in fields(Constants):
        default = getattr(Constants(), field.name)
        if field.name in FIXED:
            continue
        size = len(default) if isinstance(default, tuple) else 1
        part = values[place : place + size]
        out[field.name] = tuple(map(float, part)) if isinstance(default, tuple) else float(part[0])
        place += size
    return Constants(**out)


def packed(constants: Constants) -> Array:
    values = [v for f, v in zip(fields(constants), astuple(constants), strict=True) if f.name not in FIXED]
    return np.concatenate([np.atleast_1d(v) for v in values])


class Case:
    """One molecule of the fit."""

    def __init__(self, atoms: Atoms, true: Array) -> None:
        self.internals = Internals(atoms)
        _, slopes = self.internals(atoms.positions)
        space = inner_space(atoms)
        self.slopes, self.true = slopes @ space, space.T @ true @ space
        self.length = self.internals.length[self.internals.bonds]

    def logs(self, constants: Constants) -> Array:
        """Logarithms of the true curvature over the model's in the modes of their ratio."""
        field = ForceField(self.internals, constants)
        model = self.slopes.T @ field.matrix(field(self.length)) @ self.slopes
        values, vectors = np.linalg.eigh(model)
        root = vectors / np.sqrt(np.maximum(values, 1e-3))
        ratio = np.linalg.eigvalsh(root.T @ self.true @ root)
        # Small molecules have few modes and are many in use: a mode of theirs counts for more.
        return np.log(np.clip(ratio, 0.03, 30.0)) * np.sqrt(EQUAL / len(ratio))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, required=True, help="folder of Hessians")
    typed = parser.parse_args()
    cases = [Case(*hessian(name, atoms, typed.cache)) for name, atoms in tuning().items()]
    start = packed(Constants())

    def residual(values: Array) -> Array:
        weak = 0.02 * (values - start)
        return np.concatenate([*(case.logs(unpacked(values)) for case in cases), weak])

    print("before", np.sqrt(np.mean(residual(start) ** 2)))
    found = least_squares(residual, start, diff_step=1e-3, max_nfev=30)
    print("after", np.sqrt(np.mean(found.fun**2)))
    print(unpacked(np.round(found.x, 3)))


if __name__ == "__main__":
    main()
