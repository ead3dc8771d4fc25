"""The commands of the domain: relax structures, and compare the ways to do it."""

from __future__ import annotations

import json
import logging
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from ase import Atoms
from ase.calculators.calculator import Calculator
from ase.filters import FrechetCellFilter
from ase.io import write

from twofold.base.errors import UserError
from twofold.base.progress import Tell, task
from twofold.base.values import Values
from twofold.crystal import menu
from twofold.crystal.calculators import Counted, calculator_factory
from twofold.crystal.compare import METHODS, Outcome, Row, compare, method, plot, summary, table
from twofold.crystal.panels import trajectory_panel
from twofold.crystal.relaxer import TD3Relaxer
from twofold.crystal.spring import largest
from twofold.crystal.structures import Distortion, load
from twofold.crystal.viewer import page
from twofold.show.panels import write_panel
from twofold.store.whole import whole

log = logging.getLogger("twofold")
Make = Callable[[], Calculator]


def _started(atoms: Atoms, rattle: float, seed: int) -> Atoms:
    return Distortion(rattle=rattle)(atoms, np.random.default_rng(seed)) if rattle else atoms


# ---- relax ---------------------------------------------------------------------------------------------------------


def relax(asked: menu.Relax) -> int:
    """`twofold relax`: every structure on its own; a bad one does not stop the others."""
    method(asked.optimizer)
    make = calculator_factory(asked.calculator)
    rows = [row for source in asked.structures for row in _relax_source(source, asked, make)]
    _print_rows(rows)
    return 0 if all(row["state"] == "relaxed" for row in rows) else 1


def _relax_source(source: str, asked: menu.Relax, make: Make) -> list[Row]:
    """All structures of one file; a file that cannot be read is one failed row."""
    try:
        found = load(source)
        if not found:
            raise UserError(f"{source}: holds no structure")
    except UserError as problem:
        return [_failed(source, str(problem))]
    rows = []
    for number, atoms in enumerate(found):
        name = source if len(found) == 1 else f"{source}#{number}"
        try:
            rows.append(_relax_one(name, atoms, asked, make))
        except UserError as problem:
            rows.append(_failed(name, str(problem)))
        except (
            Exception
        ) as problem:  # a calculator or writer failing on this structure must not stop the others
            rows.append(_failed(name, f"{type(problem).__name__}: {problem}"))
    return rows


def _failed(name: str, why: str) -> Row:
    print(f"twofold relax: {why if name in why else f'{name}: {why}'}", file=sys.stderr)
    return {
        "structure": name,
        "atoms": "",
        "calls": "",
        "energy": "",
        "fmax": "",
        "engine": "",
        "state": "FAILED",
    }


def _relax_one(name: str, atoms: Atoms, asked: menu.Relax, make: Make) -> Row:
    atoms = _started(atoms, asked.rattle, asked.seed)
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
    if asked.out:
        _write(atoms, name, asked)
    report = optimiser.report if isinstance(optimiser, TD3Relaxer) else None
    return {
        "structure": name,
        "atoms": len(atoms),
        "calls": atoms.calc.calls,
        "energy": f"{atoms.get_potential_energy():.5f}",
        "fmax": f"{largest(atoms.get_forces()):.5f}",
        "engine": report.engine if report else asked.optimizer,
        "state": "relaxed" if converged else "NOT CONVERGED",
    }


def _said(atoms: Atoms) -> str:
    return f"{atoms.get_potential_energy():.3f} eV, {largest(atoms.get_forces()):.4f} eV/A"


