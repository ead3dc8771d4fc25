"""Sets of starting structures: where episodes come from."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Annotated

import numpy as np
from ase import Atoms
from ase.calculators.calculator import Calculator
from ase.filters import FrechetCellFilter
from pydantic import Field

from twofold.base.errors import ConfigError
from twofold.base.setting import setting, settings
from twofold.crystal.calculators import calculator_factory
from twofold.crystal.relaxer import TD3Relaxer
from twofold.crystal.structures import Distortion, load

Length = Annotated[float, Field(ge=0)]
Index = Annotated[int, Field(ge=0)]
Times = Annotated[int, Field(ge=1, le=100)]


@settings
class StructureSet:
    """Structures of one calculator, relaxed once, and how they are disturbed."""

    structures: tuple[str, ...] = setting(
        "files (shipped:NAME for those of the package), CSVs of CIF text, or crystals such as NiAl:B2*2x2x2",
        default=("Cu", "Cu*2x2x2"),
    )
    calculator: str = setting("who gives the forces: emt, lj, eam:FILE, chgnet or xtb", default="emt")
    trans_coef: float = setting(
        "each coordinate is displaced uniformly in [0, this)", default=0.0, ge=0, unit="Angstrom"
    )
    rattle: tuple[Length, ...] = setting(
        "range of the Gaussian displacement, one drawn for each episode", default=(0.0, 0.0), unit="Angstrom"
    )
    r0: float = setting(
        "displacements are scaled back until no two atoms are closer", default=1.5, ge=0, unit="Angstrom"
    )
    repeat: tuple[Times, Times, Times] = setting("cells along each axis", default=(1, 1, 1))
    vacancies: int = setting("atoms taken out", default=0, ge=0)
    strain: float = setting("each of six components is uniform in [-this, this]", default=0.0, ge=0, lt=1)
    cell: bool = setting("the cell relaxes with its atoms", default=False)
    at_rest: bool = setting("structures are relaxed before they are disturbed", default=True)
    relax_cell: bool = setting("relax the cell too before anything else", default=False)
    pick: tuple[Index, ...] = setting("indices of a larger library; empty: all", default=())
    weight: float = setting("of this set when an episode draws one", default=1.0, gt=0)

    def __post_init__(self) -> None:
        if not self.structures:
            raise ConfigError("a set of structures needs at least one: give structures=[...]")
        if len(self.rattle) != 2 or self.rattle[0] > self.rattle[1]:
            raise ConfigError(f"the rattle of a set is a range [least, most], got {list(self.rattle)}")

    def minima(self, fmax: float) -> tuple[Atoms, ...]:
        """The structures that are disturbed: relaxed ones, unless `at_rest` is false."""
        which = tuple(os.path.expandvars(s) for s in self.structures), self.pick, self.repeat
        if not self.at_rest:
            return _found(*which)
        return _relaxed(*which, self.calculator, self.relax_cell, fmax)

    def draw(
        self, fmax: float, rng: np.random.Generator, index: int | None = None
    ) -> tuple[Atoms, Calculator]:
        """A disturbed structure (a random one, or the one of this index) and a fresh calculator for it."""
        minima = self.minima(fmax)
        start = minima[int(rng.integers(len(minima))) if index is None else index]
        distortion = Distortion(
            trans_coef=self.trans_coef,
            rattle=float(rng.uniform(self.rattle[0], self.rattle[1])),
            strain=self.strain,
            vacancies=self.vacancies,
            r0=self.r0,
        )
        return distortion(start, rng), calculator_factory(os.path.expandvars(self.calculator))()


def copper() -> dict[str, StructureSet]:
    """What is relaxed where nothing else is said."""
    return {"copper": StructureSet(rattle=(0.05, 0.1), relax_cell=True)}


def chosen(
    sets: dict[str, StructureSet], eval_sets: dict[str, StructureSet], purpose: str
) -> list[StructureSet]:
    """The sets that episodes of this purpose are drawn from."""
    found = sets if purpose == "train" or not eval_sets else eval_sets
    if not found:
        raise ConfigError("env_args.sets is empty: name at least one set of structures")
    return list(found.values())


@lru_cache(maxsize=64)
def _found(
    sources: tuple[str, ...], pick: tuple[int, ...], repeat: tuple[int, int, int]
) -> tuple[Atoms, ...]:
    """The structures of these sources; one-atom cells are doubled, because nothing in them can move."""
    found = [atoms.repeat(repeat) for source in sources for atoms in load(source)]
    found = [found[i] for i in pick] if pick else found
    return tuple(atoms.repeat((2, 1, 1)) if len(atoms) == 1 else atoms for atoms in found)


@lru_cache(maxsize=64)
def _relaxed(
    sources: tuple[str, ...],
    pick: tuple[int, ...],
    repeat: tuple[int, int, int],
    calculator: str,
    cell: bool,
    fmax: float,
) -> tuple[Atoms, ...]:
    make = calculator_factory(os.path.expandvars(calculator))
    return tuple(_at_rest(atoms, make(), cell, fmax) for atoms in _found(sources, pick, repeat))


def _at_rest(atoms: Atoms, calculator: Calculator, cell: bool, fmax: float) -> Atoms:
    """The structure at its local minimum."""
    out = Atoms(
        atoms.numbers,
        positions=atoms.positions,
        cell=atoms.cell,
        pbc=atoms.pbc,
        constraint=atoms.constraints,
    )
    out.calc = calculator
    if cell:
        TD3Relaxer(FrechetCellFilter(out), logfile=None, policy="prior").run(fmax=0.2 * fmax, steps=500)
    TD3Relaxer(out, logfile=None, policy="prior").run(fmax=fmax, steps=500)
    out.calc = None
    return out
