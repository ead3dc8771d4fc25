"""Force calls of the crystal relaxer against the optimisers people use; results in benchmarks/results/crystal/.

    python benchmarks/crystal.py emt --first=100
    TWOFOLD_DATA=... python benchmarks/crystal.py alfe --first=100
    python benchmarks/crystal.py heldout --first=100; python benchmarks/crystal.py size --first=100
    python benchmarks/crystal.py chgnet --first=100 --seeds=3; python benchmarks/crystal.py guard --first=100
    python benchmarks/crystal.py table; python benchmarks/crystal.py exact; python benchmarks/crystal.py report

Each part keeps one JSON of runs; --methods replaces only the named methods (name bfgs too: minima are held against
its). Starts have fixed seeds that training never draws (its seeds are above 2**30). The constants of the prior were
tuned on the seeds 0 to 9, so recorded tables begin at --first=100.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import crystal_systems
import numpy as np
from ase import Atoms
from ase.build import bulk
from ase.calculators.calculator import Calculator
from ase.calculators.emt import EMT
from ase.filters import FrechetCellFilter
from ase.optimize import BFGS
from ase.spacegroup import crystal

from twofold.crystal.calculators import calculator_factory
from twofold.crystal.compare import GPMIN_LIMIT, METHODS, Outcome, run_one, same_minimum
from twofold.crystal.structures import Distortion, builtin, load

RESULTS = Path(__file__).parent / "results" / "crystal"
ALL = ",".join(name for name in METHODS if name != "td3_bfgs")  # GPMin is left out where cells are large
FRESH = 100  # the first seed that no constant was tuned on
Start = tuple[str, str, Atoms, Callable[[], Calculator]]  # row, name, atoms, calculator


def settled(atoms: Atoms) -> Atoms:
    """At EMT's own lattice constant."""
    out = atoms.copy()
    out.calc = EMT()
    BFGS(FrechetCellFilter(out, hydrostatic_strain=True), logfile=None).run(fmax=1e-4, steps=300)
    return Atoms(out.numbers, positions=out.positions, cell=out.cell, pbc=True)


def rattled(atoms: Atoms, by: float, seed: int) -> Atoms:
    out = atoms.copy()
    out.rattle(by, seed=seed)
    return out


def emt_systems() -> dict[str, Atoms]:
    """Eleven crystals of copper, aluminium, nickel and their ordered alloys, 2 to 32 atoms."""
    found: dict[str, Atoms] = {}
    for element in ("Cu", "Al", "Ni"):
        found[f"{element}4"] = settled(bulk(element, cubic=True))
        found[f"{element}32"] = found[f"{element}4"].repeat(2)
    found["Cu8p"] = settled(bulk("Cu")).repeat(2)
    found["NiAl2_B2"] = settled(builtin("NiAl:B2"))
    found["NiAl16_B2"] = found["NiAl2_B2"].repeat(2)
    found["Ni3Al4_L12"] = settled(builtin("Ni3Al:L12"))
    found["Ni3Al32_L12"] = found["Ni3Al4_L12"].repeat(2)
    return found


def emt_starts(first: int, seeds: int) -> Iterator[Start]:
    systems = emt_systems()
    for seed in range(first, first + (seeds or 5)):
        for name, atoms in systems.items():
            for by in (0.05, 0.1):
                yield f"{name} {by}", f"{name} {by} {seed}", rattled(atoms, by, seed), EMT


def table_starts(first: int, seeds: int) -> Iterator[Start]:
    """The starts of seeds 0 to 4, on which the constants of the prior were tuned: a check, not a result."""
    return emt_starts(0, 5)


def heldout_starts(first: int, seeds: int) -> Iterator[Start]:
    """Elements and ternaries that training never saw, larger cells, a vacancy and a strained cell."""
    for element in ("Ag", "Pt"):
        cell = settled(bulk(element, cubic=True)).repeat(2)
        for seed in range(first, first + (seeds or 5)):
            yield f"{element}32 0.1", f"{element} {seed}", rattled(cell, 0.1, seed), EMT
    base = settled(bulk("Pd", cubic=True)).repeat(2)
    for mix in ("CuAuPd", "NiPtAg", "CuAuPdNi"):
        symbols = [s for s in ("Cu", "Au", "Pd", "Ni", "Pt", "Ag") if s in mix]
        for seed in range(first, first + (seeds or 5)):
            atoms = base.copy()
            atoms.symbols = np.random.default_rng(seed).choice(symbols, len(atoms))
            yield f"{mix}32 0.05", f"{mix} {seed}", rattled(atoms, 0.05, seed), EMT
    vacancy = settled(bulk("Cu", cubic=True)).repeat(2)[1:]
    for seed in range(first, first + (seeds or 5)):
        yield "Cu31 vacancy 0.1", f"vacancy {seed}", rattled(vacancy, 0.1, seed), EMT


