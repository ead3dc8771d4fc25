"""Teams as data that any page can draw: cross-play as a heat map, a battle that can be played."""

from __future__ import annotations

import numpy as np

from twofold.base.foreign import Info
from twofold.core.protocols import Policy
from twofold.show.panels import HeatMap, Replay
from twofold.team.crossplay import CrossPlay
from twofold.team.worlds.battle import Battle
from twofold.team.worlds.skirmish import Skirmish


def cross_play_panel(played: CrossPlay) -> HeatMap:
    """What policies (rows) reach with partners (columns)."""
    numbers = (played.mean.tolist(), played.low.tolist(), played.high.tolist())
    return HeatMap(f"Cross-play: {played.metric}", played.policies, played.partners, *numbers)


def battle_panel(world: Skirmish, policy: Policy, seed: int) -> Replay:
    """One battle, played by the policy, from its first to its last step."""
    row = np.ones(1, bool)
    obs, _ = world.reset(seed=[seed], options={"reset_mask": row})
    policy.reset(row)
    battle, ended = world.battle, False
    info: Info = {}
    positions, health, targets = [_places(battle)], [_strength(battle)], [_aims(world)]
    while not ended:
        obs, _, terminated, truncated, info = world.step(policy.act(obs))
        positions.append(_places(battle))
        health.append(_strength(battle))
        targets.append(_aims(world))
        ended = bool(terminated[0] or truncated[0])
    field = world.field
    return Replay(
        f"{field.name}, seed {seed}",
        (float(field.size[0]), float(field.size[1])),
        [0] * field.allies + [1] * field.enemies,
        field.each("radius").round(3).tolist(),
        positions,
        health,
        "won" if info["episode"]["battle_won"][0] else "not won",
        targets,
    )


def _places(battle: Battle) -> list[float]:
    return [round(float(v), 2) for v in battle.position[0].ravel()]


def _aims(world: Skirmish) -> list[int]:
    """Whom each unit that stands goes for; -1 for nobody."""
    return [int(v) for v in np.where(world.battle.alive[0], world.aims[0], -1)]


def _strength(battle: Battle) -> list[float]:
    """Health and shield of each unit, as a share of what it began with."""
    whole = battle.field.each("health") + battle.field.each("shield")
    left = np.where(battle.alive[0], battle.health[0] + battle.shield[0], 0.0)
    return [round(float(v), 3) for v in np.clip(left / whole, 0, 1)]
