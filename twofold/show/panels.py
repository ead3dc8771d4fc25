"""Data that a page can draw, by kind: a domain writes RUN/panels/NAME.json and needs to know of no page.

heatmap: rows against columns; table: rows of text and numbers, some of them marked; trajectory: atoms in frames;
replay: units that move, lose health and fall.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from twofold.base.errors import UserError
from twofold.base.foreign_json import read_json
from twofold.base.values import Values
from twofold.core.protocols import Policy
from twofold.store import files

MAX_BYTES = 8_000_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,59}")


@dataclass(frozen=True)
class HeatMap:
    """Numbers of rows against columns, each perhaps with the ends of its interval."""

    title: str
    rows: list[str]
    columns: list[str]
    mean: list[list[float]]
    low: list[list[float]] = field(default_factory=list)
    high: list[list[float]] = field(default_factory=list)
    kind: str = "heatmap"

    def __post_init__(self) -> None:
        for name, values in (("mean", self.mean), ("low", self.low), ("high", self.high)):
            shape = [len(self.columns)] * len(self.rows)
            if (name == "mean" or values) and [len(row) for row in values] != shape:
                raise UserError(
                    f"heat map '{self.title}': {name} must have {len(self.rows)} rows of {len(self.columns)}"
                )


@dataclass(frozen=True)
class Listing:
    """A table; `marked` are the rows that something is said of, such as those a user liked."""

    title: str
    columns: list[str]
    rows: list[list[str | float | None]]
    marked: list[int] = field(default_factory=list)
    mark: str = ""
    kind: str = "table"

    def __post_init__(self) -> None:
        if any(len(row) != len(self.columns) for row in self.rows):
            raise UserError(f"table '{self.title}': every row must have {len(self.columns)} cells")
        if any(not 0 <= index < len(self.rows) for index in self.marked):
            raise UserError(f"table '{self.title}': a marked row is not there")


@dataclass(frozen=True)
class Trajectory:
    """Atoms in frames [frame][3 x atom], with values such as energies for each frame."""

    title: str
    colours: list[str]  # of each atom, as #rrggbb
    radii: list[float]
    frames: list[list[float]]
    cell: list[list[float]] = field(default_factory=list)
    values: dict[str, list[float]] = field(default_factory=dict)
    kind: str = "trajectory"

    def __post_init__(self) -> None:
        atoms = len(self.colours)
        if len(self.radii) != atoms or any(len(frame) != 3 * atoms for frame in self.frames):
            raise UserError(
                f"trajectory '{self.title}': every frame needs three numbers for each of {atoms} atoms"
            )
        if any(len(series) != len(self.frames) for series in self.values.values()):
            raise UserError(f"trajectory '{self.title}': values must have one number for each frame")
        if any(not re.fullmatch(r"#[0-9a-fA-F]{6}", colour) for colour in self.colours):
            raise UserError(f"trajectory '{self.title}': colours must be such as #1f77b4")


@dataclass(frozen=True)
class Replay:
    """A battle: units of teams 0 and 1 on a field; positions [frame][2 x unit], health [frame][unit] from 1 to 0.

    `targets` [frame][unit] says whom a unit aims at, -1 for nobody; without it no aim is drawn.
    """

    title: str
    size: tuple[float, float]
    teams: list[int]
    radii: list[float]
    positions: list[list[float]]
    health: list[list[float]]
    result: str = ""
    targets: list[list[int]] = field(default_factory=list)
    kind: str = "replay"

    def __post_init__(self) -> None:
        units = len(self.teams)
        fits = len(self.radii) == units and len(self.positions) == len(self.health)
        fits = fits and all(len(frame) == 2 * units for frame in self.positions)
        if not fits or any(len(frame) != units for frame in self.health):
            raise UserError(
                f"replay '{self.title}': every frame needs place and health of each of {units} units"
            )
        aimed = [
            len(frame) == units and all(aim in range(-1, units) for aim in frame) for frame in self.targets
        ]
        if self.targets and (len(aimed) != len(self.positions) or not all(aimed)):
            raise UserError(f"replay '{self.title}': targets are -1 or one of {units} units, in every frame")


Panel = HeatMap | Listing | Trajectory | Replay


@runtime_checkable
class Recorded(Protocol):
    """A world that can tell one episode of a policy as data."""

    def recorded(self, policy: Policy, seed: int) -> Panel: ...


_KINDS: dict[str, type[Panel]] = {c.kind: c for c in (HeatMap, Listing, Trajectory, Replay)}


def write_panel(run: Path, name: str, panel: Panel) -> Path:
    """Put a panel into a run directory, where every page finds it."""
    if not _NAME.fullmatch(name):
        raise UserError(f"panel '{name[:60]}': names are letters, digits, - and _")
    folder = files.real_folder(run / "panels")
    content = json.dumps(dataclasses.asdict(panel), allow_nan=False).encode()
    if len(content) > MAX_BYTES:
        raise UserError(
            f"panel '{name}' has {len(content):,} bytes, more than {MAX_BYTES:,}: leave frames out"
        )
    files.replace_bytes(folder / f"{name}.json", content)
    return folder / f"{name}.json"


def read_panel(path: Path) -> Values:
    """A panel as data, checked as strictly as if it had been made here."""
    record = read_json(path, limit=MAX_BYTES)
    kind = record.get("kind") if isinstance(record, dict) else None
    if not isinstance(record, dict) or not isinstance(kind, str) or kind not in _KINDS:
        raise UserError(f"{path} is not a panel: its kind must be one of {', '.join(_KINDS)}")
    make: Callable[..., Panel] = _KINDS[kind]
    known = {entry.name for entry in dataclasses.fields(_KINDS[kind])}
    if set(record) - known:
        raise UserError(f"{path}: unknown parts {', '.join(sorted(set(record) - known))[:200]}")
    try:
        _finite(record)
        return dataclasses.asdict(make(**record))
    except (TypeError, ValueError, AttributeError, RecursionError) as error:
        raise UserError(f"{path} is damaged: {str(error)[:200]}") from None


def _finite(value: object) -> None:
    """Refuse numbers that no page can draw."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            _finite(inner)
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError("a number is not finite")
