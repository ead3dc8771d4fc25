"""Policies that were not learned: what any learnt one has to be better than.

They see the battle itself, so that what they win says something of the map and not of their eyes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from twofold.base.errors import ConfigError, UserError
from twofold.base.statistics import summaries
from twofold.core.evaluate import evaluate
from twofold.core.experience import Array, Obs, named
from twofold.core.protocols import Policy, State, Summary, World
from twofold.core.seeding import generator
from twofold.rows.world import evaluation_names, make_world
from twofold.settings.config import Config
from twofold.team.worlds.battle import LOOPS
from twofold.team.worlds.skirmish import ATTACK, DIRECTIONS, MOVES, STOP, Skirmish

_WON = 1_000.0  # a battle won counts before all rewards
HURT = 0.5  # share of its strength below which a unit steps back


class Stateless:
    """A policy without memory."""

    def reset(self, rows: Array) -> None: ...

    def state_dict(self) -> State:
        return {}

    def load_state_dict(self, state: State) -> None: ...


class Uniform(Stateless):
    """Any available action of a team world."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def act(self, obs: Obs) -> Array:
        avail = named(obs)["avail"]
        drawn: Array = ((self.rng.random(avail.shape) + 1) * (avail > 0)).argmax(-1)
        return drawn

    random = act


class Script(Stateless):
    """Rules for the allies of a skirmish: whom to shoot, and whether to step back."""

    def __init__(self, world: Skirmish, *, focus: bool = False, steps_back: bool = False) -> None:
        self.world, self.focus, self.steps_back = world, focus, steps_back
        field = world.field
        full = (field.each("health") + field.each("shield"))[: field.allies]
        self._full, self._healers = full, np.flatnonzero(field.each("heal")[: field.allies] > 0)

    def act(self, obs: Obs) -> Array:
        """Actions [N, A]: shoot if somebody is within reach, walk to the nearest enemy otherwise."""
        battle, allies, avail = self.world.battle, self.world.field.allies, named(obs)["avail"]
        dx, dy, away = battle.gaps()
        living = battle.alive[:, None, allies:]
        distance = np.where(living, away[..., allies:], np.inf)
        nearest = distance.argmin(-1)
        toward = np.stack([_at(gap[..., allies:], nearest) for gap in (dx, dy)], -1)
        action = _walk(toward, avail)
        shootable = avail[..., ATTACK : ATTACK + self.world.field.enemies] > 0
        worth = distance
        if self.focus:  # the weakest first; the nearest of equals
            worth = (battle.health + battle.shield)[:, None, allies:] + 1e-3 * np.minimum(distance, 99.0)
        target = np.where(shootable, worth, np.inf).argmin(-1)
        action = np.where(shootable.any(-1), ATTACK + target, action)
        if self.steps_back:
            action = np.where(self._in_danger(distance), _walk(-toward, avail), action)
        for healer in self._healers:
            action[:, healer] = self._heal(int(healer), avail[:, healer], dx, dy)
        standing: Array = battle.alive[:, :allies]
        return np.where(standing, action, 0)

    random = act

    def _in_danger(self, distance: Array) -> Array:
        """Hurt, with an enemy near, and a weapon that cannot fire within this step."""
        battle, allies = self.world.battle, self.world.field.allies
        strength = (battle.health + battle.shield)[:, :allies]
        danger: Array = strength < HURT * self._full
        danger &= (battle.cooldown[:, :allies] >= LOOPS) & (distance.min(-1) < 8.0)
        return danger

    def _heal(self, healer: int, avail: Array, dx: Array, dy: Array) -> Array:
        """The most hurt comrade within reach, or a walk to the most hurt one."""
        battle, allies = self.world.battle, self.world.field.allies
        share = battle.health[:, :allies] / self.world.field.each("health")[:allies]
        share = np.where(battle.alive[:, :allies], share, np.inf)
        share[:, self._healers] = np.inf
        within = np.where(avail[:, ATTACK : ATTACK + allies] > 0, share, np.inf)
        patient = share.argmin(-1)
        toward = np.stack([gap[np.arange(len(patient)), healer, patient] for gap in (dx, dy)], -1)
        walk = _walk(toward[:, None], avail[:, None])[:, 0]
        return np.where(np.isfinite(within).any(-1), ATTACK + within.argmin(-1), walk)


def _at(values: Array, index: Array) -> Array:
    return np.take_along_axis(values, index[..., None], -1)[..., 0]


def _walk(toward: Array, avail: Array) -> Array:
    """The available move that leads most in a direction [N, A, 2]; standing if none does."""
    gain = np.where(avail[..., MOVES:ATTACK] > 0, toward @ DIRECTIONS.T, -np.inf)
    return np.where(gain.max(-1) > 0, MOVES + gain.argmax(-1), STOP)