def size_starts(first: int, seeds: int) -> Iterator[Start]:
    cell = settled(bulk("Cu", cubic=True))
    for times in (2, 3):
        atoms = cell.repeat(times)
        for seed in range(first, first + (seeds or 5)):
            yield f"Cu{len(atoms)} 0.1", f"Cu{len(atoms)} {seed}", rattled(atoms, 0.1, seed), EMT


def alfe_starts(first: int, seeds: int) -> Iterator[Start]:
    """The structures of Trukhan et al., relaxed, then each coordinate displaced by up to 0.5 A (back-off at 1.5 A)."""
    folder = Path(os.environ["TWOFOLD_DATA"]) / "alfe"
    make = calculator_factory(f"eam:{folder / 'AlFe.fs'}")
    distortion = Distortion(trans_coef=0.5, r0=1.5)
    times = {"AlFe": 10, "AlandFe_mono": 2, "Al-Fe_N=2-3": 2, "Al-Fe_N=4": 1, "AlFe7": 10}
    for name, repeats in times.items():
        for number, atoms in enumerate(load(folder / f"{name}.csv")):
            rest = Atoms(atoms.numbers, positions=atoms.positions, cell=atoms.cell, pbc=True)
            rest = rest.repeat((2, 1, 1)) if len(rest) == 1 else rest
            rest.calc = make()
            BFGS(rest, logfile=None).run(fmax=0.01, steps=500)
            rest.calc = None
            for seed in range(first, first + (seeds or repeats)):
                yield (
                    name,
                    f"{name}#{number} {seed}",
                    distortion(rest, np.random.default_rng(1000 * seed + number)),
                    make,
                )


def chgnet_starts(first: int, seeds: int) -> Iterator[Start]:
    """Oxides and halides of 8 to 24 atoms, as ASE builds them, rattled by 0.1 A."""
    make = calculator_factory("chgnet")
    cubic = [90, 90, 90]
    cells = {
        "NaCl8": bulk("NaCl", "rocksalt", a=5.69, cubic=True),
        "MgO8": bulk("MgO", "rocksalt", a=4.21, cubic=True),
        "CaF2_12": crystal(["Ca", "F"], [(0, 0, 0), (0.25, 0.25, 0.25)], spacegroup=225, cellpar=[5.46] * 3 + cubic),
        "TiO2_12": crystal(["Ti", "O"], [(0, 0, 0), (0.305, 0.305, 0)], spacegroup=136,
                           cellpar=[4.6, 4.6, 2.96, *cubic]).repeat((1, 1, 2)),
        "SrTiO3_10": crystal(["Sr", "Ti", "O"], [(0, 0, 0), (0.5, 0.5, 0.5), (0.5, 0.5, 0)], spacegroup=221,
                             cellpar=[3.92] * 3 + cubic).repeat((1, 1, 2)),
    }  # fmt: skip
    for name, atoms in cells.items():
        for seed in range(first, first + (seeds or 1)):
            yield f"{name} 0.1", f"{name} {seed}", rattled(atoms, 0.1, seed), make


PARTS: dict[str, tuple[Callable[[int, int], Iterator[Start]], str]] = {
    "emt": (emt_starts, ALL),
    "table": (table_starts, "td3,prior,bfgs,bfgslinesearch"),
    "heldout": (heldout_starts, ALL),
    "size": (size_starts, "td3,prior,bfgs,bfgs15,lbfgs,bfgslinesearch,fire,fire2,preconlbfgs"),
    "alfe": (alfe_starts, ALL),
    "chgnet": (chgnet_starts, "td3,prior,bfgs,bfgs15,bfgslinesearch,fire"),
    "molecules": (crystal_systems.molecule_starts, "td3,prior,bfgs15,bfgs,lbfgs,bfgslinesearch,sella"),
    "drugs": (crystal_systems.drug_starts, "td3,prior,bfgs15,bfgslinesearch,sella"),
    "nonmetals": (crystal_systems.crystal_starts, "td3,prior,bfgs15"),
    "cells": (crystal_systems.cell_starts, "td3,prior,bfgs15"),
    "surfaces": (crystal_systems.surface_starts, "td3,prior,bfgs15,bfgs,bfgslinesearch"),
    "slabs": (crystal_systems.slab_starts, "td3,bfgs15"),
    "forks": (crystal_systems.fork_starts, "td3,prior,bfgs,bfgs15"),
    "dft": (crystal_systems.dft_starts, "td3,bfgs15,bfgs,lbfgs,bfgslinesearch"),
}
CELLS = ("cells",)  # parts in which the cell relaxes with its atoms


