"""Quantum ESPRESSO by one line of options: `espresso:pseudo_dir=DIR,ecutwfc=40,kspacing=0.2`."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ase.calculators.calculator import Calculator
from ase.data import atomic_numbers

from twofold.base.errors import UserError
from twofold.base.regular import is_folder, names_in

_DEBIAN = "/usr/share/espresso/pseudo"
_NUMBERS = {  # what is taken where nothing is said
    "ecutwfc": 40.0,  # Ry
    "ecutrho": 0.0,  # Ry; 0: four times ecutwfc, which is too little for ultrasoft potentials
    "kspacing": 0.2,  # 1/A
    "degauss": 0.01,  # Ry, cold smearing; 0: fixed occupations
    "conv_thr": 1e-8,  # Ry
}
_TEXTS = ("pseudo_dir", "pseudo", "command")
_ELEMENT = re.compile(r"([A-Za-z]{1,2})(?![A-Za-z])")


@dataclass(frozen=True)
class Input:
    """What pw.x is told."""

    pseudo_dir: Path
    files: Mapping[str, str]  # a pseudopotential for each element
    command: str
    numbers: Mapping[str, float]


def espresso_factory(text: str) -> Callable[[], Calculator]:
    """How to make the calculator; whatever is wrong with its options is said here."""
    said = _options(text)
    pseudo_dir = Path(said.get("pseudo_dir") or os.environ.get("ESPRESSO_PSEUDO") or _DEBIAN)
    if not is_folder(pseudo_dir):
        raise UserError(f"espresso: no folder of pseudopotentials {pseudo_dir}: give pseudo_dir=DIR")
    command = said.get("command", "pw.x")
    if shutil.which(command.split()[0]) is None:
        raise UserError(f"espresso: no program '{command.split()[0]}' here: install Quantum ESPRESSO (pw.x)")
    numbers = {name: _number(name, said.get(name, usual)) for name, usual in _NUMBERS.items()}
    asked = Input(pseudo_dir, _files(pseudo_dir, said.get("pseudo", "")), command, numbers)
    return lambda: _made(asked)


def _options(text: str) -> dict[str, str]:
    found = {}
    for part in filter(None, text.split(",")):
        name, equals, value = part.partition("=")
        if not equals or not value.strip() or name not in (*_NUMBERS, *_TEXTS):
            raise UserError(f"espresso:{part}: write NAME=VALUE with {', '.join((*_TEXTS, *_NUMBERS))}")
        found[name] = value.strip()
    return found


def _number(name: str, value: str | float) -> float:
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0 <= number < 1e6 or (number == 0 and _NUMBERS[name] and name != "degauss"):
        raise UserError(f"espresso: {name} must be a number above 0, got '{value}'")
    return number


def _files(folder: Path, part: str) -> dict[str, str]:
    """One file for each element: the only one, or the only one whose name holds `part`."""
    found: dict[str, list[str]] = {}
    for name in names_in(folder):
        match = _ELEMENT.match(name)
        symbol = match[1].capitalize() if match else ""
        if symbol in atomic_numbers and name.lower().endswith((".upf", ".psp8", ".rrkj3", ".van")):
            found.setdefault(symbol, []).append(name)
    chosen = {symbol: [n for n in names if part in n] for symbol, names in found.items()}
    files = {symbol: names[0] for symbol, names in chosen.items() if len(names) == 1}
    if not files:
        several = next((names for names in chosen.values() if names), [])
        more = f" ({', '.join(several[:3])}, ...): choose with pseudo=PART-OF-THE-NAME" if several else ""
        raise UserError(f"espresso: {folder} has no element with one pseudopotential{more}")
    return files


def _made(asked: Input) -> Calculator:
    """A calculator that works in a folder of its own, which goes with it."""
    from ase.calculators.espresso import Espresso, EspressoProfile

    numbers = asked.numbers
    system: dict[str, object] = {"ecutwfc": numbers["ecutwfc"]}
    system |= {"ecutrho": numbers["ecutrho"]} if numbers["ecutrho"] else {}
    if numbers["degauss"]:
        system |= {"occupations": "smearing", "smearing": "cold", "degauss": numbers["degauss"]}
    folder = tempfile.mkdtemp(prefix="twofold_pw_")
    made: Calculator = Espresso(
        profile=EspressoProfile(command=asked.command, pseudo_dir=str(asked.pseudo_dir)),
        pseudopotentials=dict(asked.files),
        input_data={
            "control": {"tprnfor": True, "tstress": True, "disk_io": "none"},
            "system": system,
            "electrons": {"conv_thr": numbers["conv_thr"]},
        },
        kspacing=numbers["kspacing"],
        directory=folder,
    )
    weakref.finalize(made, shutil.rmtree, folder, ignore_errors=True)
    return made
