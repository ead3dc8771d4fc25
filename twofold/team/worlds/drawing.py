"""A picture of a skirmish."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageDraw

from twofold.core.experience import Array
from twofold.team.worlds.battle import Battle

CELL = 16  # pixels
GROUND, ALLY, ENEMY, DEAD = (28, 32, 38), (84, 160, 255), (255, 96, 84), (70, 74, 80)
HEALTH, SHIELD, SHOT = (110, 220, 110), (130, 200, 255), (250, 220, 120)


def draw(battle: Battle, row: int, actions: Array, step: int) -> Array:
    """Units as discs with their health and shield above them, and a line to each target; uint8 [h, w, 3].

    The picture is of the part of the field around all who stand, always of the same size; the end says who won.
    """
    field = battle.field
    width, height = (int(side * CELL) for side in field.size)
    image = Image.new("RGB", (width, height), GROUND)
    canvas = ImageDraw.Draw(image)
    for shooter, target in _shots(battle, row, actions):
        canvas.line([_pixel(battle, row, shooter), _pixel(battle, row, target)], fill=SHOT)
    for unit in np.argsort(battle.alive[row], kind="stable"):
        _draw_unit(canvas, battle, row, int(unit))
    shown = image.crop(_around(battle, row, width, height)).resize((width, height))
    ImageDraw.Draw(shown).text(
        (6, 4), f"{field.name}  step {step}{_result(battle, row, step)}", fill=(220, 220, 220)
    )
    return np.asarray(shown)


def _around(battle: Battle, row: int, width: int, height: int) -> tuple[int, int, int, int]:
    """The part of the picture in which somebody stands, with some room, of the field's shape."""
    units = np.flatnonzero(battle.alive[row])
    places = np.array([_pixel(battle, row, int(unit)) for unit in units] or [(width / 2, height / 2)])
    low, high = places.min(0) - 3 * CELL, places.max(0) + 3 * CELL
    share = min(1.0, max((high[0] - low[0]) / width, (high[1] - low[1]) / height, 0.3))
    size = np.array([width, height]) * share
    corner = np.clip((low + high - size) / 2, 0, np.array([width, height]) - size)
    x, y = (int(value) for value in corner)
    return x, y, x + int(size[0]), y + int(size[1])


def _result(battle: Battle, row: int, step: int) -> str:
    allies = battle.field.allies
    ours, theirs = battle.alive[row, :allies].any(), battle.alive[row, allies:].any()
    if not theirs and ours:
        return "  won"
    if not ours:
        return "  lost"
    return "  called off" if step >= battle.field.limit else ""


def _shots(battle: Battle, row: int, actions: Array) -> list[tuple[int, int]]:
    allies = battle.field.allies
    heals = battle.field.each("heal") > 0
    ours = [(i, int(a) - 6 + (0 if heals[i] else allies)) for i, a in enumerate(actions) if a >= 6]
    theirs = [(allies + i, int(a)) for i, a in enumerate(battle.aim[row]) if a >= 0]
    return [(one, other) for one, other in ours + theirs if battle.alive[row, one]]


def _pixel(battle: Battle, row: int, unit: int) -> tuple[float, float]:
    x, y = battle.position[row, unit]
    return float(x) * CELL, float(battle.field.size[1] - y) * CELL


def _draw_unit(canvas: ImageDraw.ImageDraw, battle: Battle, row: int, unit: int) -> None:
    field, alive = battle.field, bool(battle.alive[row, unit])
    x, y = _pixel(battle, row, unit)
    radius = float(field.each("radius")[unit]) * CELL
    colour = (ALLY if unit < field.allies else ENEMY) if alive else DEAD
    canvas.ellipse([x - radius, y - radius, x + radius, y + radius], fill=colour)
    if not alive:
        return
    bars = [(battle.health, "health", HEALTH, 5), (battle.shield, "shield", SHIELD, 8)]
    for values, name, bar, above in bars:
        full = float(field.each(name)[unit])
        if full > 0:
            share = float(values[row, unit]) / full
            canvas.line(
                [x - radius, y - radius - above, x - radius + 2 * radius * share, y - radius - above], bar, 2
            )


def draw_forage(size: Array, place: Array, level: Array, food: Array) -> Array:
    """A foraging grid: players as blue discs, food as green squares, both with their levels; uint8 [h, w, 3]."""
    cell = 40
    image = Image.new("RGB", (int(size[1]) * cell, int(size[0]) * cell), GROUND)
    canvas = ImageDraw.Draw(image)
    for y, x, amount in food:
        if amount > 0:
            box = [x * cell + 6, y * cell + 6, (x + 1) * cell - 6, (y + 1) * cell - 6]
            canvas.rectangle(box, fill=(90, 170, 90))
            canvas.text((x * cell + 16, y * cell + 13), str(amount), fill=(0, 0, 0))
    for (y, x), strength in zip(place, level, strict=True):
        canvas.ellipse([x * cell + 5, y * cell + 5, (x + 1) * cell - 5, (y + 1) * cell - 5], fill=ALLY)
        canvas.text((x * cell + 16, y * cell + 13), str(strength), fill=(0, 0, 0))
    return np.asarray(image)
