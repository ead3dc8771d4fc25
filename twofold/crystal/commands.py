"""The commands of the domain: relax structures, and compare the ways to do it."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable

from ase import Atoms
from ase.calculators.calculator import Calculator

from twofold.base.errors import UserError
from twofold.base.messages import printable
from twofold.base.progress import Tell, task
from twofold.base.regular import is_file, is_folder, is_there
from twofold.base.values import Values
from twofold.crystal import menu
from twofold.crystal.calculators import calculator_factory
from twofold.crystal.compare import METHODS, Outcome, compare, method, plot, summary
from twofold.crystal.compare import table as table_of
from twofold.crystal.panels import trajectory_panel
from twofold.crystal.parts import Parts
from twofold.crystal.relaxing import relax_all, started
from twofold.crystal.sources import Found, find
from twofold.crystal.structures import Distortion, load
from twofold.crystal.table import FAILED, RELAXED, Row, Table
from twofold.crystal.viewer import page
from twofold.jobs.watch import shown_here
from twofold.settings.imports import import_user_code
from twofold.show.panels import write_panel
from twofold.store import files

log = logging.getLogger("twofold")
Make = Callable[[], Calculator]


def _check_numbers(typed: menu.Start) -> None:
    if not 0 < typed.fmax < 1e6:
        raise UserError(f"--fmax must be above 0 and finite, got {typed.fmax}")
    if not 0 <= typed.steps <= 10_000_000 or not 0 <= typed.seed < 2**63:
        raise UserError(
            f"--steps and --seed must not be negative or huge, got {typed.steps} and {typed.seed}"
        )
    Distortion(rattle=typed.rattle)


# ---- relax ---------------------------------------------------------------------------------------------------------


def relax(asked: menu.Relax) -> int:
    """`twofold relax`: every structure on its own; a bad one does not stop the others."""
    _check_numbers(asked)
    for name in (asked.out, asked.trajectory):
        if name and is_there(name) and not (is_file(name) or (name == asked.out and is_folder(name))):
            raise UserError(f"{name} is not a file that can be written")
    method(asked.optimizer)
    make = calculator_factory(asked.calculator, import_user_code(asked.import_))
    make()  # whatever it lacks is said before anything else is done
    found = find(asked.structures)
    if asked.trajectory and len(found) > 1:
        raise UserError(f"--trajectory is the path of one structure, these are {len(found)}")
    with Table(asked.table) as table:
        known = len(table.rows)
        code = _relax_found(found, asked, make, table)
        rows = [table.rows[one.name] for one in found if one.name in table.rows]
        table.tidy([one.name for one in found])
    _print_rows(rows)
    if asked.table:
        print(f"table      {asked.table} ({len(table.rows)} rows, {known} were there)")
    return code or (0 if all(row["state"] == RELAXED for row in rows) else 1)


def _relax_found(found: list[Found], asked: menu.Relax, make: Make, table: Table) -> int:
    """All structures, here or as jobs; the exit code of whatever stopped it."""
    if asked.jobs == 1 and asked.on == "here":
        relax_all(found, asked, make, table, _complain)
        return 0
    with shown_here() as view:
        outcome = Parts(found, asked, table, _complain).run(view)
    if outcome.signal is not None:
        print("stopped: rows that are done are kept; the same command continues", file=sys.stderr)
        return 128 + outcome.signal
    return 0


def _complain(row: Row) -> None:
    if row["state"] == FAILED:
        name, why = row["structure"], row["reason"]
        print(printable(f"twofold relax: {why if name in why else f'{name}: {why}'}"), file=sys.stderr)


_SHOWN = {  # heading -> column
    "structure": "structure",
    "atoms": "atoms",
    "calls": "calls",
    "energy/eV": "energy_eV",
    "fmax/(eV/A)": "fmax_eV_per_A",
    "engine": "engine",
    "state": "state",
}


def _print_rows(rows: list[Row]) -> None:
    lines = [list(_SHOWN), *([row[name] for name in _SHOWN.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        text = "  ".join(word.ljust(width) for word, width in zip(line, widths, strict=True))
        print(printable(text.rstrip()))


# ---- relax-compare -------------------------------------------------------------------------------------------------


def relax_compare(asked: menu.RelaxCompare) -> int:
    """`twofold relax-compare`: all methods from the same starts, with a table, a plot and a page."""
    _check_numbers(asked)
    methods = tuple(name.strip().lower() for name in (asked.methods or ",".join(METHODS)).split(","))
    for name in methods:
        method(name)
    out = files.own_folder(asked.out, "table.md", "runs.json", "forces.png", "page.html")
    starts = _starts(asked)
    with task("comparing", len(starts) * len(methods)) as tell:
        told = _Told(tell)
        outcomes = compare(
            starts, calculator_factory(asked.calculator, import_user_code(asked.import_)), methods,
            fmax=asked.fmax, steps=asked.steps, cell=asked.cell, progress=told,
        )  # fmt: skip
    text = table_of(summary(outcomes))
    files.replace_bytes(out / "table.md", f"{text}\n".encode(errors="replace"))
    files.replace_bytes(out / "runs.json", files.to_json([_plain(o) for o in outcomes]))
    plot(outcomes, out / "forces.png", asked.fmax)
    title = "Relaxation: " + ", ".join(asked.structures)
    files.replace_bytes(out / "page.html", page(outcomes, title, asked.fmax).encode(errors="replace"))
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
                starts[f"{source}#{number} seed {seed}"] = started(atoms, asked.rattle, seed)
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
    if not (asked.out or asked.default) and is_file(asked.run):
        raise UserError(f"{asked.run} is a policy file: name the one to write with --out")
    path = asked.out or (DEFAULT if asked.default else asked.run / "relaxer.safetensors")
    score = export_policy(asked.run, path, asked.starts, asked.env_config)
    trainings = score.get("trainings")  # of a policy that is made of several
    for one in trainings if isinstance(trainings, list) else [score]:
        print(f"policy     step {one['step']}, by {one['chosen by']}")
    print(f"wrote      {path}")
    return 0