def versions() -> dict[str, str]:
    """Of what a result depends on, as far as it is installed."""
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": platform.python_version()}
    for package in ("ase", "matscipy", "numpy", "scipy", "torch", "chgnet", "tblite", "sella"):
        with contextlib.suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def commit() -> str:
    """Of the code that is measured; `-dirty` where that code was changed after it."""
    git = partial(subprocess.run, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    found = git(["git", "rev-parse", "--short", "HEAD"]).stdout.strip()
    changed = git(["git", "status", "--porcelain", "--", "../twofold", ":(glob)*.py"]).stdout.strip()
    return f"{found}-dirty" if changed else found


def record(
    part: str, methods: tuple[str, ...], first: int, seeds: int, resume: bool = False, rows: str = ""
) -> None:
    """Run these methods from every start of a part and put them into its JSON beside the other methods."""
    path = RESULTS / f"crystal_{part}.json"
    kept = json.loads(path.read_text()) if path.exists() else {"runs": [], "commands": []}
    kept["runs"] = [
        run for run in kept["runs"] if (resume and not run["error"]) or run["method"] not in methods
    ]
    done = {(run["start"], run["method"]) for run in kept["runs"]}
    before = kept["commands"] if kept["runs"] else []
    kept["commands"] = [*before, shlex.join(["python", "benchmarks/crystal.py", *sys.argv[1:]])]
    kept |= {"versions": versions(), "fmax": 0.01, "made": time.strftime("%Y-%m-%d")}
    here = commit()
    for row, name, atoms, make in PARTS[part][0](first, seeds):
        if rows and row not in rows.split(","):
            continue
        found = {
            method: run_one(name, atoms, method, make(), fmax=0.01, steps=500, cell=part in CELLS)
            for method in methods
            if (name, method) not in done and (method != "gpmin" or len(atoms) <= GPMIN_LIMIT)
        }
        for outcome in found.values():
            kept["runs"].append(_kept(row, outcome) | {"commit": here})
            if "bfgs" in found:
                kept["runs"][-1]["same_minimum"] = _same(outcome, found["bfgs"])
        print(name, {m: o.calls for m, o in found.items()}, file=sys.stderr, flush=True)
        path.write_text(json.dumps(kept, indent=0) + "\n")


def _same(one: Outcome, other: Outcome) -> bool:
    assert one.final is not None and other.final is not None
    return same_minimum(one.final, other.final, one.energy, other.energy)


def _kept(row: str, outcome: Outcome) -> dict[str, Any]:
    assert outcome.final is not None
    return {
        "row": row,
        "start": outcome.start,
        "method": outcome.method,
        "atoms": len(outcome.final),
        "calls": outcome.calls,
        "energy": round(outcome.energy, 6),
        "fmax": round(outcome.fmax, 6),
        "converged": outcome.converged,
        "error": outcome.error,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=[*PARTS, "guard", "exact", "report"])
    parser.add_argument("--methods", default="")
    parser.add_argument(
        "--first", type=int, default=FRESH, help=f"first seed of the starts (default {FRESH})"
    )
    parser.add_argument("--seeds", type=int, default=0, help="starts per crystal; 0: the part's own number")
    parser.add_argument(
        "--resume", action="store_true", help="keep the runs that are there already and did not fail"
    )
    parser.add_argument("--rows", default="", help="these alone, separated by commas")
    typed = parser.parse_args()
    if typed.part in PARTS:
        methods = tuple((typed.methods or PARTS[typed.part][1]).split(","))
        record(typed.part, methods, typed.first, typed.seeds, typed.resume, typed.rows)
    elif typed.part == "report":
        import crystal_report

        crystal_report.report()
    else:
        import crystal_checks

        getattr(crystal_checks, typed.part)(typed.first, typed.seeds)


if __name__ == "__main__":
    main()
