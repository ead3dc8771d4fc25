"""The optimisers people use and ours, from the same starts, with every force call counted."""

from __future__ import annotations

import contextlib
import io
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from ase import Atoms
from ase.calculators.calculator import Calculator, all_changes
from ase.filters import FrechetCellFilter
from ase.geometry import find_mic
from ase.optimize import BFGS, FIRE, FIRE2, LBFGS, BFGSLineSearch, GPMin
from ase.optimize.optimize import Optimizer
from ase.optimize.precon import PreconLBFGS

from twofold.base.errors import UserError
from twofold.core.experience import Array
from twofold.crystal.calculators import Counted
from twofold.crystal.motion import Optimisable
from twofold.crystal.relaxer import TD3Relaxer
from twofold.crystal.spring import largest
from twofold.show import style

Make = Callable[[Optimisable], Optimizer]  # an optimiser of atoms, or of a filter around them
Row = dict[str, str | int | float]
METHODS: dict[str, Make] = {
    "td3": lambda atoms: TD3Relaxer(atoms, logfile=None),
    "prior": lambda atoms: TD3Relaxer(atoms, logfile=None, policy="prior"),
    "td3_bfgs": lambda atoms: TD3Relaxer(atoms, logfile=None, bfgs_steps=12),
    "bfgs": lambda atoms: BFGS(atoms, logfile=None),
    "bfgs15": lambda atoms: BFGS(atoms, alpha=15.0, logfile=None),
    "lbfgs": lambda atoms: LBFGS(atoms, logfile=None),
    "bfgslinesearch": lambda atoms: BFGSLineSearch(atoms, logfile=None),
    "fire": lambda atoms: FIRE(atoms, logfile=None),
    "fire2": lambda atoms: FIRE2(atoms, logfile=None),
    "preconlbfgs": lambda atoms: PreconLBFGS(atoms, logfile=None),
    "gpmin": lambda atoms: GPMin(atoms, logfile=None),
}
GPMIN_LIMIT = 12  # atoms; its cost grows with the cube of atoms times steps
BASELINE = "bfgs"  # whose minimum the others are held against


class Recorder(Counted):
    """Counts evaluations and keeps what each one saw."""

    def __init__(self, inner: Calculator) -> None:
        super().__init__(inner)
        self.forces: list[float] = []
        self.energies: list[float] = []
        self.frames: list[Array] = []

    def calculate(
        self,
        atoms: Atoms | None = None,
        properties: Sequence[str] = ("energy",),
        system_changes: Sequence[str] = all_changes,
    ) -> None:
        super().calculate(atoms, properties, system_changes)
        self.forces.append(largest(self.results["forces"]))
        self.energies.append(float(self.results["energy"]))
        assert self.atoms is not None
        self.frames.append(self.atoms.positions.copy())


@dataclass(frozen=True)
class Outcome:
    """One method from one start."""

    start: str
    method: str
    calls: int
    seconds: float
    energy: float  # eV
    fmax: float
    converged: bool
    error: str = ""
    same_minimum: bool = True  # as the baseline's
    forces: list[float] = field(default_factory=list)  # largest force of every call
    energies: list[float] = field(default_factory=list)
    frames: list[Array] = field(default_factory=list)
    final: Atoms | None = None


def method(name: str) -> Make:
    """The constructor of a method by name."""
    if name.lower() not in METHODS:
        from twofold.settings.schema import nearest

        hint = nearest(name.lower(), METHODS)
        known = f"did you mean '{hint}'?" if hint else f"there are {', '.join(METHODS)}"
        raise UserError(f"no optimiser '{name}'; {known}")
    return METHODS[name.lower()]


def run_one(
    start: str, atoms: Atoms, name: str, calculator: Calculator, fmax: float, steps: int, cell: bool = False
) -> Outcome:
    """Relax a copy with one method; a method that raises has failed, and says why."""
    copy = atoms.copy()
    copy.calc = recorder = Recorder(calculator)
    error, converged, began = "", False, time.perf_counter()
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            optimiser = method(name)(FrechetCellFilter(copy) if cell else copy)
            converged = bool(optimiser.run(fmax=fmax, steps=steps))
    except UserError:
        raise
    except Exception as problem:  # every optimiser has its own way to fail
        error = f"{type(problem).__name__}: {problem}"
    seconds, calls = time.perf_counter() - began, recorder.calls
    energy, force = (recorder.energies[-1], recorder.forces[-1]) if recorder.energies else (float("nan"),) * 2
    if converged:
        energy, force = float(copy.get_potential_energy()), largest(copy.get_forces())
    return Outcome(start, name, calls, seconds, energy, force, converged, error,
                   forces=recorder.forces, energies=recorder.energies, frames=recorder.frames, final=copy)  # fmt: skip


