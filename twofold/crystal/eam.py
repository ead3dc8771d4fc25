"""Embedded-atom potentials from tables, vectorised over bonds: energy, forces and stress in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from ase import Atoms
from ase.calculators.calculator import Calculator, all_changes
from ase.stress import full_3x3_to_voigt_6_stress
from matscipy.calculators.eam.io import read_eam
from matscipy.neighbours import neighbour_list
from scipy.interpolate import CubicSpline

from twofold.base.errors import UserError
from twofold.core.experience import Array


class Tables:
    """Cubic splines on one uniform grid, evaluated together: values and slopes of table `which` at `x`."""

    def __init__(self, spacing: float, values: Array) -> None:
        self.spacing, self.intervals = spacing, values.shape[-1] - 1
        grid = np.arange(values.shape[-1]) * spacing
        spline = CubicSpline(grid, values.reshape(-1, values.shape[-1]), axis=1)
        # One row of four coefficients per interval, so that a lookup touches one cache line.
        self._rows = np.ascontiguousarray(spline.c.transpose(2, 1, 0).reshape(-1, 4))

    def __call__(self, which: Array, x: Array) -> tuple[Array, Array]:
        """Values and slopes, each of the shape of `x`."""
        interval = np.minimum((x / self.spacing).astype(np.int64), self.intervals - 1)
        c3, c2, c1, c0 = self._rows[which * self.intervals + interval].T
        t = x - interval * self.spacing
        return ((c3 * t + c2) * t + c1) * t + c0, (3 * c3 * t + 2 * c2) * t + c1


class FastEAM(Calculator):  # ASE is not checked
    """An `.eam.alloy` or `.eam.fs` (Finnis-Sinclair) table as an ASE calculator."""

    implemented_properties = ["energy", "free_energy", "energies", "forces", "stress"]

    def __init__(self, path: str | Path) -> None:
        super().__init__()
        self.path = str(path)
        kind = "eam/fs" if self.path.endswith(".fs") else "eam/alloy"
        _, parameters, embedding, density, pair = read_eam(self.path, kind=kind)
        self.elements = [int(z) for z in parameters.atomic_numbers]
        self.cutoff = float(parameters.cutoff)
        kinds = len(self.elements)
        self._type_of = np.full(max(self.elements) + 1, -1)
        self._type_of[self.elements] = np.arange(kinds)
        density, radial = np.asarray(density), float(parameters.distance_grid_spacing)
        if density.ndim == 2:  # eam/alloy: what an atom gives does not depend on who receives it
            density = np.repeat(density[:, None], kinds, axis=1)
        self._density = Tables(radial, density)
        self._pair = Tables(radial, np.asarray(pair))
        self._embedding = Tables(float(parameters.density_grid_spacing), np.asarray(embedding))

    def types(self, numbers: Array) -> Array:
        """The potential's own index of each element; an element that it lacks is the user's mistake."""
        types = np.where(
            numbers < len(self._type_of), self._type_of[np.minimum(numbers, len(self._type_of) - 1)], -1
        )
        if (types < 0).any():
            from ase.data import chemical_symbols

            lacking = sorted({chemical_symbols[z] for z in numbers[types < 0]})
            known = ", ".join(chemical_symbols[z] for z in self.elements)
            raise UserError(
                f"the potential {Path(self.path).name} has no {', '.join(lacking)}; it knows {known}"
            )
        return types

    def calculate(
        self,
        atoms: Atoms | None = None,
        properties: Sequence[str] | None = None,
        system_changes: Sequence[str] = all_changes,
    ) -> None:
        super().calculate(atoms, properties or ["energy"], system_changes)
        types, kinds = self.types(self.atoms.numbers), len(self.elements)
        i, j, vector, distance = neighbour_list("ijDd", self.atoms, self.cutoff)
        out, back = types[j] * kinds + types[i], types[i] * kinds + types[j]
        given, given_slope = self._density(out, distance)
        density = np.bincount(i, given, len(types))
        embedding, embedding_slope = self._embedding(types, density)
        scaled, scaled_slope = self._pair(out, distance)  # the tables hold r * phi(r)
        pair = scaled / distance
        energies = embedding + 0.5 * np.bincount(i, pair, len(types))
        slope = (scaled_slope - pair) / distance + embedding_slope[i] * given_slope
        slope += embedding_slope[j] * self._density(back, distance)[1]
        pull = (slope / distance)[:, None] * vector
        forces = np.stack([np.bincount(i, pull[:, axis], len(types)) for axis in range(3)], axis=1)
        energy = float(energies.sum())
        self.results = {"energy": energy, "free_energy": energy, "energies": energies, "forces": forces}
        if self.atoms.cell.rank == 3:
            virial = 0.5 * pull.T @ vector / self.atoms.cell.volume
            self.results["stress"] = full_3x3_to_voigt_6_stress(virial)
