"""Relaxing one structure after the other: each ends as a row, whatever happens to it."""

from __future__ import annotations

import hashlib
import json
import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from ase import Atoms
from ase.calculators.calculator import Calculator
from ase.filters import FrechetCellFilter
from ase.io import write

from twofold.base.errors import UserError
from twofold.base.progress import task
from twofold.base.regular import is_file, is_folder, read_regular
from twofold.crystal.calculators import Counted
from twofold.crystal.compare import method
from twofold.crystal.menu import Relax
from twofold.crystal.relaxer import TD3Relaxer
from twofold.crystal.sources import Found
from twofold.crystal.spring import largest
from twofold.crystal.structures import Distortion
from twofold.crystal.table import COLUMNS, DEATHS, NOT_CONVERGED, RELAXED, Row, Table, failed
from twofold.store.whole import whole

Make = Callable[[], Calculator]
Say = Callable[[Row], None]
_MAX_BYTES = 128_000_000
_WRITABLE = (".cif", ".vasp", ".xyz", ".extxyz", ".traj", ".xsf", ".pdb", ".gen")


def relax_all(found: Sequence[Found], asked: Relax, make: Make, table: Table, say: Say) -> list[Row]:
    """Every structure in its turn; rows that the table has already are kept."""
    places = output_paths(found, asked.out, table.rows)
    how, rows = settings_of(asked), []
    for one in found:
        digest = digest_of(one, how)
        row = table.kept(one.name, digest, places.get(one.name))
        if row is None:
            row = table.add(_row(one, digest, asked, make, table, places.get(one.name, "")))
            say(row)
        rows.append(row)
    return rows


def _row(one: Found, digest: str, asked: Relax, make: Make, table: Table, place: str) -> Row:
    if one.atoms is None:
        return failed(one.name, one.problem)
    if (deaths := table.deaths(digest)) >= DEATHS:
        return failed(one.name, f"the process died {deaths} times while it relaxed this", digest)
    try:
        with table.attempt(digest):
            return _relaxed(one.name, one.atoms, asked, make, place) | {"digest": digest}
    except UserError as problem:
        return failed(one.name, str(problem), digest)
    except Exception as problem:  # a calculator or writer failing on this structure must not stop the others
        return failed(one.name, f"{type(problem).__name__}: {problem}", digest)


def _relaxed(name: str, start: Atoms, asked: Relax, make: Make, place: str) -> Row:
    atoms, began = started(start, asked.rattle, asked.seed), time.perf_counter()
    atoms.calc = Counted(make())
    optimiser = method(asked.optimizer)(FrechetCellFilter(atoms) if asked.cell else atoms)
    if asked.trajectory:
        from ase.io.trajectory import Trajectory

        optimiser.attach(Trajectory(asked.trajectory, "w", atoms))
    with task(f"relaxing {name}"[:40], asked.steps) as tell, warnings.catch_warnings():
        if not asked.quiet:
            optimiser.attach(lambda: tell(optimiser.nsteps, _said(atoms)))
        warnings.simplefilter("ignore")  # the table says what did not converge
        converged = bool(optimiser.run(fmax=asked.fmax, steps=asked.steps))
    energy, fmax = float(atoms.get_potential_energy()), largest(atoms.get_forces())
    if place:
        _write(atoms, Path(place))
    reason = "" if converged else f"{fmax:.3g} eV/A after {asked.steps} steps: raise --steps"
    cells = (
        name, len(atoms), atoms.calc.calls, f"{energy:.6f}", f"{fmax:.6f}", f"{time.perf_counter() - began:.2f}",
        asked.calculator, optimiser.report.engine if isinstance(optimiser, TD3Relaxer) and optimiser.report
        else asked.optimizer, RELAXED if converged else NOT_CONVERGED, reason, place, "",
    )  # fmt: skip
    return dict(zip(COLUMNS, map(str, cells), strict=True))


def started(atoms: Atoms, rattle: float, seed: int) -> Atoms:
    """A copy to begin with, displaced where that is asked for."""
    return Distortion(rattle=rattle)(atoms, np.random.default_rng(seed)) if rattle else atoms.copy()


