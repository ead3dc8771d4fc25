"""Skirmish: a StarCraft-like battle in batched numpy, with SMAC's actions, observations, state and rewards."""

from __future__ import annotations

import numpy as np

from twofold.base.errors import WorldError
from twofold.base.setting import setting, settings
from twofold.core.experience import Array
from twofold.core.protocols import Policy, State
from twofold.settings.registry import worlds
from twofold.show.panels import Replay
from twofold.team.worlds.battle import SIGHT, Battle
from twofold.team.worlds.battlefield import load_battlefield
from twofold.team.worlds.ease import Ease
from twofold.team.worlds.space import (
    METADATA,
    Frames,
    Info,
    Seeds,
    Stepped,
    TeamObs,
    TeamShape,
    TeamWorld,
    reset_mask,
    seeds_of,
    set_spaces,
)
from twofold.team.worlds.views import Views

SHOOT_RANGE = 6.0  # an attack may be ordered from here, as in SMAC; the unit walks the rest
STOP, MOVES, ATTACK = 1, 2, 6
DIRECTIONS = np.array([[0, 1], [0, -1], [1, 0], [-1, 0]], np.float32)  # north, south, east, west


@settings
class SkirmishConfig:
    """Settings under their SMAC names."""

    map_name: str = setting("a map of the package, or a path to a .json file", default="8m")
    move_amount: float = setting(
        "how far a move asks for; a unit's speed may allow less", default=2.0, gt=0, unit="cells"
    )
    obs_own_health: bool = setting("a unit sees its own health and shield", default=True)
    obs_all_health: bool = setting("a unit sees the health and shield of those in sight", default=True)
    obs_last_action: bool = setting("a unit sees the last actions of visible allies", default=False)
    obs_timestep_number: bool = setting("a unit sees the share of the time limit that is over", default=False)
    obs_instead_of_state: bool = setting("the state is all observations, joined", default=False)
    state_last_action: bool = setting("the state holds the last actions", default=True)
    state_timestep_number: bool = setting(
        "the state holds the share of the limit that is over", default=False
    )
    continuing_episode: bool = setting(
        "a time-out is a truncation, values bootstrap through it; PyMARL and SMAC have false", default=False
    )
    train_ease: float = setting(
        "enemies of training battles lack one drawn share of their strength, at most this; never in evaluations",
        default=0.0,
        ge=0,
        lt=1,
    )
    train_ease_step: float = setting(
        "train_ease is where training begins: it falls by this with a battle won, rises with one lost; 0: it stays",
        default=0.0,
        ge=0,
        lt=1,
    )
    reward_sparse: bool = setting("1 for a win, -1 for a defeat, nothing before", default=False)
    reward_only_positive: bool = setting("own losses cost nothing", default=True)
    reward_negative_scale: float = setting("weight of own losses, where they cost", default=0.5, ge=0)
    reward_death_value: float = setting("for each unit that dies", default=10.0, ge=0)
    reward_win: float = setting("for a battle won", default=200.0, ge=0)
    reward_defeat: float = setting("for a battle lost", default=0.0)
    reward_scale: bool = setting(
        "scale rewards so that a perfect battle pays `reward_scale_rate`", default=True
    )
    reward_scale_rate: float = setting("the return of a perfect battle", default=20.0, gt=0)


def _view(cfg: SkirmishConfig, mode: str) -> Skirmish:
    if mode != "rgb_array":
        raise WorldError("skirmish has no window: twofold play RUN --out=battle.mp4 writes a video")
    return Skirmish(cfg, rows=1, purpose="eval")


