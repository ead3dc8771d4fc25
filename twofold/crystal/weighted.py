"""Rows that train most on the structures they relax worst (`with_weights` in Trukhan et al., arXiv 2502.08405)."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np

from twofold.base.foreign import Info
from twofold.core.experience import Array, Obs
from twofold.core.protocols import State
from twofold.crystal.library import StructureSet
from twofold.rows.envs import EnvRows, MakeEnv


class Limits(Protocol):
    """Settings that say which structures are relaxed already."""

    @property
    def eps(self) -> float: ...


@runtime_checkable
class Drawing(Protocol):
    """An environment that draws the structure of an episode from sets."""

    sets: list[StructureSet]

    @property
    def cfg(self) -> Limits: ...


class WeightedRows(EnvRows):
    """Structures are drawn in proportion to the largest force that their last training episode left.

    Their code takes the forces of the last test; here evaluation never touches training, so training's own
    episodes count. An episode is a function of its seed, its actions and these forces, which the snapshot holds.
    """

    def __init__(self, make_env: MakeEnv, rows: int) -> None:
        super().__init__(make_env, rows)
        env = self.envs[0]
        if not isinstance(env, Drawing):
            raise TypeError(f"{type(env).__name__} has no sets of structures to weigh")
        self._weights = np.array([s.weight for s in env.sets for _ in s.minima(env.cfg.eps)])
        self.places = [(n, k) for n, s in enumerate(env.sets) for k in range(len(s.minima(env.cfg.eps)))]
        self.forces = np.zeros(len(self.places))  # eV/A; 0: not seen yet
        self.chosen = np.zeros(rows, np.int64)
        self._replaying = False

    def chances(self) -> Array:
        """The chance of every structure; one that was not seen yet counts like the worst one seen."""
        seen = self.forces > 0
        worst = float(self.forces.max()) if seen.any() else 1.0
        weights = self._weights * np.where(seen, self.forces, worst)
        return np.asarray(weights / weights.sum())

    def _start(self, row: int, seed: int | None) -> Obs:
        if not self._replaying:
            rng = np.random.default_rng(None if seed is None else [seed, 2])
            self.chosen[row] = rng.choice(len(self.places), p=self.chances())
        self.log.start(row, -1 if seed is None else seed)
        obs: Obs = self.envs[row].reset(seed=seed, options={"which": self.places[self.chosen[row]]})[0]
        return obs

    def step(self, actions: Array) -> tuple[Obs, Array, Array, Array, Info]:
        obs, reward, terminated, truncated, info = super().step(actions)
        for row in np.flatnonzero(terminated | truncated):
            self.forces[self.chosen[row]] = max(float(info["episode"]["final_force"][row]), 1e-6)
        return obs, reward, terminated, truncated, info

    def snapshot(self) -> State:
        return {**super().snapshot(), "forces": self.forces.copy(), "chosen": self.chosen.copy()}

    def restore(self, snapshot: State) -> None:
        self.forces, self.chosen = np.array(snapshot["forces"]), np.array(snapshot["chosen"])
        self._replaying = True
        try:
            super().restore(snapshot)
        finally:
            self._replaying = False
