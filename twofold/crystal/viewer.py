"""A page with the trajectories to turn and play: one file, no network."""

from __future__ import annotations

import html
import json
from importlib.resources import files
from typing import TypedDict

import numpy as np
from ase import Atoms
from ase.data import covalent_radii
from ase.data.colors import jmol_colors

from twofold.crystal.compare import Outcome, summary

MOST_FRAMES = 150  # per run: longer ones are thinned, first and last kept


def page(outcomes: list[Outcome], title: str, fmax: float) -> str:
    """The HTML of a comparison."""
    runs = [drawn(outcome) for outcome in outcomes if outcome.final is not None and outcome.frames]
    rows = summary(outcomes)
    heads = "".join(f"<th>{html.escape(name)}</th>" for name in rows[0])
    body = "".join("<tr>" + "".join(f"<td>{_cell(v)}</td>" for v in row.values()) + "</tr>" for row in rows)
    template = files(__package__).joinpath("viewer.html").read_text(encoding="utf-8")
    # "</" inside a script would end it.
    data = json.dumps({"runs": runs, "fmax": fmax}, separators=(",", ":")).replace("</", "<\\/")
    filled = {"@TITLE@": html.escape(title), "@HEADS@": heads, "@ROWS@": body, "@DATA@": data}
    for mark, text in filled.items():
        template = template.replace(mark, text)
    return template


def _cell(value: str | int | float) -> str:
    return f"{value:.2f}" if isinstance(value, float) else html.escape(str(value))


class Drawn(TypedDict):
    """What a picture of a path needs."""

    start: str
    method: str
    symbols: list[str]
    colours: list[str]
    radii: list[float]
    cell: list[list[float]]
    calls: list[int]
    forces: list[float]
    energies: list[float]
    frames: list[list[float]]


def drawn(outcome: Outcome) -> Drawn:
    """What a picture of the path needs: colours and sizes of the atoms, the cell, frames with energy and force."""
    atoms: Atoms = outcome.final or Atoms()
    keep = np.unique(np.linspace(0, len(outcome.frames) - 1, MOST_FRAMES).astype(int))
    return {
        "start": outcome.start,
        "method": outcome.method,
        "symbols": list(atoms.symbols),
        "colours": ["#" + "".join(f"{int(255 * c):02x}" for c in jmol_colors[z]) for z in atoms.numbers],
        "radii": [round(float(covalent_radii[z]), 2) for z in atoms.numbers],
        "cell": np.round(atoms.cell.array, 3).tolist(),
        "calls": [int(k) + 1 for k in keep],
        "forces": [round(float(outcome.forces[k]), 5) for k in keep],
        "energies": [round(float(outcome.energies[k]), 5) for k in keep],
        "frames": [np.round(outcome.frames[k], 3).ravel().tolist() for k in keep],
    }
