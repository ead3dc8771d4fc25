"""How td3_plus acts: observations normalised, and while exploring noise that is held."""

from __future__ import annotations

import numpy as np

from twofold.core.experience import Array, Obs
from twofold.core.protocols import State
from twofold.learners.plus.writer import vectors
from twofold.learners.policy import GaussianPolicy
from twofold.nets.normaliser import Normaliser


class HeldNoise:
    """Standard normal noise for each row, held for k steps with P(k) ~ k^-2, k <= `longest` (as FlashSAC).

    A push that lasts moves a body; one that changes every step averages out.
    """

    def __init__(self, longest: int, rng: np.random.Generator) -> None:
        self.rng = rng
        weight = 1.0 / np.arange(1, longest + 1) ** 2
        self._up_to = np.cumsum(weight / weight.sum())
        self._noise: Array = np.zeros((0, 0), np.float32)
        self._left: Array = np.zeros(0, np.int64)  # steps that each row's noise is still held

    def draw(self, shape: tuple[int, ...]) -> Array:
        """The noise of the next step [N, a]."""
        if len(self._up_to) == 1:
            return self.rng.standard_normal(shape, dtype=np.float32)
        if self._noise.shape != shape:
            self._noise, self._left = np.zeros(shape, np.float32), np.zeros(shape[0], np.int64)
        over = np.flatnonzero(self._left == 0)
        if len(over):
            self._noise[over] = self.rng.standard_normal((len(over), *shape[1:]), dtype=np.float32)
            self._left[over] = 1 + np.searchsorted(self._up_to, self.rng.random(len(over)))
        self._left -= 1
        return self._noise.copy()

    def state_dict(self) -> State:
        return {"noise": self._noise.copy(), "left": self._left.copy()}

    def load_state_dict(self, state: State) -> None:
        self._noise, self._left = np.array(state["noise"]), np.array(state["left"])


class PlusPolicy:
    """A Gaussian policy behind a normaliser, which counts what is seen while exploring, with held noise."""

    def __init__(self, inner: GaussianPolicy, normaliser: Normaliser | None, longest: int) -> None:
        self.inner, self.normaliser = inner, normaliser
        self.held = HeldNoise(longest, inner.rng)
        inner.noise = self.held.draw

    def reset(self, rows: Array) -> None:
        self.inner.reset(rows)

    def act(self, obs: Obs) -> Array:
        """Actions [N, a] in [-1, 1]."""
        self._count(obs)
        return self.inner.act(obs if self.normaliser is None else self.normaliser(vectors(obs)))

    def random(self, obs: Obs) -> Array:
        """Uniform actions, for the warm-up, which is seen as well."""
        self._count(obs)
        return self.inner.random(obs)

    def _count(self, obs: Obs) -> None:
        if self.normaliser is not None and self.inner.explore:
            self.normaliser.observe(vectors(obs))

    def state_dict(self) -> State:
        return {"inner": self.inner.state_dict(), "held": self.held.state_dict()}

    def load_state_dict(self, state: State) -> None:
        self.inner.load_state_dict(state["inner"])
        self.held.load_state_dict(state["held"])
