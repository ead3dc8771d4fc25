"""Guarded random starts of every kind on several engines; results in benchmarks/results/crystal/crystal_guard_all.json.

    TWOFOLD_DATA=... python benchmarks/crystal_guard.py --starts=2000

Start number n is a function of the seed and n alone, and what was done is kept, so the command goes on where it was
stopped. Of every 40 starts 20 are metals (EMT), 12 Al-Fe cells (EAM), 6 adsorbates, slabs and clusters (EMT), one a
nonmetal crystal (CHGNet) and one a molecule (GFN2-xTB): a call of the last two costs a hundred of the first. A run has
failed if it does not converge in 500 calls or raises.
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from ase import Atoms
from ase.build import molecule
from ase.calculators.calculator import Calculator
from ase.calculators.emt import EMT
from ase.collections import g2
from ase.io import read
from crystal import commit, versions
from crystal_checks import POOL, RESULTS
from crystal_systems import DATA, nonmetals, surfaces, xtb

from twofold.crystal import TD3Relaxer
from twofold.crystal.calculators import Counted, calculator_factory
from twofold.crystal.structures import Distortion, builtin, load

PATH = RESULTS / "crystal_guard_all.json"
Generator = np.random.Generator
Start = tuple[str, Atoms, Calculator]


def metals(rng: Generator) -> Start:
    """Rattle 0.01 to 0.3 A, strain to 5 %, up to one vacancy."""
    name = POOL[int(rng.integers(len(POOL)))]
    distortion = Distortion(rattle=rng.uniform(0.01, 0.3), strain=0.05, vacancies=int(rng.integers(2)))
    return name, distortion(builtin(name), rng), EMT()


def alfe(rng: Generator) -> Start:
    """Each coordinate displaced by up to 0.5 A, no two atoms nearer than 1.5 A."""
    folder = Path(os.environ["TWOFOLD_DATA"]) / "alfe"
    cells = load(folder / "Al-Fe_N=4.csv")
    number = int(rng.integers(len(cells)))
    atoms = Atoms(cells[number].numbers, positions=cells[number].positions, cell=cells[number].cell, pbc=True)
    displaced = Distortion(trans_coef=float(rng.uniform(0.1, 0.5)), r0=1.5)(atoms, rng)
    return f"N=4 #{number}", displaced, calculator_factory(f"eam:{folder / 'AlFe.fs'}")()


@lru_cache(maxsize=1)
def chgnet() -> Calculator:
    return calculator_factory("chgnet")()


def crystals(rng: Generator) -> Start:
    """Rattle 0.01 to 0.2 A."""
    found = nonmetals()
    name = sorted(found)[int(rng.integers(len(found)))]
    return name, shaken(found[name], rng, 0.2), chgnet()


@lru_cache(maxsize=1)
def molecule_pool() -> dict[str, Atoms]:
    """The closed-shell molecules of the g2 set with three atoms or more, and the medicines."""
    found = {name: molecule(name) for name in sorted(g2.names)}
    closed = {n: a for n, a in found.items() if len(a) > 2 and not a.get_initial_magnetic_moments().any()}
    return closed | {atoms.info["name"]: atoms for atoms in read(DATA / "drugs.extxyz", ":")}


def molecules(rng: Generator) -> Start:
    """Rattle 0.01 to 0.15 A."""
    found = molecule_pool()
    name = sorted(found)[int(rng.integers(len(found)))]
    return name, shaken(found[name], rng, 0.15), xtb()


def slabs(rng: Generator) -> Start:
    """Rattle 0.01 to 0.15 A."""
    found = surfaces()
    name = sorted(found)[int(rng.integers(len(found)))]
    return name, shaken(found[name], rng, 0.15), EMT()


KINDS: dict[str, Callable[[Generator], Start]] = {
    "metals": metals,
    "alfe": alfe,
    "surfaces": slabs,
    "crystals": crystals,
    "molecules": molecules,
}
TURNS = ("metals",) * 20 + ("alfe",) * 12 + ("surfaces",) * 6 + ("crystals", "molecules")


def shaken(atoms: Atoms, rng: Generator, most: float) -> Atoms:
    out = atoms.copy()
    out.rattle(float(rng.uniform(0.01, most)), rng=rng)
    return out


def guarded(seed: int, number: int) -> dict[str, Any]:
    """One start relaxed; what came of it."""
    kind = TURNS[7 * number % len(TURNS)]
    name, atoms, calculator = KINDS[kind](np.random.default_rng([seed, number]))
    atoms.calc = Counted(calculator)
    before, error, report = float(atoms.get_potential_energy()), "", None
    relaxer = TD3Relaxer(atoms, logfile=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            relaxer.run(fmax=0.01, steps=500)
            report = relaxer.report
        except Exception as problem:  # whatever a relaxation raises is a failure to be counted
            error = f"{type(problem).__name__}: {problem}"
    found = {"n": number, "kind": kind, "start": name, "atoms": len(atoms), "calls": atoms.calc.calls}
    if report is None:
        return found | {"error": error, "converged": False, "above": False, "engine": relaxer.engine}
    above = report.energy > before + 1e-4 * len(atoms)
    return found | {"error": "", "converged": report.converged, "above": above, "engine": report.engine}


def summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "starts": len(runs),
        "failures": sum(not run["converged"] for run in runs),
        "above the start": sum(run["above"] for run in runs),
        "starts by kind": dict(Counter(run["kind"] for run in runs)),
        "mean calls": {k: round(np.mean([r["calls"] for r in runs if r["kind"] == k]), 2)
                       for k in KINDS if any(r["kind"] == k for r in runs)},
        "finished by": dict(Counter(run["engine"] for run in runs)),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=100)
    parser.add_argument(
        "--again", choices=sorted(KINDS), help="make the runs of this kind again (its step has changed)"
    )
    typed = parser.parse_args()
    kept = json.loads(PATH.read_text()) if PATH.exists() else {"seed": typed.seed, "runs": []}
    here = commit()
    again = [run["n"] for run in kept["runs"] if run["kind"] == typed.again]
    for number in [*again, *range(len(kept["runs"]), typed.starts)]:
        kept["runs"][number : number + 1] = [guarded(kept["seed"], number) | {"commit": here}]
        if number % 20 == 19 or number in (typed.starts - 1, *again[-1:]):
            kept |= {"versions": versions(), "summary": summary(kept["runs"])}
            PATH.write_text(json.dumps(kept, indent=0) + "\n")
            print(json.dumps(kept["summary"]), flush=True)


if __name__ == "__main__":
    main()
