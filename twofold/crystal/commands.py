"""The commands of the domain: relax structures, and compare the ways to do it."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from ase import Atoms
from ase.calculators.calculator import Calculator
from ase.filters import FrechetCellFilter
from ase.io import write
from ase.optimize.optimize import Optimizer

from twofold.base.errors import UserError
from twofold.base.regular import is_file, is_folder, is_there
from twofold.base.values import Values
from twofold.crystal.calculators import NAMES, Counted, calculator_factory
from twofold.crystal.compare import METHODS, Outcome, Row, compare, method, plot, summary, table
from twofold.crystal.panels import trajectory_panel
from twofold.crystal.relaxer import TD3Relaxer
from twofold.crystal.spring import largest
from twofold.crystal.structures import Distortion, load
from twofold.crystal.viewer import page
from twofold.show.panels import write_panel
from twofold.store import files

Make = Callable[[], Calculator]
RELAX_HELP = f"""examples:
  twofold relax in.cif -o out.cif --calculator=emt --fmax=0.01
  twofold relax *.vasp -o relaxed/ --calculator=eam:AlFe.fs --cell
  twofold relax in.cif --optimizer=bfgs --trajectory=path.traj
  twofold relax 'Cu*2x2x2' --rattle=0.1 -o out.cif

calculators: {NAMES}
optimisers: {", ".join(METHODS)} (td3 is ours with its trained policy, prior the same without it)
The exit code is 0 only if every structure was relaxed to --fmax."""
COMPARE_HELP = """examples:
  twofold relax-compare 'Cu*2x2x2' 'Ni3Al:L12*2x2x2' --rattle=0.1 --seeds=5 --out=comparison
  twofold relax-compare in.cif --calculator=chgnet --methods=td3,bfgs,fire --rattle=0.05

Writes OUT/table.md, runs.json, forces.png and page.html (trajectories to turn and play, in one file)."""
EXPORT_HELP = """examples:
  twofold relax-export runs/RUN -o mine.safetensors      then TD3Relaxer(atoms, policy="mine.safetensors")
  twofold relax-export runs/RUN --default                replaces the policy inside the package

