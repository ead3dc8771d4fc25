"""Matrix games: QTRAN's 3x3 game and QMIX's two-step game, whose best joint actions are known."""

from __future__ import annotations

import numpy as np

from twofold.base.errors import ConfigError
from twofold.base.setting import setting, settings
from twofold.core.experience import Array
from twofold.core.protocols import State
from twofold.settings.registry import worlds
from twofold.team.worlds.space import (
    METADATA,
    Info,
    Seeds,
    Stepped,
    TeamObs,
    TeamShape,
    TeamWorld,
    reset_mask,
    set_spaces,
)

# Son et al. 2019 (QTRAN), table 1: additive and monotonic mixers settle for 0 at a corner away from the optimum 8.
QTRAN_PAYOFF = ((8.0, -12.0, -12.0), (-12.0, 0.0, 0.0), (-12.0, 0.0, 0.0))
# Rashid et al. 2018 (QMIX), table 1: the first agent's first action chooses between a safe and a risky game.
SAFE, RISKY = ((7.0, 7.0), (7.0, 7.0)), ((0.0, 1.0), (1.0, 8.0))


@settings
class MatrixConfig:
    """A game of one joint action."""

    payoff: dict[str, tuple[tuple[float, ...], ...]] = setting(
        "{rows: [[...], ...]}: what each pair of actions pays; empty: QTRAN's 3x3 game", factory=dict
    )


@settings
class TwoStepConfig:
    """The two-step game has no settings."""


class TableWorld(TeamWorld):
    """A game given by tables: reward[state, i, j] and successor[state, i, j], where -1 is the end."""

    def __init__(self, rows: int, reward: Array, successor: Array) -> None:
        states, actions = reward.shape[0], reward.shape[1]
        self.metadata = dict(METADATA)
        self.render_mode = None
        self._reward, self._successor = reward, successor
        self._limit = states
        set_spaces(self, rows, TeamShape(2, states, states, actions, limit=states))
        self._at = np.zeros(rows, np.int64)
        self._step = np.zeros(rows, np.int32)
        self._return = np.zeros(rows)

    def reset(self, *, seed: Seeds = None, options: Info | None = None) -> tuple[TeamObs, Info]:
        rows = reset_mask(options, self.num_envs)
        self._at[rows], self._step[rows], self._return[rows] = 0, 0, 0.0
        return self._observe(), {}

    def step(self, actions: Array) -> Stepped:
        first, second = np.asarray(actions, np.int64).T
        reward = self._reward[self._at, first, second]
        successor = self._successor[self._at, first, second]
        terminated = successor < 0
        self._at = np.maximum(successor, 0)
        self._step += 1
        self._return += reward
        truncated = ~terminated & (self._step >= self._limit)
        return self._observe(), reward, terminated, truncated, {"episode": {"payoff": self._return.copy()}}

    def _observe(self) -> TeamObs:
        state = np.eye(len(self._reward), dtype=np.float32)[self._at]
        avail = np.ones((self.num_envs, 2, self._reward.shape[1]), np.uint8)
        return {"obs": np.stack([state, state], 1), "state": state, "avail": avail, "step": self._step.copy()}

    def snapshot(self) -> State:
        return {"at": self._at.copy(), "step": self._step.copy(), "return": self._return.copy()}

    def restore(self, snapshot: State) -> None:
        self._at[:], self._step[:] = snapshot["at"], snapshot["step"]
        self._return[:] = snapshot["return"]


@worlds.register("team/matrix_game", config=MatrixConfig)
def matrix_game(cfg: MatrixConfig, *, rows: int, purpose: str) -> TableWorld:
    """One joint action of two agents, paid by a table; QTRAN's game unless another is given."""
    payoff = np.array(cfg.payoff.get("rows", QTRAN_PAYOFF), float)
    if payoff.ndim != 2 or payoff.shape[0] != payoff.shape[1]:
        raise ConfigError(f"env_args.payoff.rows must be a square table of numbers, got shape {payoff.shape}")
    return TableWorld(rows, payoff[None], np.full((1, *payoff.shape), -1))


@worlds.register("team/two_step", config=TwoStepConfig)
def two_step(cfg: TwoStepConfig, *, rows: int, purpose: str) -> TableWorld:
    """The first agent chooses the second step's game: always 7, or 0, 1, 1, 8."""
    reward = np.array([np.zeros((2, 2)), SAFE, RISKY])
    successor = np.full((3, 2, 2), -1)
    successor[0] = [[1, 1], [2, 2]]
    return TableWorld(rows, reward, successor)