def same_minimum(one: Atoms, other: Atoms, one_energy: float, other_energy: float) -> bool:
    """Equal energy to 1 meV/atom, and no atom further than 0.1 A from its place up to a translation."""
    if abs(one_energy - other_energy) > 1e-3 * len(one):
        return False
    shift, _ = find_mic(one.positions - other.positions, one.cell, one.pbc)
    shift, _ = find_mic(shift - shift[0], one.cell, one.pbc)
    return largest(shift - shift.mean(axis=0)) < 0.1


def compare(
    starts: dict[str, Atoms],
    calculator: Callable[[], Calculator],
    methods: tuple[str, ...] = tuple(METHODS),
    *,
    fmax: float = 0.01,
    steps: int = 500,
    cell: bool = False,
    progress: Callable[[Outcome], None] = lambda outcome: None,
) -> list[Outcome]:
    """Every method from every start; each outcome knows whether it found the baseline's minimum."""
    found: list[Outcome] = []
    for start, atoms in starts.items():
        group = []
        for name in methods:
            if name == "gpmin" and (len(atoms) > GPMIN_LIMIT or cell):
                continue
            group.append(run_one(start, atoms, name, calculator(), fmax, steps, cell))
            progress(group[-1])
        baseline = next((o for o in group if o.method == BASELINE), group[0])
        found += [_judged(outcome, baseline) for outcome in group]
    return found


def _judged(outcome: Outcome, baseline: Outcome) -> Outcome:
    assert outcome.final is not None and baseline.final is not None
    same = same_minimum(outcome.final, baseline.final, outcome.energy, baseline.energy)
    return replace(outcome, same_minimum=same)


def summary(outcomes: list[Outcome]) -> list[Row]:
    """One row per method: mean calls, time, failures, share of the baseline's minima, energy against it."""
    lowest = {o.start: o.energy for o in outcomes if o.method == BASELINE}
    rows: list[Row] = []
    for name in dict.fromkeys(o.method for o in outcomes):
        mine = [o for o in outcomes if o.method == name]
        gaps = [
            (o.energy - lowest[o.start]) / len(o.final or ())
            for o in mine
            if o.start in lowest and o.converged
        ]
        rows.append(
            {
                "method": name,
                "runs": len(mine),
                "calls": float(np.mean([o.calls for o in mine])),
                "median calls": float(np.median([o.calls for o in mine])),
                "seconds": float(np.mean([o.seconds for o in mine])),
                "failures": sum(not o.converged for o in mine),
                "same minimum": float(np.mean([o.same_minimum for o in mine])),
                "not above by 1 meV/atom": float(np.mean([g <= 1e-3 for g in gaps]))
                if gaps
                else float("nan"),
            }
        )
    return rows


def table(rows: list[Row]) -> str:
    """The rows as a Markdown table."""
    names = list(rows[0])
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    for row in rows:
        cells = [f"{v:.2f}" if isinstance(v, float) else str(v) for v in row.values()]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def plot(outcomes: list[Outcome], path: Path, fmax: float) -> None:
    """Largest force against force calls: thin lines for runs, thick ones for the median of a method."""
    figure, panels = style.new_figure(8, 5)
    axes = panels[0, 0]
    for index, name in enumerate(dict.fromkeys(o.method for o in outcomes)):
        runs = [np.minimum.accumulate(o.forces) for o in outcomes if o.method == name and o.forces]
        longest = max(len(r) for r in runs)
        padded = np.array([np.pad(r, (0, longest - len(r)), mode="edge") for r in runs])
        colour, calls = style.colour(index), np.arange(1, longest + 1)
        for r in runs[:10]:
            axes.semilogy(calls[: len(r)], r, color=colour, alpha=0.2, linewidth=0.8)
        axes.semilogy(calls, np.median(padded, axis=0), color=colour, label=name, linewidth=2.2)
    axes.axhline(fmax, color=style.INK, linestyle=":", linewidth=1)
    axes.set(xlabel="force calls", ylabel="largest force (eV/Å)")
    style.title(axes, "Relaxation", "every run thin, the median of each method bold; dotted: the goal")
    style.legend(axes)
    style.write_figure(figure, path)
