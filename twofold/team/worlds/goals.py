"""Foraging beside a partner with a goal of its own, which it does not tell: some are met in training, some never."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from twofold.base.errors import ConfigError
from twofold.base.setting import setting, settings
from twofold.core.experience import Array, Obs, named
from twofold.core.protocols import State
from twofold.settings.registry import worlds
from twofold.team.seating import Group, Seating
from twofold.team.worlds.foraging import LOAD, MOVES, Foraging
from twofold.team.worlds.packages import LBFConfig, lbf
from twofold.team.worlds.partnered import Seated
from twofold.team.worlds.prey import Prey
from twofold.team.worlds.space import Info, Seeds, Stepped, TeamObs, reset_mask, set_spaces, shape_of

Goal = Literal[
    "nearest", "farthest", "top", "bottom", "left", "right", "nearest_to_mate", "farthest_from_mate"
]


@settings
class GoalsConfig:
    """Which game, and which goals its partners have."""

    id: str = setting(
        "a game of lbforaging in which everything is in sight", default="Foraging-8x8-2p-2f-coop-v3"
    )
    sight: int = setting(
        "how many cells the learner sees each way; what is farther is hidden from it, never from its partners; "
        "0: everything",
        default=0,
        ge=0,
        unit="cells",
    )
    walks: float = setting(
        "probability that a food takes a step: above 0 it is prey, which must be caught together",
        default=0.0,
        ge=0,
        le=1,
    )
    time_limit: int = setting("longest episode", default=50, ge=1, unit="steps")
    met: tuple[Goal, ...] = setting(
        "goals of the partners of training", default=("nearest", "farthest", "top", "right")
    )
    unmet: tuple[Goal, ...] = setting(
        "goals of the partners of tests alone",
        default=("bottom", "left", "nearest_to_mate", "farthest_from_mate"),
    )
    tells: bool = setting(
        "the learner is told the place of the food that its partner goes for: what could be won by knowing it",
        default=False,
    )
    seats: int = setting("seats of the learner; a partner plays the others", default=1, ge=1)

    def __post_init__(self) -> None:
        if not self.met or not self.unmet or set(self.met) & set(self.unmet):
            raise ConfigError("env_args.met and env_args.unmet need a goal each, and none in common")


@worlds.register("team/goals", config=GoalsConfig, evaluations=("train_partners", "test_partners"))
def goals(cfg: GoalsConfig, *, rows: int, purpose: str) -> Seated:
    """Foraging with a scripted partner whose goal is redrawn for every episode and not revealed."""
    inner = lbf(LBFConfig(id=cfg.id, time_limit=cfg.time_limit), rows=rows, purpose=purpose)
    if not isinstance(inner, Foraging):
        raise ConfigError(f"env_args.id={cfg.id}: the partners need a game in which everything is in sight")
    if cfg.walks:
        inner = Prey(inner.env, rows, cfg.time_limit, cfg.walks)
    chosen = cfg.unmet if purpose == "test_partners" else cfg.met
    sizes = (inner.foods, rows, inner.players, inner.size)
    forager = Forager(chosen, *sizes, walks=cfg.walks > 0)
    group = Group(inner.players - cfg.seats, tuple(range(len(chosen))))
    seating = Goals([forager], [group], agents=inner.players, free=cfg.seats, rows=rows, rotate=True)
    return Nearsighted(inner, seating, forager, cfg.sight, tells=cfg.tells)


class Goals(Seating):
    """One forager plays all partners; whose seat is whose says which goal it has there."""

    def fill(self, obs: Obs, actions: Array) -> Array:
        joint, mine = np.zeros(self.owner.shape, np.int64), self.owner >= 0
        np.put_along_axis(joint, self.order[:, : self.free], np.asarray(actions, np.int64), 1)
        joint[mine] = self.policies[0].act(obs | {"goal": np.maximum(self.owner, 0)})[mine]
        return joint


class Nearsighted(Seated):
    """Foraging whose learner sees only what is near; an unseen thing reads as in the package: -1, -1, 0.

    The state, known in training alone, is what the learner's first seat would see if nothing were hidden, and behind it
    the place of the food that its partner loaded in the step before: y and x, then a column for every y and every x, 1
    at the food's; all of them -1 where it loaded nothing. The mean of such columns over places still says how likely
    each is, while the mean of two places is a third.
    """

    def __init__(
        self, inner: Foraging, seating: Seating, forager: Forager, sight: int, *, tells: bool
    ) -> None:
        super().__init__(inner, seating)
        self.foods, self.sight, self.forager, self.tells = inner.foods, sight, forager, tells
        self.things = 3 * (inner.foods + inner.players)  # columns: y, x and level of each
        self.height, self.width = (int(side) for side in inner.size)
        shape = shape_of(self.single_observation_space)
        state = self.things + 2 + self.height + self.width
        set_spaces(self, self.num_envs, replace(shape, obs=shape.obs + 2 * tells, state=state))
        self._loaded = np.full((self.num_envs, 2), -1, np.float32)

    def reset(self, *, seed: Seeds = None, options: Info | None = None) -> tuple[TeamObs, Info]:
        self._loaded[reset_mask(options, self.num_envs)] = -1
        return super().reset(seed=seed, options=options)

    def step(self, actions: Array) -> Stepped:
        joint = self.seating.fill(self._obs, actions)
        self._loaded = self._loads(joint)
        return self._play(joint)

    def _loads(self, joint: Array) -> Array:
        """The food beside the partner if it loads now, [N, 2]."""
        rows, seat = np.arange(self.num_envs), self.seating.order[:, self.seating.free]
        things = self._obs["obs"][rows, seat].reshape(self.num_envs, -1, 3)
        food, place = things[:, : self.foods], things[:, self.foods, :2]
        beside = (np.abs(food[..., :2] - place[:, None]).sum(-1) == 1) & (food[..., 2] > 0)
        loads = (joint[rows, seat] == LOAD) & beside.any(-1)
        return np.where(loads[:, None], food[rows, beside.argmax(-1), :2], -1).astype(np.float32)

    def _marked(self) -> Array:
        """The loaded food's y and x as columns of which one is 1, [N, height + width]; -1 where nothing was loaded."""
        y, x = self._loaded[:, :1] == np.arange(self.height), self._loaded[:, 1:] == np.arange(self.width)
        marked = np.concatenate([y, x], 1).astype(np.float32)
        return np.where(self._loaded[:, :1] < 0, np.float32(-1), marked)

    def _view(self) -> TeamObs:
        view = super()._view()
        obs = view["obs"]
        view["state"] = np.concatenate([obs[:, 0, : self.things], self._loaded, self._marked()], -1)
        if self.sight:
            things = obs[..., : self.things].reshape(*obs.shape[:2], -1, 3)
            away = np.abs(things[..., :2] - things[..., self.foods, None, :2]).max(-1)
            seen = np.where((away > self.sight)[..., None], np.array([-1, -1, 0], np.float32), things)
            obs[..., : self.things] = seen.reshape(*seen.shape[:2], -1)
        if self.tells:
            view["obs"] = np.concatenate([obs, self._wishes()], -1)
        return view

    def _wishes(self) -> Array:
        """Where the partner of each row goes, for each seat of the learner [N, free, 2]."""
        order, free = self.seating.order, self.seating.free
        targets = self.forager.aim(self._obs | {"goal": np.maximum(self.seating.owner, 0)})
        wish: Array = targets[np.arange(self.num_envs)[:, None], order[:, free : free + 1]].astype(np.float32)
        return np.repeat(wish, free, 1)

    def snapshot(self) -> State:
        return super().snapshot() | {"loaded": self._loaded.copy()}

    def restore(self, snapshot: State) -> None:
        super().restore(snapshot)
        self._loaded = np.array(snapshot["loaded"])


