"""Sets of starting structures: where episodes come from."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

import numpy as np
from ase import Atoms
from ase.calculators.calculator import Calculator
from ase.filters import FrechetCellFilter

from twofold.base.errors import ConfigError
from twofold.crystal.calculators import calculator_factory
from twofold.crystal.relaxer import TD3Relaxer
from twofold.crystal.structures import Distortion, load


@dataclass(frozen=True)
class StructureSet:
    """Structures of one calculator, relaxed once, and how they are disturbed."""

    structures: tuple[str, ...] = (
        "Cu",
        "Cu*2x2x2",
    )  # files, CSVs of CIF text, or crystals such as NiAl:B2*2x2x2
    calculator: str = "emt"
    trans_coef: float = 0.0
    rattle: tuple[float, float] = (0.0, 0.0)  # A, drawn uniformly from this range for each episode
    strain: float = 0.0
    vacancies: int = 0  # up to so many
    shuffle: bool = False
    r0: float = 1.5
    relax_cell: bool = False  # relax the cell too before anything else
    pick: tuple[int, ...] = ()  # indices of a larger library; empty: all
    weight: float = 1.0  # of this set when an episode draws one

    def __post_init__(self) -> None:
        if not self.structures:
            raise ConfigError("a set of structures needs at least one")
        if self.weight <= 0:
            raise ConfigError(f"a set's weight must be above 0, got {self.weight}")

    def minima(self, fmax: float) -> tuple[Atoms, ...]:
        """The relaxed structures."""
        return _relaxed(tuple(os.path.expandvars(s) for s in self.structures), self.calculator, self.relax_cell,
                        fmax, self.pick)  # fmt: skip

    def draw(
        self, fmax: float, rng: np.random.Generator, index: int | None = None
    ) -> tuple[Atoms, Calculator]:
        """A disturbed structure (a random one, or the one of this index) and a fresh calculator for it."""
        minima = self.minima(fmax)
        start = minima[int(rng.integers(len(minima))) if index is None else index]
        distortion = Distortion(
            trans_coef=self.trans_coef,
            rattle=float(rng.uniform(*self.rattle)),
            strain=self.strain,
            vacancies=int(rng.integers(self.vacancies + 1)) if len(start) > 4 else 0,
            shuffle=self.shuffle,
            r0=self.r0,
        )
        return distortion(start, rng), calculator_factory(os.path.expandvars(self.calculator))()


def make_sets(settings: dict[str, Any]) -> list[StructureSet]:
    """Sets from free-form settings: nested dicts, or names with a dot as a preset's layers give them."""
    grouped: dict[str, dict[str, Any]] = {}
    for key, value in settings.items():
        name, dot, rest = key.partition(".")
        grouped.setdefault(name, {}).update({rest: value} if dot else value)
    return [make_set(name, values) for name, values in grouped.items()]


def make_set(name: str, values: dict[str, Any]) -> StructureSet:
    """From the free-form settings of a preset."""
    known = {field.name for field in fields(StructureSet)}
    for key in values:
        if key not in known:
            raise ConfigError(f"unknown setting 'sets.{name}.{key}'; there are {', '.join(sorted(known))}")
    settings: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
    return StructureSet(**settings)


@lru_cache(maxsize=64)
def _relaxed(
    sources: tuple[str, ...], calculator: str, cell: bool, fmax: float, pick: tuple[int, ...]
) -> tuple[Atoms, ...]:
    make = calculator_factory(os.path.expandvars(calculator))
    found = [atoms for source in sources for atoms in load(source)]
    found = [found[i] for i in pick] if pick else found
    return tuple(_at_rest(atoms, make(), cell, fmax) for atoms in found)


def _at_rest(atoms: Atoms, calculator: Calculator, cell: bool, fmax: float) -> Atoms:
    """The structure at its local minimum; one-atom cells are doubled, because nothing in them can move."""
    out = Atoms(atoms.numbers, positions=atoms.positions, cell=atoms.cell, pbc=atoms.pbc)
    if len(out) == 1:
        out = out.repeat((2, 1, 1))
    out.calc = calculator
    if cell:
        TD3Relaxer(FrechetCellFilter(out), logfile=None, policy="prior").run(fmax=0.2 * fmax, steps=500)
    TD3Relaxer(out, logfile=None, policy="prior").run(fmax=fmax, steps=500)
    out.calc = None
    return out
