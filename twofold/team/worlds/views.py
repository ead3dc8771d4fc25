"""What skirmish agents see and what the state holds, column by column as in SMAC."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from twofold.core.experience import Array
from twofold.team.worlds.battle import SIGHT, Battle
from twofold.team.worlds.battlefield import Battlefield
from twofold.team.worlds.space import Units

if TYPE_CHECKING:
    from twofold.team.worlds.skirmish import SkirmishConfig

MOVE_COLUMNS = 4


class Views:
    """Builds observations [N, A, d] and states [N, s] from the battles of all rows."""

    def __init__(self, cfg: SkirmishConfig, field: Battlefield, actions: int) -> None:
        self.cfg, self.field, self.actions = cfg, field, actions
        allies, enemies = field.allies, field.enemies
        shield = field.each("shield")
        self._ally_shield, self._enemy_shield = bool(shield[:allies].any()), bool(shield[allies:].any())
        self._types = np.eye(max(field.type_bits, 1), dtype=np.float32)[
            field.type_index % max(field.type_bits, 1)
        ]
        health, bits = bool(cfg.obs_all_health), field.type_bits
        self._enemy = 4 + bits + health * (1 + self._enemy_shield)
        self._ally = 4 + bits + health * (1 + self._ally_shield) + cfg.obs_last_action * actions
        self._own = bits + cfg.obs_own_health * (1 + self._ally_shield)
        self.obs_size = int(
            MOVE_COLUMNS
            + enemies * self._enemy
            + (allies - 1) * self._ally
            + self._own
            + cfg.obs_timestep_number
        )
        per_ally, per_enemy = 4 + self._ally_shield + bits, 3 + self._enemy_shield + bits
        self.state_size = int(
            allies * self.obs_size
            if cfg.obs_instead_of_state
            else allies * per_ally
            + enemies * per_enemy
            + allies * actions * cfg.state_last_action
            + cfg.state_timestep_number
        )
        aimed = -1 if (field.each("heal")[:allies] > 0).any() else actions - enemies
        at = MOVE_COLUMNS + enemies * self._enemy
        groups = Units(MOVE_COLUMNS, enemies, self._enemy, aimed), Units(at, allies - 1, self._ally)
        self.units = tuple(group for group in groups if group.count)
        self._health, self._shield = field.each("health"), np.maximum(shield, 1)
        self._heals = field.each("energy") > 0
        own = np.where(self._heals, field.each("energy"), field.each("cooldown"))
        self._full = np.where(field.each("state_full") > 0, field.each("state_full"), own)
        self._others = np.array([[j for j in range(allies) if j != i] for i in range(allies)], np.int64)

    def obs(
        self,
        battle: Battle,
        gaps: tuple[Array, Array, Array],
        visible: Array,
        avail: Array,
        last: Array,
        step: Array,
    ) -> Array:
        """Own possible moves, every enemy, every other ally, the unit itself; zeros for the unseen and the dead."""
        rows, allies, enemies = len(step), self.field.allies, self.field.enemies
        out = np.zeros((rows, allies, self.obs_size), np.float32)
        out[..., :MOVE_COLUMNS] = avail[..., 2:6]
        at = MOVE_COLUMNS
        block = out[..., at : at + enemies * self._enemy].reshape(rows, allies, enemies, self._enemy)
        foes = tuple(gap[..., allies:] for gap in gaps)
        shootable = avail[..., 6 : 6 + enemies]
        self._fill(
            block, shootable, foes, visible[..., allies:], battle, slice(allies, None), self._enemy_shield
        )
        out[..., at : at + enemies * self._enemy] = block.reshape(rows, allies, -1)
        at += enemies * self._enemy
        if allies > 1:
            out[..., at : at + (allies - 1) * self._ally] = self._allies(battle, gaps, visible, last)
        at += (allies - 1) * self._ally
        self._fill_own(out[..., at : at + self._own], battle)
        if self.cfg.obs_timestep_number:
            out[..., -1] = (step / self.field.limit)[:, None]
        return out

    def _fill(
        self,
        block: Array,
        first: Array,
        gaps: tuple[Array, ...],
        seen: Array,
        battle: Battle,
        units: slice,
        shield: bool,
    ) -> None:
        """Columns of seen units: `first`, distance, dx, dy, health, shield, type."""
        dx, dy, distance = gaps
        sight = seen.astype(np.float32) / SIGHT
        block[..., 0] = first
        block[..., 1], block[..., 2], block[..., 3] = distance * sight, dx * sight, dy * sight
        at = 4
        if self.cfg.obs_all_health:
            block[..., at] = (battle.health[:, units] / self._health[units])[:, None] * seen
            at += 1
            if shield:
                block[..., at] = (battle.shield[:, units] / self._shield[units])[:, None] * seen
                at += 1
        if self.field.type_bits:
            block[..., at : at + self.field.type_bits] = self._types[units] * seen[..., None]

    def _allies(self, battle: Battle, gaps: tuple[Array, Array, Array], visible: Array, last: Array) -> Array:
        rows, allies = len(last), self.field.allies
        team = slice(0, allies)
        seen = visible[..., team]
        block = np.zeros((rows, allies, allies, self._ally), np.float32)
        self._fill(block, seen, tuple(gap[..., team] for gap in gaps), seen, battle, team, self._ally_shield)
        if self.cfg.obs_last_action:
            block[..., -self.actions :] = (
                np.eye(self.actions, dtype=np.float32)[last][:, None] * seen[..., None]
            )
        return np.take_along_axis(block, self._others[None, :, :, None], 2).reshape(rows, allies, -1)

    def _fill_own(self, block: Array, battle: Battle) -> None:
        team, at = slice(0, self.field.allies), 0
        if self.cfg.obs_own_health:
            block[..., 0] = battle.health[:, team] / self._health[team]
            at = 1
            if self._ally_shield:
                block[..., 1] = battle.shield[:, team] / self._shield[team]
                at = 2
        if self.field.type_bits:
            block[..., at:] = self._types[team] * battle.alive[:, team, None]

    def state(self, battle: Battle, last: Array, step: Array) -> Array:
        """Health, cooldown, place, shield and type of all allies, then of all enemies; then the last actions."""
        rows, allies = len(step), self.field.allies
        alive = battle.alive[..., None]
        place = (battle.position - self.field.size / 2) / self.field.size
        health = (battle.health / self._health)[..., None]
        ready = np.where(self._heals, battle.energy, battle.cooldown) / self._full
        shield = (battle.shield / self._shield)[..., None]
        types = (
            np.broadcast_to(self._types, (rows, *self._types.shape))
            if self.field.type_bits
            else shield[..., :0]
        )
        ours = [health, ready[..., None], place] + [shield] * bool(self._ally_shield) + [types]
        theirs = [health, place] + [shield] * bool(self._enemy_shield) + [types]
        parts: list[Array] = [
            (np.concatenate(ours, -1) * alive)[:, :allies].reshape(rows, -1),
            (np.concatenate(theirs, -1) * alive)[:, allies:].reshape(rows, -1),
        ]
        if self.cfg.state_last_action:
            parts.append(np.eye(self.actions, dtype=np.float32)[last].reshape(rows, -1))
        if self.cfg.state_timestep_number:
            parts.append((step / self.field.limit)[:, None])
        return np.concatenate(parts, -1, dtype=np.float32)
