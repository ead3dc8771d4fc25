"""Unit types and maps of the skirmish world: JSON in, arrays per unit out."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field

from twofold.base.errors import CheckpointError, ConfigError
from twofold.base.foreign_json import checked_as, read_as
from twofold.base.regular import is_there
from twofold.base.setting import setting, settings
from twofold.core.experience import Array

MAPS = Path(__file__).parent / "maps"
MOST_UNITS = 500  # of both teams: every unit looks at every other in each step
Side = Annotated[float, Field(gt=0, le=1_000)]
Cliffs = Annotated[tuple[tuple[float, float, float, float], ...], Field(max_length=100)]


@settings
class UnitType:
    """Numbers of one kind of unit."""

    health: float = setting("of a fresh unit", gt=0, le=1e6)
    shield: float = setting("lost before health, and grows again", default=0.0, ge=0, le=1e6)
    damage: float = setting("of one hit", default=0.0, ge=0, le=1e6)
    hits: int = setting("hits of one attack: armour counts for each", default=1, ge=1, le=100)
    bonus: float = setting(
        "more damage of one hit to units whose tag is `bonus_to`", default=0.0, ge=0, le=1e6
    )
    bonus_to: str = setting("the tag that the bonus is for", default="")
    armour: float = setting("taken off every hit", default=0.0, ge=0, le=1e6)
    range: float = setting("of the weapon, edge to edge", default=0.1, ge=0, le=1_000, unit="cells")
    cooldown: float = setting(
        "between two attacks; above 8, so that a step holds at most one",
        default=16.0,
        gt=8,
        le=1e6,
        unit="loops, 16 a second",
    )
    speed: float = setting("on foot", default=2.25, ge=0, le=100, unit="cells a second")
    radius: float = setting("of the body", default=0.375, gt=0, le=50, unit="cells")
    tag: str = setting("what bonuses ask for", default="light")
    splash: float = setting(
        "radius around the target in which others are hit too", default=0.0, ge=0, le=1_000, unit="cells"
    )
    heal: float = setting(
        "health given; a unit that heals does not attack", default=0.0, ge=0, le=1e6, unit="a second"
    )
    energy: float = setting("what healing uses up", default=0.0, ge=0, le=1e6)
    state_full: float = setting(
        "what the state divides the cooldown by (energy of those who heal); 0: the cooldown, or the energy, itself",
        default=0.0,
        ge=0,
        le=1e6,
    )
    bursts: bool = setting("dies of its own attack", default=False)
    tall: bool = setting("walks over others: neither pushes nor is pushed", default=False)


@settings
class UnitGroup:
    """Units of one type that stand together."""

    type: str = setting("their type")
    count: int = setting("how many", ge=0, le=MOST_UNITS)
    at: tuple[float, float] = setting("the middle of where they stand", unit="cells")


@settings
class MapFile:
    """A map as its JSON file says it."""

    limit: int = setting("until the battle is called off", ge=1, le=100_000, unit="steps")
    allies: tuple[UnitGroup, ...] = setting("the team")
    enemies: tuple[UnitGroup, ...] = setting("the scripted side")
    size: tuple[Side, Side] = setting("of the ground", default=(32.0, 32.0), unit="cells")
    types: dict[str, dict[str, float | str | bool]] = setting(
        "types of its own: numbers of a UnitType that differ from the type of that name, or from `like`",
        factory=dict,
    )
    cliffs: Cliffs = setting(
        "x0, y0, x1, y1: ground that only tall units can walk on", default=(), unit="cells"
    )


TYPES = {
    "marine": UnitType(health=45, damage=6, range=5, cooldown=15),
    "marauder": UnitType(
        health=125,
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
        health=150,
        armour=1,
        range=4,
        speed=2.5,
        radius=0.75,
        tag="armoured",
        heal=9,
        energy=50,
        tall=True,
        state_full=200,
    ),
    "stalker": UnitType(
        health=80,
        shield=80,
        damage=13,
        bonus=5,
        bonus_to="armoured",
        armour=1,
        range=6,
        cooldown=30,
        speed=2.95,
        radius=0.625,
        tag="armoured",
        state_full=35,
    ),
    "zealot": UnitType(
        health=100, shield=50, damage=8, hits=2, armour=1, cooldown=19, radius=0.5, state_full=22
    ),
    "colossus": UnitType(
        health=200,
        shield=150,
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
    "zergling": UnitType(health=35, damage=5, cooldown=11, speed=2.95),
    "baneling": UnitType(
        health=30,
        damage=16,
        bonus=19,
        bonus_to="light",
        range=0.25,
        cooldown=13,
        speed=2.5,
        splash=2.2,
        bursts=True,
    ),
    "spine_crawler": UnitType(
        health=300,
        damage=25,
        bonus=5,
        bonus_to="armoured",
        armour=2,
        range=7,
        cooldown=30,
        speed=0,
        radius=1.125,
        tag="armoured",
    ),
    "hydralisk": UnitType(health=90, damage=12, range=5, cooldown=10, radius=0.625),
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
    cliffs: tuple[tuple[float, float, float, float], ...]  # x0, y0, x1, y1

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
    if not is_there(path):
        raise ConfigError(
            f"env_args.map_name: no map '{name}'; there are {', '.join(map_names())}, or give a path to a .json"
        )
    try:
        return _parse(path.stem, read_as(MapFile, path, follow=True))
    except (CheckpointError, ConfigError) as error:
        raise ConfigError(f"the map {path} is not readable: {error}") from None


def _parse(name: str, data: MapFile) -> Battlefield:
    if (units := sum(group.count for group in (*data.allies, *data.enemies))) > MOST_UNITS:
        raise ConfigError(f"it has {units:,} units, more than {MOST_UNITS}")
    types = TYPES | {kind: _unit_type(kind, numbers) for kind, numbers in data.types.items()}
    teams = [_units(data.allies, types, "allies"), _units(data.enemies, types, "enemies")]
    kinds = tuple(kind for team in teams for kind, _ in team)
    with np.errstate(over="ignore"):  # refused below
        spawn = np.array([place for team in teams for _, place in team], np.float32)
        size = np.array(data.size, np.float32)
    if not (np.isfinite(spawn).all() and np.isfinite(size).all()):
        raise ConfigError("it has places or a size that are no ordinary numbers")
    if (spawn < 0).any() or (spawn > size).any():
        raise ConfigError(f"units stand outside of its {size[0]:g} x {size[1]:g} cells")
    return Battlefield(name, data.limit, size, kinds, types, len(teams[0]), spawn, data.cliffs)


def _unit_type(kind: str, numbers: dict[str, float | str | bool]) -> UnitType:
    """A type of the map's own: what it says over the type that it is like."""
    like = numbers.get("like", kind)
    base = dataclasses.asdict(TYPES[str(like)]) if like in TYPES else {"health": 1.0}
    own = {key: value for key, value in numbers.items() if key != "like"}
    try:
        return checked_as(UnitType, base | own)
    except ConfigError as error:
        raise ConfigError(f"unit type '{kind}': {error}") from None


def _units(groups: tuple[UnitGroup, ...], types: dict[str, UnitType], team: str) -> list[tuple[str, Array]]:
    """Every unit of a team with its place: each group stands in columns around its point."""
    placed: list[tuple[str, Array]] = []
    for group in groups:
        if group.type not in types:
            raise ConfigError(f"no unit type '{group.type}'; there are {', '.join(sorted(types))}")
        spacing = 2 * types[group.type].radius + 0.4
        columns = max(1, int(np.sqrt(group.count / 2)))
        lines = -(-group.count // columns)
        for i in range(group.count):
            grid = np.array([i // lines - (columns - 1) / 2, i % lines - (lines - 1) / 2])
            placed.append((group.type, np.asarray(group.at) + spacing * grid))
    if not placed:
        raise ConfigError(f"a map needs at least one unit among its {team}")
    return placed