@worlds.register("team/skirmish", config=SkirmishConfig, view=_view)
class Skirmish(TeamWorld):
    """StarCraft-like battles against scripted enemies; an unavailable action counts as standing still."""

    def __init__(self, cfg: SkirmishConfig, *, rows: int, purpose: str) -> None:
        self.cfg, self.field = cfg, load_battlefield(cfg.map_name)
        self.metadata, self.render_mode = dict(METADATA), "rgb_array"
        self.battle = Battle(self.field, rows)
        self.ease = Ease(cfg.train_ease if purpose == "train" else 0.0, cfg.train_ease_step)
        heals = self.field.each("heal")[: self.field.allies] > 0
        actions = ATTACK + max(self.field.enemies, self.field.allies if heals.any() else 0)
        self._healers = np.flatnonzero(heals)
        self.views = Views(cfg, self.field, actions)
        sizes = self.field.allies, self.views.obs_size, self.views.state_size, actions, self.field.limit
        set_spaces(self, rows, TeamShape(*sizes, units=self.views.units))
        self._last = np.zeros((rows, self.field.allies), np.int64)
        self.aims = np.full((rows, self.field.allies + self.field.enemies), -1)  # whom each unit goes for
        self._step = np.zeros(rows, np.int32)
        self._over = np.zeros(rows, bool)
        self._refresh()

    def reset(self, *, seed: Seeds = None, options: Info | None = None) -> tuple[TeamObs, Info]:
        seeds = seeds_of(seed, self.num_envs)
        mask = reset_mask(options, self.num_envs)
        for row in np.flatnonzero(mask):
            self.battle.place(int(row), np.random.default_rng(seeds[row]), self.ease)
        self._last[mask], self._step[mask], self._over[mask], self.aims[mask] = 0, 0, False, -1
        self._refresh()
        return self._observe(), {}

    def step(self, actions: Array) -> Stepped:
        actions = np.asarray(actions, np.int64)
        allowed = np.take_along_axis(self._avail, actions[..., None], -1)[..., 0] > 0
        battle, allies = self.battle, self.field.allies
        standing = battle.alive[:, :allies]
        actions = np.where(allowed, actions, np.where(standing, STOP, 0))
        before = (battle.health + battle.shield, battle.alive)
        goal, aim = battle.enemy_orders(self._gaps[2])
        self.aims = np.concatenate([self._targets(actions), aim], 1)
        battle.advance(np.concatenate([self._walk(actions), goal], 1), self.aims)
        self._last = actions
        self._step += 1
        self._refresh()
        return self._outcome(before)

    def _walk(self, actions: Array) -> Array:
        moving = (actions >= MOVES) & (actions < ATTACK)
        return DIRECTIONS[np.where(moving, actions - MOVES, 0)] * (
            moving[..., None] * np.float32(self.cfg.move_amount)
        )

    def _targets(self, actions: Array) -> Array:
        target = np.where(actions >= ATTACK, actions - ATTACK + self.field.allies, -1)
        for healer in self._healers:
            target[:, healer] = np.where(actions[:, healer] >= ATTACK, actions[:, healer] - ATTACK, -1)
        return target

    def _outcome(self, before: tuple[Array, Array]) -> Stepped:
        allies, alive = self.field.allies, self.battle.alive
        won: Array = ~np.any(alive[:, allies:], -1)
        lost: Array = ~np.any(alive[:, :allies], -1)
        reward = np.where(self._over, 0.0, self._reward(before, won, lost))
        decided = won | lost
        time_out = ~decided & (self._step >= self.field.limit)
        self.ease.follow((decided | time_out) & ~self._over, won & ~lost)
        self._over |= decided | time_out
        terminated = decided if self.cfg.continuing_episode else decided | time_out
        truncated = time_out & ~terminated
        episode = {
            "battle_won": (won & ~lost).astype(float),
            "dead_allies": (~alive[:, :allies]).sum(-1).astype(float),
            "dead_enemies": (~alive[:, allies:]).sum(-1).astype(float),
        }
        if self.ease.step and self.ease.most:
            episode["ease"] = np.full(self.num_envs, self.ease.level)
        return self._observe(), reward, terminated, truncated, {"episode": episode}

    def _reward(self, before: tuple[Array, Array], won: Array, lost: Array) -> Array:
        """SMAC's shaping: damage dealt, kills and the win, scaled so that a perfect battle pays `reward_scale_rate`."""
        cfg, allies, battle = self.cfg, self.field.allies, self.battle
        victory, defeat = won & ~lost, lost
        if cfg.reward_sparse:
            return np.where(victory, 1.0, np.where(defeat, -1.0, 0.0))
        strength, alive = before
        damage = strength - (battle.health + battle.shield) + cfg.reward_death_value * (alive & ~battle.alive)
        reward: Array = damage[:, allies:].sum(-1, dtype=float)
        if cfg.reward_only_positive:
            reward = np.abs(reward)  # as SMAC has it: shields that grow pay, too
        else:
            reward -= cfg.reward_negative_scale * damage[:, :allies].sum(-1, dtype=float)
        reward += cfg.reward_win * victory + cfg.reward_defeat * defeat
        return reward * (cfg.reward_scale_rate / self._perfect()) if cfg.reward_scale else reward

    def _perfect(self) -> float:
        strength = (self.field.each("health") + self.field.each("shield"))[self.field.allies :].sum()
        return float(strength + self.cfg.reward_death_value * self.field.enemies + self.cfg.reward_win)

    @property
    def avail(self) -> Array:
        """What every ally may do now, [N, A, n]."""
        return self._avail

    @property
    def over(self) -> Array:
        """Rows whose battle has ended, [N]."""
        return self._over

    def _refresh(self) -> None:
        self._gaps = self.battle.gaps()
        self._avail = self._available(self._gaps[2])

    def _available(self, distance: Array) -> Array:
        rows, allies = self.num_envs, self.field.allies
        alive = self.battle.alive
        avail = np.zeros((rows, allies, self.views.actions), np.uint8)
        standing = alive[:, :allies]
        avail[..., 0] = ~standing
        avail[..., STOP] = standing
        ahead = self.battle.position[:, :allies, None] + DIRECTIONS * np.float32(self.cfg.move_amount / 2)
        inside = ((ahead >= 0) & (ahead <= self.field.size)).all(-1)
        avail[..., MOVES:ATTACK] = inside & standing[..., None]
        reachable = (distance <= SHOOT_RANGE) & alive[:, None] & standing[..., None]
        avail[..., ATTACK : ATTACK + self.field.enemies] = reachable[..., allies:]
        for healer in self._healers:
            avail[:, healer, ATTACK:] = 0
            treatable = reachable[:, healer, :allies].copy()
            treatable[:, self._healers] = False
            avail[:, healer, ATTACK : ATTACK + allies] = treatable
        return avail

    def _observe(self) -> TeamObs:
        visible = (
            (self._gaps[2] < SIGHT)
            & self.battle.alive[:, None]
            & self.battle.alive[:, : self.field.allies, None]
        )
        obs = self.views.obs(self.battle, self._gaps, visible, self._avail, self._last, self._step)
        state = (
            obs.reshape(len(obs), -1).copy()
            if self.cfg.obs_instead_of_state
            else (self.views.state(self.battle, self._last, self._step))
        )
        return {"obs": obs, "state": state, "avail": self._avail.copy(), "step": self._step.copy()}

    def snapshot(self) -> State:
        return {
            "battle": self.battle.snapshot(),
            "last": self._last.copy(),
            "step": self._step.copy(),
            "over": self._over.copy(),
            "ease": np.full(self.num_envs, self.ease.level),
        }

    def restore(self, snapshot: State) -> None:
        self.battle.restore(snapshot["battle"])
        self._last, self._step = np.array(snapshot["last"]), np.array(snapshot["step"])
        self._over = np.array(snapshot["over"])
        self.ease.level = float(np.ravel(snapshot.get("ease", self.ease.level))[0])
        self._refresh()

    def recorded(self, policy: Policy, seed: int) -> Replay:
        """One battle as data that a page plays."""
        from twofold.team.panels import battle_panel

        return battle_panel(self, policy, seed)

    def render(self) -> Frames:
        """A picture of every row, uint8 [height, width, 3]."""
        from twofold.team.worlds.drawing import draw

        return tuple(
            draw(self.battle, row, self._last[row], int(self._step[row])) for row in range(self.num_envs)
        )