def _write(atoms: Atoms, name: str, asked: menu.Relax) -> None:
    """To the named file; with many structures, or a folder, one file each."""
    out = Path(str(asked.out))
    if str(asked.out).endswith("/") or out.is_dir() or len(asked.structures) > 1 or "#" in name:
        out.mkdir(parents=True, exist_ok=True)
        place = Path(name.split("#")[0])
        number = f"_{name.split('#')[1]}" if "#" in name else ""
        suffix = place.suffix if place.suffix not in ("", ".csv") else ".cif"
        out = out / f"{place.stem.replace('*', '_').replace(':', '_')}{number}{suffix}"
    try:
        with whole(out) as beside:
            write(beside, atoms)
    except Exception as problem:  # ASE's many writers fail in as many ways
        raise UserError(f"cannot write {out}: {problem}") from None


def _print_rows(rows: list[Row]) -> None:
    lines = [[str(name) for name in rows[0]], *([str(value) for value in row.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)).rstrip())


# ---- relax-compare -------------------------------------------------------------------------------------------------


def relax_compare(asked: menu.RelaxCompare) -> int:
    """`twofold relax-compare`: all methods from the same starts, with a table, a plot and a page."""
    methods = tuple(name.strip().lower() for name in (asked.methods or ",".join(METHODS)).split(","))
    for name in methods:
        method(name)
    starts = _starts(asked)
    with task("comparing", len(starts) * len(methods)) as tell:
        told = _Told(tell)
        outcomes = compare(
            starts, calculator_factory(asked.calculator), methods,
            fmax=asked.fmax, steps=asked.steps, cell=asked.cell, progress=told,
        )  # fmt: skip
    out = asked.out
    out.mkdir(parents=True, exist_ok=True)
    text = table(summary(outcomes))
    (out / "table.md").write_text(text + "\n", encoding="utf-8")
    (out / "runs.json").write_text(json.dumps([_plain(o) for o in outcomes], indent=1), encoding="utf-8")
    plot(outcomes, out / "forces.png", asked.fmax)
    title = "Relaxation: " + ", ".join(asked.structures)
    (out / "page.html").write_text(page(outcomes, title, asked.fmax), encoding="utf-8")
    if asked.panel:
        shown = next((o for o in outcomes if o.method == "td3" and o.frames), outcomes[0])
        write_panel(asked.panel, "relaxation", trajectory_panel(shown))
    print(text)
    for name in ("table.md", "runs.json", "forces.png", "page.html"):
        print(f"wrote      {out / name}")
    return 0


def _starts(asked: menu.RelaxCompare) -> dict[str, Atoms]:
    starts = {}
    for source in asked.structures:
        for number, atoms in enumerate(load(source)):
            for seed in range(asked.seed, asked.seed + max(1, asked.seeds if asked.rattle else 1)):
                starts[f"{source}#{number} seed {seed}"] = _started(atoms, asked.rattle, seed)
    return starts


class _Told:
    """Says how each method fared, and how many are done."""

    def __init__(self, tell: Tell) -> None:
        self._tell, self._done = tell, 0

    def __call__(self, outcome: Outcome) -> None:
        self._done += 1
        self._tell(self._done, outcome.method)
        state = "relaxed" if outcome.converged else f"FAILED {outcome.error}"
        log.info("%-30s %-15s %5d calls  %s", outcome.start, outcome.method, outcome.calls, state)


def _plain(outcome: Outcome) -> Values:
    names = (
        "start",
        "method",
        "calls",
        "seconds",
        "energy",
        "fmax",
        "converged",
        "error",
        "same_minimum",
        "forces",
    )
    return {name: getattr(outcome, name) for name in names}


# ---- relax-export --------------------------------------------------------------------------------------------------


def relax_export(asked: menu.RelaxExport) -> int:
    """`twofold relax-export`: a run's best policy as a file that TD3Relaxer reads."""
    from twofold.crystal.export import export_policy
    from twofold.crystal.policy import DEFAULT

    if asked.default and asked.out:
        raise UserError("relax-export takes --out or --default, not both")
    path = asked.out or (DEFAULT if asked.default else asked.run / "relaxer.safetensors")
    score = export_policy(asked.run, path)
    print(f"policy     step {score['step']}, by {score['chosen by']}")
    print(f"wrote      {path}")
    return 0