class Planner(Stateless):
    """Plays many battles ahead with the true rules and does what the best of them began with.

    Every candidate follows a script, with some of the first actions replaced by random ones; one follows the best
    battle that was found at the steps before, so that a win, once found, is played to its end. No learner has this
    knowledge, so it says whether a map can be won at all, not what can be learned.
    """

    def __init__(
        self,
        world: Skirmish,
        rng: np.random.Generator,
        *,
        rollouts: int = 80,
        ahead: int = 3,
        mutated: float = 0.25,
    ) -> None:
        self.world, self.rng, self.ahead, self.mutated = world, rng, ahead, mutated
        self._inside = Skirmish(world.cfg, rows=rollouts, purpose="plan")
        kinds = [(focus, back) for focus in (False, True) for back in (False, True)]
        self._scripts = [Script(self._inside, focus=focus, steps_back=back) for focus, back in kinds]
        self._whose = np.arange(rollouts) % len(self._scripts)
        self._plans: list[Array] = [np.zeros((0, self._inside.field.allies), np.int64)] * world.num_envs

    def reset(self, rows: Array) -> None:
        for row in np.flatnonzero(rows):
            self._plans[row] = self._plans[row][:0]

    def act(self, obs: Obs) -> Array:
        whole = self.world.snapshot()
        return np.stack([self._best(whole, row) for row in range(self.world.num_envs)])

    random = act

    def _best(self, whole: State, row: int) -> Array:
        """The first joint action of the best battle from a row's state; the others are remembered."""
        inside, rollouts = self._inside, self._inside.num_envs

        def copied(part: State) -> State:
            return {
                key: copied(leaf) if isinstance(leaf, dict) else np.repeat(leaf[row : row + 1], rollouts, 0)
                for key, leaf in part.items()
            }

        inside.restore(copied(whole))
        if inside.over.all():
            return np.zeros(inside.field.allies, np.int64)
        total, played = np.zeros(rollouts), list[Array]()
        while not inside.over.all():
            played.append(self._actions(self._plans[row], len(played)))
            before = inside.over.copy()
            _, reward, _, _, info = inside.step(played[-1])
            total += reward + _WON * info["episode"]["battle_won"] * (inside.over & ~before)
        plan = np.stack(played)[:, int(total.argmax())]
        self._plans[row] = plan[1:]
        best: Array = plan[0]
        return best

    def _actions(self, plan: Array, step: int) -> Array:
        """Of every rollout at a step ahead: the plan's, a script's, or a script's with random ones among them."""
        obs: Obs = {"avail": self._inside.avail}  # all that scripts ask of an observation
        each = np.stack([script.act(obs) for script in self._scripts])
        action = each[self._whose, np.arange(len(self._whose))]
        if step < self.ahead:
            # The first rollout of each script stays as it is.
            changed = self.rng.random(action.shape) < self.mutated
            changed[: len(self._scripts)] = False
            action = np.where(changed, Uniform(self.rng).act(obs), action)
        if step < len(plan):
            action[-1] = plan[step]
        return action


def _skirmish(world: World, name: str) -> Skirmish:
    if not isinstance(world, Skirmish):
        raise ConfigError(f"the policy {name} knows the rules of team/skirmish only")
    return world


def _script(name: str, **rules: bool) -> Maker:
    return lambda world, rng: Script(_skirmish(world, name), **rules)


Maker = Callable[[World, np.random.Generator], Policy]
SCRIPTS: dict[str, tuple[Maker, str]] = {
    "script/random": (lambda world, rng: Uniform(rng), "any available action, in any team world"),
    "script/nearest": (_script("script/nearest"), "skirmish: walk to the nearest enemy and shoot it"),
    "script/focus": (_script("script/focus", focus=True), "skirmish: all shoot the weakest within reach"),
    "script/step_back": (
        _script("script/step_back", focus=True, steps_back=True),
        "skirmish: focus, and step back when hurt and reloading",
    ),
    "script/planner": (
        lambda world, rng: Planner(_skirmish(world, "script/planner"), rng),
        "skirmish: the best of 80 battles played ahead with the true rules; slow",
    ),
}


def score_script(name: str, config: Config, episodes: int, seed: int) -> dict[str, dict[str, Summary]]:
    """What a script reaches in the evaluation worlds of a config."""
    if name not in SCRIPTS:
        raise UserError(f"no policy named '{name}'; there are {', '.join(SCRIPTS)}")
    found = {}
    for purpose in evaluation_names(config):
        world = make_world(config, purpose=purpose, rows=min(episodes, config.trainer.eval_rows))
        policy = SCRIPTS[name][0](world, generator(0, "evaluation"))
        found[purpose] = summaries(evaluate(world, policy, [seed + i for i in range(episodes)]))
        world.close()
    return found
