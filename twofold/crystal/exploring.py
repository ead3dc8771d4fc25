"""Exploring as in Trukhan et al. (arXiv 2502.08405): demonstrations, disturbed forces, noise where nothing moves."""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy.spatial.transform import Rotation

from twofold.core.experience import Array, Obs, named
from twofold.core.protocols import State
from twofold.learners.config import TD3Config
from twofold.learners.nets import Nets
from twofold.learners.policy import GaussianPolicy

Mode = Literal["action", "state"]


def disturbed(force: Array, noise: float, clip: float, rng: np.random.Generator) -> Array:
    """Forces [N, A, 3], each crystal's turned by one small random angle and each atom's scaled by a random factor."""
    rows, atoms = force.shape[:2]
    axis = rng.standard_normal((rows, 3))
    axis /= np.linalg.norm(axis, axis=1, keepdims=True)
    angle = (0.5 * noise * rng.uniform(-np.pi, np.pi, (rows, 1))).clip(-clip, clip)
    factor = 1 + rng.uniform(-noise, noise, (rows, atoms, 1)).clip(-clip, clip)
    turns = Rotation.from_rotvec(angle * axis).as_matrix()  # [N, 3, 3]
    turned: Array = (np.einsum("nij,naj->nai", turns, force) * factor).astype(force.dtype)
    return turned


class ExploringPolicy:
    """The actor with noise; the demonstration where one is offered; strong noise where the crystal is stuck."""

    def __init__(
        self,
        nets: Nets,
        cfg: TD3Config,
        *,
        actions: tuple[int, ...],
        mode: Mode,
        noise_level: float,
        rows: int,
        rng: np.random.Generator,
    ) -> None:
        self.plain = GaussianPolicy(nets, cfg, actions=actions, explore=True, rows=rows, rng=rng)
        self.cfg, self.mode, self.noise_level, self.rng = cfg, mode, noise_level, rng

    @property
    def steps(self) -> int:
        return self.plain.steps

    def reset(self, rows: Array) -> None:
        self.plain.reset(rows)

    def act(self, obs: Obs) -> Array:
        seen = named(obs)
        action = self._by_state(seen) if self.mode == "state" else self.plain.act(obs)
        stuck = seen["stuck"][:, 0] > 0
        if stuck.any():
            noise = self.rng.standard_normal(action.shape, dtype=np.float32)
            action[stuck] = (action + np.float32(self.noise_level) * noise).clip(-1, 1)[stuck]
        return _shown(seen, action)

    def _by_state(self, obs: dict[str, Array]) -> Array:
        """The actor's answer to disturbed forces: exploration that turns with the crystal."""
        noise = self.plain.sigma()
        self.plain.steps += self.plain.rows
        seen = disturbed(obs["force"], noise, self.cfg.noise_clip, self.rng)
        return self.plain.actor({**obs, "force": seen})

    def random(self, obs: Obs) -> Array:
        return _shown(named(obs), self.plain.random(obs))

    def state_dict(self) -> State:
        return self.plain.state_dict()

    def load_state_dict(self, state: State) -> None:
        self.plain.load_state_dict(state)


def _shown(obs: dict[str, Array], action: Array) -> Array:
    """The demonstration in the rows where one is offered."""
    offered = obs["offered"][:, 0] > 0
    action[offered] = obs["demonstration"][offered]
    return action