class Forager:
    """Walks to the food that its goal names, stays with it until it is eaten, and loads it; for every seat.

    Which of its goals it has on which seat is observed as "goal" [N, A]; if nothing is said, the first.
    """

    def __init__(
        self,
        goals: tuple[Goal, ...],
        foods: int,
        rows: int,
        players: int,
        size: Array,
        *,
        walks: bool = False,
    ) -> None:
        self.goals, self.foods, self.size = goals, foods, size
        self.reach = int(walks)  # how far a food may have gone since it was seen
        self.target = np.full((rows, players, 2), -1, np.int64)  # -1: none
        self.before = np.full((rows, players, 2), -1, np.int64)  # where each stood
        self.waited = np.zeros((rows, players), np.int64)  # steps that each stood there

    def reset(self, rows: Array) -> None:
        self.target[rows], self.before[rows], self.waited[rows] = -1, -1, 0

    def act(self, obs: Obs) -> Array:
        """Actions [N, A] from what every player sees: all food, itself, the others."""
        food, place, mates = self._things(obs)
        self.target = self.aim(obs)
        self.waited = np.where((place == self.before).all(-1), self.waited + 1, 0)
        self.before = place
        walk = self._walk(place, np.concatenate([food[..., :2], mates], 2))
        beside = np.abs(self.target - place).sum(-1) == 1
        return np.where((food[..., 2] > 0).any(-1), np.where(beside, LOAD, walk), 0)

    random = act

    def _things(self, obs: Obs) -> tuple[Array, Array, Array]:
        """Every player's food [N, A, F, 3], own place [N, A, 2] and that of the others [N, A, P - 1, 2]."""
        seen = named(obs)["obs"].astype(np.int64)
        food = seen[..., : 3 * self.foods].reshape(*seen.shape[:2], self.foods, 3)
        players = seen[..., 3 * self.foods :].reshape(*seen.shape[:2], -1, 3)
        return food, players[..., 0, :2], players[..., 1:, :2]

    def aim(self, obs: Obs) -> Array:
        """Where everybody wants to go now, [N, A, 2]: the food gone for, as long as it is there, or another."""
        food, place, mates = self._things(obs)
        left = food[..., 2] > 0
        gone = np.where(left, np.abs(food[..., :2] - self.target[..., None, :]).sum(-1), 99)
        kept, followed = gone.min(-1) <= self.reach, _pick(food[..., :2], gone.argmin(-1))
        goal = np.asarray(named(obs).get("goal", np.zeros(left.shape[:2], np.int64)))
        costs = self._costs(food[..., :2], place, mates)
        cost = np.where(left, np.take_along_axis(costs, goal[None, ..., None], 0)[0], np.inf)
        wished = _pick(food[..., :2], cost.argmin(-1))
        aimed: Array = np.where(kept[..., None], followed, wished)
        return aimed

    def _costs(self, food: Array, place: Array, mates: Array) -> Array:
        """What each goal would have least of, for every food [goals, N, A, F]."""
        own: Array = np.abs(food - place[..., None, :]).sum(-1)
        mate: Array = np.abs(food[..., None, :] - mates[..., None, :, :]).sum(-1).min(-1)
        y, x = food[..., 0], food[..., 1]
        costs = {"nearest": own, "farthest": -own, "top": y, "bottom": -y, "left": x, "right": -x}
        costs |= {"nearest_to_mate": mate, "farthest_from_mate": -mate}
        return np.stack([costs[goal] for goal in self.goals])

    def _walk(self, place: Array, taken: Array) -> Array:
        """The first step of a shortest way to the target; who stood too long gives way by another."""
        far = _ways(self.target, taken, self.size)
        ahead = place[..., None, :] + MOVES[:LOAD]  # [N, A, 5, 2]: standing, and the four ways
        away = _look(far, ahead)
        # Two who want the same place would wait for each other for ever: seats lose patience one after the other.
        impatient = self.waited > 1 + np.arange(place.shape[1])
        away[..., 0] += 0.5 + 99.0 * impatient
        shortest = away.argmin(-1)
        blocked: Array = np.where(np.arange(LOAD) == shortest[..., None], np.inf, away)
        other: Array = np.where(impatient & np.isfinite(blocked.min(-1)), blocked.argmin(-1), shortest)
        return np.where(np.isfinite(away.min(-1)), other, 0)

    def state_dict(self) -> State:
        return {"target": self.target.copy(), "before": self.before.copy(), "waited": self.waited.copy()}

    def load_state_dict(self, state: State) -> None:
        self.target, self.before, self.waited = (
            np.array(state[key]) for key in ("target", "before", "waited")
        )


