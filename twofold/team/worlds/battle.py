"""The rules of a skirmish, for all rows at once: walking, pushing, shooting, healing, and the scripted enemies."""

from __future__ import annotations

import numpy as np

from twofold.core.experience import Array
from twofold.core.protocols import State
from twofold.team.worlds.battlefield import Battlefield
from twofold.team.worlds.ease import Ease

LOOPS = 8  # game loops of one step, as SMAC's step_mul
SECONDS = LOOPS / 16
SIGHT = 9.0
SLACK = 0.5  # how much further than its range a unit still hits at the end of a step
SHIELD_DELAY = 20  # steps without a hit until shields grow again
SHIELD_GROWTH = 2 * SECONDS
ENERGY_PER_HEALTH = 1 / 3
_ARRAYS = ("position", "health", "shield", "cooldown", "energy", "quiet", "aim")


class Battle:
    """Positions and conditions of all units of all rows, allies first."""

    def __init__(self, field: Battlefield, rows: int) -> None:
        units, self.field = len(field.kinds), field
        self.position = np.zeros((rows, units, 2), np.float32)
        self.health, self.shield, self.cooldown, self.energy, self.quiet = np.zeros(
            (5, rows, units), np.float32
        )
        self.aim = np.full((rows, field.enemies), -1, np.int64)  # whom each enemy shoots at
        self._row = np.arange(rows)[:, None]
        self._range, self._radius, self._speed = (
            field.each("range"),
            field.each("radius"),
            field.each("speed"),
        )
        self._cooldown, self._heal, self._splash = (
            field.each("cooldown"),
            field.each("heal"),
            field.each("splash"),
        )
        self._grounded = solid = field.each("tall") == 0
        self._bursts = field.each("bursts") > 0
        self._touch = np.where(solid[:, None] & solid, self._radius[:, None] + self._radius, 0.0).astype(
            np.float32
        )
        np.fill_diagonal(self._touch, 0.0)
        self._armed = field.damage.max(axis=1) > 0

    def place(self, row: int, rng: np.random.Generator, ease: Ease | None = None) -> None:
        """Start the battle of one row: jittered places, weapons at different moments of their cooldown.

        The enemies of an eased battle lack one drawn share of their strength.
        """
        field, units = self.field, len(self.field.kinds)
        jitter = rng.uniform(-0.3, 0.3, (units, 2)) + np.repeat(
            rng.uniform(-0.75, 0.75, (2, 2)), (field.allies, field.enemies), axis=0
        )
        self.position[row] = np.clip(field.spawn + jitter, 0, field.size)
        self.health[row], self.shield[row] = field.each("health"), field.each("shield")
        self.energy[row], self.quiet[row], self.aim[row] = field.each("energy"), 0, -1
        self.cooldown[row] = rng.uniform(0, LOOPS, units)
        if ease is not None and ease.most:
            left = 1 - ease.drawn(rng, field.enemies)
            self.health[row, field.allies :] *= left
            self.shield[row, field.allies :] *= left

    @property
    def alive(self) -> Array:
        return self.health > 0

    def gaps(self) -> tuple[Array, Array, Array]:
        """From every ally to every unit: dx, dy and distance, each [N, A, U]."""
        x, y = self.position[..., 0], self.position[..., 1]
        allies = self.field.allies
        dx, dy = x[:, None] - x[:, :allies, None], y[:, None] - y[:, :allies, None]
        return dx, dy, np.sqrt(dx * dx + dy * dy)

    def enemy_orders(self, distance: Array) -> tuple[Array, Array]:
        """Where each enemy walks [N, E, 2] and whom it attacks [N, E]: the nearest in sight, or -1."""
        allies = self.field.allies
        away = np.where(self.alive[:, :allies, None], distance[:, :, allies:], np.inf).swapaxes(1, 2)
        nearest = away.argmin(-1)
        kept = np.maximum(self.aim, 0)
        within = self._range[allies:] + self._radius[allies:] + self._radius[kept]
        keeps = (self.aim >= 0) & (np.take_along_axis(away, kept[..., None], -1)[..., 0] <= within)
        target = np.where(keeps, kept, nearest)
        seen = np.take_along_axis(away, target[..., None], -1)[..., 0] <= SIGHT
        self.aim = np.where(seen, target, -1)
        home = self.field.spawn[:allies].mean(axis=0)
        walk = home - self.position[:, allies:]
        if self._heal[allies:].any():
            return walk, self._enemy_healers()
        return walk, self.aim

    def _enemy_healers(self) -> Array:
        """Enemies that heal turn to their most hurt comrade; the others keep their aim."""
        allies = self.field.allies
        share = self.health[:, allies:] / self.field.each("health")[allies:]
        share = np.where(self.alive[:, allies:] & (self._heal[allies:] == 0), share, np.inf)
        patient = share.argmin(-1)
        treatable = np.isfinite(np.take_along_axis(share, patient[:, None], -1))
        order = np.where(treatable, patient[:, None] + allies, -1)
        return np.where(self._heal[allies:] > 0, order, self.aim)

    def advance(self, walk: Array, target: Array) -> None:
        """One step: units with a target [N, U] (or -1) close in and shoot or heal, the others walk [N, U, 2]."""
        alive = self.alive
        engaged = (target >= 0) & alive
        at = np.maximum(target, 0)
        toward = self.position[self._row, at] - self.position
        away = np.sqrt((toward * toward).sum(-1))
        reach = self._range + self._radius + self._radius[at]
        short = np.maximum(away - reach, 0)
        self._move(np.where(engaged[..., None], toward, walk), np.where(engaged, short, np.inf), alive)
        arrival = short / np.maximum(self._speed / 16, 1e-6)
        moment = np.maximum(self.cooldown, arrival)
        # Crowds, cliffs and a target that runs can keep a unit from arriving.
        toward = self.position[self._row, at] - self.position
        close = (toward * toward).sum(-1) <= (reach + SLACK) ** 2
        fires = engaged & self._armed & (moment < LOOPS) & close
        self.cooldown = np.where(fires, moment + self._cooldown - LOOPS, np.maximum(self.cooldown - LOOPS, 0))
        self._hurt(fires, at)
        if self._heal.any():
            self._mend(engaged & (self._heal > 0) & (arrival < LOOPS), at)
        self._grow_shields()

    def _move(self, direction: Array, most: Array, alive: Array) -> None:
        length = np.sqrt((direction * direction).sum(-1))
        reach = np.minimum(np.minimum(length, most), self._speed * SECONDS) * alive
        self.position += direction * (reach / np.maximum(length, 1e-6))[..., None]
        if self._touch.any():
            self._separate(alive)
        for cliff in self.field.cliffs:
            self._leave(cliff)
        np.clip(self.position, 0, self.field.size, out=self.position)

    def _leave(self, cliff: tuple[float, float, float, float]) -> None:
        """Put ground units that walked onto a cliff back on its nearest edge."""
        edges = np.array(cliff, np.float32).reshape(2, 2)
        inside = ((self.position > edges[0]) & (self.position < edges[1])).all(-1) & self._grounded
        rows, units = np.nonzero(inside)
        place = self.position[rows, units]
        depth = np.stack([place - edges[0], edges[1] - place], 1).reshape(-1, 4)
        nearest = depth.argmin(-1)
        place[np.arange(len(place)), nearest % 2] = edges[nearest // 2, nearest % 2]
        self.position[rows, units] = place

    def _separate(self, alive: Array) -> None:
        """Push overlapping units half their overlap apart: crowds form rings instead of points."""
        x, y = self.position[..., 0], self.position[..., 1]
        dx, dy = x[:, :, None] - x[:, None], y[:, :, None] - y[:, None]
        away = np.sqrt(dx * dx + dy * dy)
        overlap = np.maximum(self._touch - away, 0)
        overlap *= (alive[:, :, None] & alive[:, None]).astype(np.float32)
        push = 0.5 * overlap / np.maximum(away, 1e-3)
        self.position[..., 0] += (push * dx).sum(-1)
        self.position[..., 1] += (push * dy).sum(-1)

    def _hurt(self, fires: Array, at: Array) -> None:
        rows, units = fires.shape
        force = self.field.damage[np.arange(units), at] * fires
        damage = np.bincount((self._row * units + at).ravel(), force.ravel(), rows * units).reshape(
            rows, units
        )
        for unit in np.flatnonzero(self._splash):
            damage += self._blast(int(unit), fires[:, unit], at[:, unit])
        damage = np.where(self.alive, damage, 0).astype(np.float32)
        to_shield = np.minimum(damage, self.shield)
        self.shield -= to_shield
        self.health = np.maximum(self.health - (damage - to_shield), 0)
        self.health[fires & self._bursts] = 0
        self.quiet = np.where(damage > 0, 0, self.quiet + 1)

    def _blast(self, unit: int, fires: Array, at: Array) -> Array:
        """Damage of one splashing unit to the other enemies around its target, [N, U]."""
        rows = np.arange(len(at))
        offset = self.position - self.position[rows, at][:, None]
        near = (offset * offset).sum(-1) <= self._splash[unit] ** 2
        near[rows, at] = False
        ours = unit < self.field.allies
        near[:, : self.field.allies] &= not ours
        near[:, self.field.allies :] &= ours
        blast: Array = near * self.field.damage[unit] * fires[:, None]
        return blast

    def _mend(self, heals: Array, at: Array) -> None:
        rows, units = heals.shape
        wish = np.minimum(self._heal * SECONDS, self.energy / ENERGY_PER_HEALTH) * heals
        wish *= np.take_along_axis(self.alive, at, 1)
        given = np.bincount((self._row * units + at).ravel(), wish.ravel(), rows * units).reshape(rows, units)
        self.health = np.minimum(self.health + given, self.field.each("health")).astype(np.float32)
        self.energy = np.maximum(self.energy - wish * ENERGY_PER_HEALTH, 0).astype(np.float32)

    def _grow_shields(self) -> None:
        full = self.field.each("shield")
        if full.any():
            grows = (self.quiet >= SHIELD_DELAY) & self.alive
            self.shield = np.minimum(self.shield + SHIELD_GROWTH * grows, full).astype(np.float32)

    def snapshot(self) -> State:
        return {name: getattr(self, name).copy() for name in _ARRAYS}

    def restore(self, snapshot: State) -> None:
        for name in _ARRAYS:
            setattr(self, name, np.array(snapshot[name]))
