"""How td3_plus acts: observations normalised, and while exploring noise that is held."""

from __future__ import annotations

import numpy as np

from twofold.core.experience import Array, Obs
from twofold.core.protocols import State
from twofold.learners.plus.writer import vectors
from twofold.learners.policy import GaussianPolicy
from twofold.nets.normaliser import Normaliser


class HeldNoise:
    """Standard normal noise for each row, new every `steps` steps.

    A push that lasts moves a body; one that changes at every step averages out, the sooner the more often a world asks.
    """

    def __init__(self, steps: int, rng: np.random.Generator) -> None:
        self.rng, self.steps = rng, steps
        self._noise: Array = np.zeros((0, 0), np.float32)
        self._left = 0  # steps that the noise is still held

    def draw(self, shape: tuple[int, ...]) -> Array:
        """The noise of the next step [N, a]."""
        if self._left == 0 or self._noise.shape != shape:
            self._noise, self._left = self.rng.standard_normal(shape, dtype=np.float32), self.steps
        self._left -= 1
        return self._noise

    def state_dict(self) -> State:
        return {"noise": self._noise.copy(), "left": self._left}

    def load_state_dict(self, state: State) -> None:
        self._noise, self._left = np.array(state["noise"]), int(state["left"])


class PlusPolicy:
    """A Gaussian policy behind a normaliser, which counts what is seen while exploring, with held noise."""

    def __init__(self, inner: GaussianPolicy, normaliser: Normaliser | None, hold: int) -> None:
        self.inner, self.normaliser = inner, normaliser
        self.held = HeldNoise(hold, inner.rng)
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