def _pick(places: Array, which: Array) -> Array:
    """One of the places [N, A, F, 2] for each seat, [N, A, 2]."""
    picked: Array = np.take_along_axis(places, which[..., None, None], 2)[..., 0, :]
    return picked


_NO_WAY = 9_999  # farther than any cell


def _ways(target: Array, taken: Array, size: Array) -> Array:
    """Steps to the nearest free cell beside the target from every cell, [N, A, height + 2, width + 2]; inf: none."""
    height, width = (int(side) + 2 for side in size)  # with a border, so that neighbours always exist
    rows, seats = np.indices(target.shape[:2])
    free = np.zeros((*target.shape[:2], height, width), bool)
    free[..., 1:-1, 1:-1] = True
    for k in range(taken.shape[2]):  # food that was eaten is at -1, on the border
        free[rows, seats, taken[..., k, 0] + 1, taken[..., k, 1] + 1] = False
    far = np.full(free.shape, _NO_WAY, np.int16)
    for step in MOVES[1:LOAD]:
        at = target + step + 1
        far[rows, seats, at[..., 0], at[..., 1]] = 0
    far[~free] = _NO_WAY
    inner, open_ = far[..., 1:-1, 1:-1], free[..., 1:-1, 1:-1]
    above, below, left, right = (
        far[..., :-2, 1:-1],
        far[..., 2:, 1:-1],
        far[..., 1:-1, :-2],
        far[..., 1:-1, 2:],
    )
    for _ in range(height * width):
        near = np.minimum(np.minimum(above, below), np.minimum(left, right)) + 1
        closer = open_ & (near < inner)
        if not closer.any():
            break
        inner[closer] = near[closer]
    return np.where(far < _NO_WAY, far, np.inf)


def _look(far: Array, at: Array) -> Array:
    rows, seats, _ = np.indices(at.shape[:3])
    found: Array = far[rows, seats, at[..., 0] + 1, at[..., 1] + 1]
    return found