The file is an ordinary policy file; it also holds the command, seed, versions, data and scores of the run."""


def _arguments(name: str, epilog: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"twofold {name}", epilog=epilog, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "structures", nargs="+", help="files (CIF, POSCAR, extxyz, CSV of CIF text) or e.g. 'Cu*2x2x2'"
    )
    parser.add_argument("--calculator", default="emt", help="who gives the forces (default emt)")
    parser.add_argument("--fmax", type=float, default=0.01, help="largest force allowed, eV/A (default 0.01)")
    parser.add_argument("--steps", type=int, default=500, help="most steps (default 500)")
    parser.add_argument("--cell", action="store_true", help="relax the cell too (FrechetCellFilter)")
    parser.add_argument(
        "--rattle", type=float, default=0.0, help="displace the start by this standard deviation, A"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the displacement")
    return parser


def _check_numbers(typed: argparse.Namespace) -> None:
    if not 0 < typed.fmax < 1e6:
        raise UserError(f"--fmax must be above 0 and finite, got {typed.fmax}")
    if not 0 <= typed.steps <= 10_000_000 or not 0 <= typed.seed < 2**63:
        raise UserError(
            f"--steps and --seed must not be negative or huge, got {typed.steps} and {typed.seed}"
        )
    Distortion(rattle=typed.rattle)


def _started(atoms: Atoms, rattle: float, seed: int) -> Atoms:
    return Distortion(rattle=rattle)(atoms, np.random.default_rng(seed)) if rattle else atoms


# ---- relax ---------------------------------------------------------------------------------------------------------


def relax(argv: list[str]) -> int:
    """`twofold relax`: every structure on its own; a bad one does not stop the others."""
    parser = _arguments("relax", RELAX_HELP)
    parser.description = "Relax crystal structures in few force calls."
    parser.add_argument("-o", "--out", help="output file, or a folder (ends with /) for many structures")
    parser.add_argument("--optimizer", default="td3", help="td3, bfgs, fire, ... (default td3)")
    parser.add_argument("--trajectory", help="ASE trajectory of the path (one structure only)")
    parser.add_argument("--quiet", action="store_true", help="no progress line")
    typed = parser.parse_args(argv)
    _check_numbers(typed)
    for name in (typed.out, typed.trajectory):
        if name and is_there(name) and not (is_file(name) or (name == typed.out and is_folder(name))):
            raise UserError(f"{name} is not a file that can be written")
    method(typed.optimizer)
    make = calculator_factory(typed.calculator)
    rows = [row for source in typed.structures for row in _relax_source(source, typed, make)]
    _print_rows(rows)
    return 0 if all(row["state"] == "relaxed" for row in rows) else 1


def _relax_source(source: str, typed: argparse.Namespace, make: Make) -> list[Row]:
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
            rows.append(_relax_one(name, atoms, typed, make))
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


def _relax_one(name: str, atoms: Atoms, typed: argparse.Namespace, make: Make) -> Row:
    atoms = _started(atoms, typed.rattle, typed.seed)
    atoms.calc = Counted(make())
    optimiser = method(typed.optimizer)(FrechetCellFilter(atoms) if typed.cell else atoms)
    if typed.trajectory:
        from ase.io.trajectory import Trajectory

        optimiser.attach(Trajectory(typed.trajectory, "w", atoms))
    if not typed.quiet:
        optimiser.attach(lambda: _progress(name, atoms, optimiser))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the table says what did not converge
        converged = bool(optimiser.run(fmax=typed.fmax, steps=typed.steps))
    if not typed.quiet:
        print(file=sys.stderr)
    if typed.out:
        _write(atoms, name, typed)
    report = optimiser.report if isinstance(optimiser, TD3Relaxer) else None
    return {
        "structure": name,
        "atoms": len(atoms),
        "calls": atoms.calc.calls,
        "energy": f"{atoms.get_potential_energy():.5f}",
        "fmax": f"{largest(atoms.get_forces()):.5f}",
        "engine": report.engine if report else typed.optimizer,
        "state": "relaxed" if converged else "NOT CONVERGED",
    }


def _progress(name: str, atoms: Atoms, optimiser: Optimizer) -> None:
    line = f"{name}  step {optimiser.nsteps:4d}  energy {atoms.get_potential_energy():14.6f} eV  "
    line += f"largest force {largest(atoms.get_forces()):9.5f} eV/A"
    print(line, end="\r" if sys.stderr.isatty() else "\n", file=sys.stderr, flush=True)


def _write(atoms: Atoms, name: str, typed: argparse.Namespace) -> None:
    """To the named file; with many structures, or a folder, one file each."""
    out = Path(typed.out)
    if typed.out.endswith("/") or is_folder(out) or len(typed.structures) > 1 or "#" in name:
        out.mkdir(parents=True, exist_ok=True)
        place = Path(name.split("#")[0])
        number = f"_{name.split('#')[1]}" if "#" in name else ""
        suffix = place.suffix if place.suffix not in ("", ".csv") else ".cif"
        out = out / f"{place.stem.replace('*', '_').replace(':', '_')}{number}{suffix}"
    try:
        write(out, atoms)
    except Exception as problem:  # ASE's many writers fail in as many ways
        raise UserError(f"cannot write {out}: {problem}") from None


def _print_rows(rows: list[Row]) -> None:
    lines = [[str(name) for name in rows[0]], *([str(value) for value in row.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)).rstrip())


# ---- relax-compare -------------------------------------------------------------------------------------------------


def relax_compare(argv: list[str]) -> int:
    """`twofold relax-compare`: all methods from the same starts, with a table, a plot and a page."""
    parser = _arguments("relax-compare", COMPARE_HELP)
    parser.description = "Compare optimisers from the same starts, by exact force calls."
    parser.add_argument("--methods", default=",".join(METHODS), help="comma-separated (default: all)")
    parser.add_argument(
        "--seeds", type=int, default=1, help="displaced starts per structure (needs --rattle)"
    )
    parser.add_argument("--out", default="relax-compare", help="folder for table, plot and page")
    parser.add_argument(
        "--panel", type=Path, metavar="RUN", help="also show the first path of td3 on RUN's page"
    )
    typed = parser.parse_args(argv)
    _check_numbers(typed)
    methods = tuple(name.strip().lower() for name in typed.methods.split(","))
    for name in methods:
        method(name)
    out = files.own_folder(Path(typed.out), "table.md", "runs.json", "forces.png", "page.html")
    starts = _starts(typed)
    outcomes = compare(
        starts, calculator_factory(typed.calculator), methods,
        fmax=typed.fmax, steps=typed.steps, cell=typed.cell, progress=_tell,
    )  # fmt: skip
    text = table(summary(outcomes))
    files.replace_bytes(out / "table.md", f"{text}\n".encode(errors="replace"))
    files.replace_bytes(out / "runs.json", files.to_json([_plain(o) for o in outcomes]))
    plot(outcomes, out / "forces.png", typed.fmax)
    title = "Relaxation: " + ", ".join(typed.structures)
    files.replace_bytes(out / "page.html", page(outcomes, title, typed.fmax).encode(errors="replace"))
    if typed.panel:
        shown = next((o for o in outcomes if o.method == "td3" and o.frames), outcomes[0])
        write_panel(typed.panel, "relaxation", trajectory_panel(shown))
    print(text)
    for name in ("table.md", "runs.json", "forces.png", "page.html"):
        print(f"wrote      {out / name}")
    return 0


def _starts(typed: argparse.Namespace) -> dict[str, Atoms]:
    starts = {}
    for source in typed.structures:
        for number, atoms in enumerate(load(source)):
            for seed in range(typed.seed, typed.seed + max(1, typed.seeds if typed.rattle else 1)):
                starts[f"{source}#{number} seed {seed}"] = _started(atoms, typed.rattle, seed)
    return starts


def _tell(outcome: Outcome) -> None:
    state = "relaxed" if outcome.converged else f"FAILED {outcome.error}"
    print(f"{outcome.start:<30} {outcome.method:<15} {outcome.calls:5d} calls  {state}", file=sys.stderr)


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


def relax_export(argv: list[str]) -> int:
    """`twofold relax-export`: a run's best policy as a file that TD3Relaxer reads."""
    from twofold.crystal.export import export_policy
    from twofold.crystal.policy import DEFAULT

    parser = argparse.ArgumentParser(
        prog="twofold relax-export",
        description="Write the best policy of a run in crystal/spring as a file for TD3Relaxer(policy=FILE).",
        epilog=EXPORT_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("run", type=Path, help="run directory")
    parser.add_argument("-o", "--out", type=Path, help="policy file (default: RUN/relaxer.safetensors)")
    parser.add_argument(
        "--default", action="store_true", help="into the package: what TD3Relaxer takes by itself"
    )
    typed = parser.parse_args(argv)
    if typed.default and typed.out:
        raise UserError("relax-export takes --out or --default, not both")
    path = typed.out or (DEFAULT if typed.default else typed.run / "relaxer.safetensors")
    score = export_policy(typed.run, path)
    print(f"policy     step {score['step']}, by {score['chosen by']}")
    print(f"wrote      {path}")
    return 0
