"""Predators and prey: foraging whose food walks, until enough players stand beside it and load."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from twofold.core.experience import Array
from twofold.team.worlds.foraging import LOAD, MOVES, Foraging
from twofold.team.worlds.space import Foreign


class Prey(Foraging):
    """N games; at the end of a step each prey takes one to a free cell beside it with a given probability."""

    state: ClassVar[tuple[str, ...]] = (*Foraging.state, "drawn")

    def __init__(self, env: Foreign, rows: int, limit: int, walks: float) -> None:
        super().__init__(env, rows, limit)
        self.walks = walks
        self._drawn = np.zeros(
            rows, np.uint64
        )  # what the prey of an episode do is a function of this and the step

    def _begin(self, row: int, seed: int | None) -> None:
        super()._begin(row, seed)
        self._drawn[row] = np.random.default_rng(seed).integers(2**63, dtype=np.uint64)

    def _load(self, loading: Array) -> Array:
        paid = super()._load(loading)
        for prey in range(self.foods):
            self._walk(prey)
        return paid

    def _walk(self, prey: int) -> None:
        """One step of a prey in all rows: nobody else may stand there, and it must be inside."""
        drawn = _mixed(self._drawn + _mixed(self._step.astype(np.uint64) * np.uint64(64) + np.uint64(prey)))
        share, way = (drawn >> np.uint64(11)) / 2.0**53, (drawn & np.uint64(3)).astype(np.int64)
        goal = self._food[:, prey, :2] + MOVES[1:LOAD][way]
        inside = ((goal >= 0) & (goal < self.size)).all(-1)
        there = np.concatenate([self._place, self._food[..., :2]], 1)
        living = np.concatenate([np.ones(self._place.shape[:2], bool), self._food[..., 2] > 0], 1)
        taken = ((there == goal[:, None]).all(-1) & living).any(-1)
        goes = (share < self.walks) & inside & ~taken & (self._food[:, prey, 2] > 0)
        self._food[:, prey, :2] = np.where(goes[:, None], goal, self._food[:, prey, :2])


def _mixed(number: Array) -> Array:
    """64 bits that look drawn, from any 64 bits (splitmix64): the same at every resume, for all rows at once."""
    number = number + np.uint64(0x9E3779B97F4A7C15)
    number = (number ^ (number >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    number = (number ^ (number >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Array = number ^ (number >> np.uint64(31))
    return mixed
