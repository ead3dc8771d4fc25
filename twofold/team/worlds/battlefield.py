"""Unit types and maps of the skirmish world: JSON in, arrays per unit out."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from twofold.base.errors import ConfigError

Array = Any  # numpy arrays, whose stubs cannot follow reductions and indexing
MAPS = Path(__file__).parent / "maps"


@dataclass(frozen=True)
class UnitType:
    """Numbers of one kind of unit; time is in game loops (16 a second), distance in map cells."""

    health: float
    shield: float = 0.0
    damage: float = 0.0  # of one hit
    hits: int = 1  # hits of one attack: armour counts for each
    bonus: float = 0.0  # more damage of one hit to units whose tag is `bonus_to`
    bonus_to: str = ""
    armour: float = 0.0
    range: float = 0.1  # edge to edge
    cooldown: float = 16.0  # loops between two attacks; above 8, so that a step holds at most one
    speed: float = 2.25  # cells a second
    radius: float = 0.375
    tag: str = "light"
    splash: float = 0.0  # radius around the target in which others are hit too
    heal: float = 0.0  # health given a second; a unit that heals does not attack
    energy: float = 0.0
    tall: bool = False  # walks over others: neither pushes nor is pushed


TYPES = {
    "marine": UnitType(45, damage=6, range=5, cooldown=15),
    "marauder": UnitType(
        125,
        damage=10,
        bonus=10,
        bonus_to="armoured",
        armour=1,
        range=6,
        cooldown=25,
        radius=0.5625,
        tag="armoured",
    ),
    "medivac": UnitType(
        150, armour=1, range=4, speed=2.5, radius=0.75, tag="armoured", heal=9, energy=50, tall=True
    ),
    "stalker": UnitType(
        80,
        80,
        damage=13,
        bonus=5,
        bonus_to="armoured",
        armour=1,
        range=6,
        cooldown=30,
        speed=2.95,
        radius=0.625,
        tag="armoured",
    ),
    "zealot": UnitType(100, 50, damage=8, hits=2, armour=1, cooldown=19, radius=0.5),
    "colossus": UnitType(
        200,
        150,
        damage=10,
        bonus=5,
        bonus_to="light",
        armour=1,
        range=7,
        cooldown=24,
        radius=1.0,
        tag="armoured",
        splash=1.25,
        tall=True,
    ),
    "zergling": UnitType(35, damage=5, cooldown=11, speed=2.95),
    "hydralisk": UnitType(90, damage=12, range=5, cooldown=10, radius=0.625),
}


@dataclass(frozen=True)
class Battlefield:
    """A map as arrays over its units, allies first."""

    name: str
    limit: int  # steps until the battle is called off
    size: Array  # [2]
    kinds: tuple[str, ...]  # the type of every unit
    types: dict[str, UnitType]
    allies: int
    spawn: Array  # [U, 2], before jitter
    cliffs: tuple[
        tuple[float, float, float, float], ...
    ]  # x0, y0, x1, y1: ground that only tall units can walk on

    @cached_property
    def enemies(self) -> int:
        return len(self.kinds) - self.allies

    @cached_property
    def type_bits(self) -> int:
        """Columns that tell the type; none where both teams are of one kind each, as in SMAC."""
        ours, theirs = set(self.kinds[: self.allies]), set(self.kinds[self.allies :])
        return len(ours | theirs) if len(ours) > 1 or len(theirs) > 1 else 0

    @cached_property
    def type_index(self) -> Array:
        order = sorted(set(self.kinds))
        return np.array([order.index(kind) for kind in self.kinds])

    def each(self, name: str) -> Array:
        """A number of the type for every unit, [U]."""
        return np.array([getattr(self.types[kind], name) for kind in self.kinds], np.float32)

    @cached_property
    def damage(self) -> Array:
        """Damage of one attack of unit i on unit j, [U, U]."""
        units = [self.types[kind] for kind in self.kinds]
        return np.array([[_damage(one, other) for other in units] for one in units], np.float32)


def _damage(one: UnitType, other: UnitType) -> float:
    if one.damage == 0:
        return 0.0
    hit = one.damage + (one.bonus if one.bonus_to == other.tag else 0.0)
    return one.hits * max(hit - other.armour, 0.5)


def map_names() -> list[str]:
    """The maps that come with the package."""
    return sorted(path.stem for path in MAPS.glob("*.json"))


def load_battlefield(name: str) -> Battlefield:
    """A map of the package by name, or a JSON file of the user's by path."""
    path = Path(name) if name.endswith(".json") else MAPS / f"{name}.json"
    if not path.is_file():
        raise ConfigError(
            f"env_args.map_name: no map '{name}'; there are {', '.join(map_names())}, or give a path to a .json"
        )
    try:
        return _parse(path.stem, json.loads(path.read_text()))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"the map {path} is not readable: {type(error).__name__}: {error}") from error


def _parse(name: str, data: dict[str, Any]) -> Battlefield:
    custom = {kind: _unit_type(kind, numbers) for kind, numbers in data.get("types", {}).items()}
    types = TYPES | custom
    teams = [_units(data[team], types, team) for team in ("allies", "enemies")]
    kinds = tuple(kind for team in teams for kind, _ in team)
    spawn = np.array([place for team in teams for _, place in team], np.float32)
    size = np.array(data.get("size", (32, 32)), np.float32)
    if (spawn < 0).any() or (spawn > size).any():
        raise ConfigError(f"the map '{name}' places units outside of its {size[0]:g} x {size[1]:g} cells")
    cliffs = tuple((float(a), float(b), float(c), float(d)) for a, b, c, d in data.get("cliffs", ()))
    return Battlefield(name, int(data["limit"]), size, kinds, types, len(teams[0]), spawn, cliffs)


def _unit_type(kind: str, numbers: dict[str, Any]) -> UnitType:
    base = TYPES.get(numbers.get("like", kind), UnitType(health=1))
    made = dataclasses.replace(base, **{key: value for key, value in numbers.items() if key != "like"})
    if made.cooldown <= 8 or made.health <= 0:
        raise ConfigError(f"unit type '{kind}' needs health above 0 and a cooldown above 8 loops")
    return made


def _units(groups: list[dict[str, Any]], types: dict[str, UnitType], team: str) -> list[tuple[str, Array]]:
    """Every unit of a team with its place: each group stands in columns around its point."""
    placed: list[tuple[str, Array]] = []
    for group in groups:
        kind, count = group["type"], int(group["count"])
        if kind not in types:
            raise ConfigError(f"no unit type '{kind}'; there are {', '.join(sorted(types))}")
        spacing = 2 * types[kind].radius + 0.4
        columns = max(1, int(np.sqrt(count / 2)))
        lines = -(-count // columns)
        for i in range(count):
            grid = np.array([i // lines - (columns - 1) / 2, i % lines - (lines - 1) / 2])
            placed.append((kind, np.asarray(group["at"]) + spacing * grid))
    if not placed:
        raise ConfigError(f"a map needs at least one unit among its {team}")
    return placed