def _said(atoms: Atoms) -> str:
    return f"{atoms.get_potential_energy():.3f} eV, {largest(atoms.get_forces()):.4f} eV/A"


def _write(atoms: Atoms, place: Path) -> None:
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with whole(place) as beside:
            write(beside, atoms)
    except Exception as problem:  # ASE's many writers fail in as many ways
        raise UserError(f"cannot write {place}: {problem}") from None


# ---- what makes a row the same row ---------------------------------------------------------------------------------


def settings_of(asked: Relax) -> str:
    """All that a result depends on beside the structure, as one text."""
    named = [asked.calculator.partition(":")[2], *asked.import_]
    contents = {
        name: hashlib.blake2b(read_regular(name, _MAX_BYTES, follow=True)).hexdigest()
        for name in filter(None, named)
        if is_file(name)
    }
    chosen = (
        asked.calculator,
        asked.optimizer,
        asked.fmax,
        asked.steps,
        asked.cell,
        asked.rattle,
        asked.seed,
    )
    return json.dumps([chosen, contents])


def digest_of(one: Found, settings: str) -> str:
    """A name for a structure with its settings, equal only where all of it is; empty where there is none."""
    if one.atoms is None:
        return ""
    atoms = one.atoms
    hashed = hashlib.blake2b(settings.encode(), digest_size=12)
    arrays = (atoms.numbers, atoms.positions, atoms.cell.array, atoms.pbc.astype(np.int8))
    for array in (*arrays, atoms.get_initial_magnetic_moments(), atoms.get_initial_charges()):
        hashed.update(np.ascontiguousarray(array).tobytes() + b"|")
    hashed.update(repr([constraint.todict() for constraint in atoms.constraints]).encode())
    return hashed.hexdigest()


# ---- where results go ----------------------------------------------------------------------------------------------


def output_paths(found: Sequence[Found], out: str | None, known: Mapping[str, Row]) -> dict[str, str]:
    """The file of every structure: the one that was named, or one each in a folder; rows keep theirs."""
    if out is None:
        return {}
    if len(found) == 1 and not out.endswith("/") and not is_folder(out):
        return {found[0].name: out}
    folder, taken = Path(out), set()
    places: dict[str, str] = {}
    for one in found:
        before = Path(known[one.name]["file"]) if one.name in known else Path()
        if before.parent == folder and before.name and str(before) not in taken:
            places[one.name] = str(before)
            taken.add(str(before))
    stems = [_stem(one.name) for one in found]
    often = Counter(stems)
    for one, stem in zip(found, stems, strict=True):
        if one.name not in places:
            parent = Path(one.name).parent.name
            base = f"{parent}_{stem}" if often[stem] > 1 and parent else stem
            places[one.name] = _free(folder, base, _suffix(one), taken)
    return places


def _stem(name: str) -> str:
    """The name of a structure as that of a file, without what says its kind."""
    place, at, number = name.rpartition("@")
    path = Path(place if at and number.isdigit() else name)
    base = path.name
    while Path(base).suffix in (*_WRITABLE, ".gz", ".bz2", ".xz", ".csv"):
        base = Path(base).stem
    plain = base.replace("*", "_").replace(":", "_")
    return f"{plain}_{number}" if at and number.isdigit() else plain


def _suffix(one: Found) -> str:
    """The kind of the input where it can be written, else CIF for crystals and extxyz for molecules."""
    suffixes = [s for s in Path(one.name.rpartition("@")[0] or one.name).suffixes if s in _WRITABLE]
    crystal = one.atoms is None or bool(one.atoms.pbc.any())
    return suffixes[-1] if suffixes else ".cif" if crystal else ".extxyz"


def _free(folder: Path, base: str, suffix: str, taken: set[str]) -> str:
    place, number = str(folder / f"{base}{suffix}"), 2
    while place in taken:
        place, number = str(folder / f"{base}_{number}{suffix}"), number + 1
    taken.add(place)
    return place
