"""How td3_plus acts: observations normalised, and while exploring noise that is chosen and held."""

from __future__ import annotations

import numpy as np

from twofold.core.experience import Array, Obs
from twofold.core.protocols import State
from twofold.learners.acting import Values
from twofold.learners.plus.writer import vectors
from twofold.learners.policy import GaussianPolicy, Noise
from twofold.nets.normaliser import Normaliser


class HopefulNoise:
    """Standard normal noise, at a share of times of several draws the one after which max_i Q_i is highest.

    Learning trusts the smaller of two critics, exploring the larger: what might be good is tried, and then known. Noise
    that nobody chose shows what the critics would not look at.
    """

    def __init__(self, values: Values, draws: int, share: float, rng: np.random.Generator) -> None:
        self.values, self.draws, self.share, self.rng = values, draws, share, rng

    def __call__(self, obs: Obs, action: Array, sigma: Array) -> Array:
        """For obs [N, o], action [N, a] and sigma [N, 1]: noise [N, a]."""
        rows, size = action.shape
        noise = self.rng.standard_normal((rows, self.draws, size), dtype=np.float32)
        best = np.zeros(rows, np.int64)  # the first draw is as good as any: plain noise
        if chosen := np.flatnonzero(self.rng.random(rows) < self.share).tolist():
            tried = (action[:, None] + sigma[:, None] * noise)[chosen].clip(-1, 1).reshape(-1, size)
            seen = np.repeat(vectors(obs)[chosen], self.draws, axis=0)
            best[chosen] = self.values(seen, tried).max(axis=0).reshape(-1, self.draws).argmax(axis=1)
        taken: Array = noise[np.arange(rows), best]
        return taken


class HeldNoise:
    """Noise for each row, new every `steps` steps.

    A push that lasts moves a body; one that changes at every step averages out, the sooner the more often a world asks.
    """

    def __init__(self, steps: int, new: Noise) -> None:
        self.steps, self.new = steps, new
        self._noise: Array = np.zeros((0, 0), np.float32)
        self._left = 0  # steps that the noise is still held

    def __call__(self, obs: Obs, action: Array, sigma: Array) -> Array:
        """The noise of the next step [N, a]."""
        if self._left == 0 or self._noise.shape != action.shape:
            self._noise, self._left = self.new(obs, action, sigma), self.steps
        self._left -= 1
        return self._noise

    def state_dict(self) -> State:
        return {"noise": self._noise.copy(), "left": self._left}

    def load_state_dict(self, state: State) -> None:
        self._noise, self._left = np.array(state["noise"]), int(state["left"])


class PlusPolicy:
    """A Gaussian policy behind a normaliser, which counts what is seen while exploring, with held noise."""

    def __init__(self, inner: GaussianPolicy, normaliser: Normaliser | None, held: HeldNoise) -> None:
        self.inner, self.normaliser, self.held = inner, normaliser, held
        inner.noise = held

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
