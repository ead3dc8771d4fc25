"""TD3's policy: the actor, and Gaussian noise while exploring."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from twofold.core.experience import Array, Obs
from twofold.core.protocols import State
from twofold.learners.acting import acting_of
from twofold.learners.config import TD3Config
from twofold.learners.nets import Nets

Noise = Callable[[Obs, Array, Array], Array]  # for actions and their sigma [N, ...]: standard normal numbers


class GaussianPolicy:
    """Acts with an actor; while exploring, adds Gaussian noise in the normalised action space."""

    def __init__(
        self,
        nets: Nets,
        cfg: TD3Config,
        *,
        actions: tuple[int, ...],
        explore: bool,
        rows: int,
        rng: np.random.Generator,
    ) -> None:
        self.cfg, self.explore, self.rows, self.rng = cfg, explore, rows, rng
        self.steps = self.episodes = self.warmup_steps = 0
        self.share = np.ones(rows, np.float32)  # of the schedule's noise, per row
        self.noise: Noise = lambda obs, action, sigma: rng.standard_normal(action.shape, dtype=np.float32)
        self._held: Array = np.zeros((rows, *actions), np.float32)
        module = nets.actor.module if explore else nets.acting
        self.actor = acting_of(module, nets.actor.values.device)

    def reset(self, rows: Array) -> None:
        self.episodes += int(rows.sum())
        if self.explore and self.cfg.expl_noise_drawn:
            self.share[rows] = self.rng.random(int(rows.sum()), dtype=np.float32)

    def act(self, obs: Obs) -> Array:
        """Actions [N, a] in [-1, 1]."""
        action = self.actor(obs)
        if not self.explore:
            return action
        sigma = np.float32(self.sigma()) * self.share.reshape(-1, *[1] * (action.ndim - 1))
        noisy: Array = (action + sigma * self.noise(obs, action, sigma)).clip(-1, 1)
        self.steps += len(action)
        return noisy

    def sigma(self) -> float:
        """The noise that the schedule says now."""
        noise = self.cfg.expl_noise
        return noise(self.steps if noise.per == "step" else self.episodes)

    def random(self, obs: Obs) -> Array:
        """Uniform actions, for the warm-up, each held for a while."""
        if self.warmup_steps % self.cfg.warmup_hold.steps == 0:
            self._held = self.rng.uniform(-1, 1, self._held.shape).astype(np.float32)
        self.warmup_steps += 1
        return self._held.copy()

    def state_dict(self) -> State:
        counts = {"steps": self.steps, "episodes": self.episodes, "warmup_steps": self.warmup_steps}
        return {**counts, "share": self.share.copy(), "held": self._held.copy()}

    def load_state_dict(self, state: State) -> None:
        self.steps, self.episodes = int(state["steps"]), int(state["episodes"])
        self.warmup_steps = int(state["warmup_steps"])
        self.share, self._held = np.array(state["share"]), np.array(state["held"])
