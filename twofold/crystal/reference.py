"""The published agent's extras on the same TD3: demonstrations, greedy exploration, its own argument names."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy.spatial.transform import Rotation

from twofold.core.errors import ConfigError
from twofold.core.experience import Array, Obs
from twofold.core.seeding import Generators
from twofold.learners.policy import TD3Policy
from twofold.learners.td3 import TD3, TD3Config
from twofold.settings.registry import learners


@dataclass(frozen=True)
class CrystalTD3Config(TD3Config):
    polyak: float | None = None  # the reference's name for 1 - tau; given, it wins
    noise: tuple[
        float, ...
    ] = ()  # exploration from noise[0] to noise[1], linearly over expl_noise_over steps
    # action: noise on the displacements; state: the actor sees turned and scaled forces, so its symmetry is kept
    expl_mode: Literal["action", "state"] = "action"
    noise_level: float = 1.0  # of one greedy exploration, in units of the largest move

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.polyak is not None and not 0 <= self.polyak < 1:
            raise ConfigError(f"learner.polyak must be in [0, 1), got {self.polyak}")
        if len(self.noise) not in (0, 2):
            raise ConfigError("learner.noise takes two numbers: at the start and at the end")

    def resolved(self) -> CrystalTD3Config:
        """With the reference's names turned into TD3's."""
        out = self if self.polyak is None else replace(self, tau=1 - self.polyak, polyak=None)
        if out.noise:
            start, end = out.noise
            out = replace(out, expl_noise=start, expl_noise_floor=end, expl_noise_schedule="linear", noise=())
        return out


@learners.register("crystal/td3", config=CrystalTD3Config)
class CrystalTD3(TD3):
    """TD3 whose exploration follows demonstrations and shakes itself free where nothing moves any more."""

    def __init__(
        self,
        cfg: CrystalTD3Config,
        *,
        networks: Any,
        observation_space: Any,
        action_space: Any,
        rngs: Generators,
    ) -> None:
        super().__init__(
            cfg.resolved(),
            networks=networks,
            observation_space=observation_space,
            action_space=action_space,
            rngs=rngs,
        )
        self.noise_level, self.expl_mode = cfg.noise_level, cfg.expl_mode

    def policy(self, *, explore: bool, rows: int, rng: np.random.Generator) -> TD3Policy:
        return CrystalPolicy(self, explore=explore, rows=rows, rng=rng)


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


class CrystalPolicy(TD3Policy):
    """The actor with noise; the demonstration where one is offered; strong noise where the crystal is stuck."""

    learner: CrystalTD3

    def act(self, obs: Obs) -> Array:
        if not self.explore:
            return super().act(obs)
        action = self._by_state(obs) if self.learner.expl_mode == "state" else super().act(obs)
        stuck = obs["stuck"][:, 0] > 0
        if stuck.any():
            noise = self.rng.standard_normal(action.shape, dtype=np.float32)
            action[stuck] = (action + np.float32(self.learner.noise_level) * noise).clip(-1, 1)[stuck]
        return self._shown(obs, action)

    def _by_state(self, obs: Obs) -> Array:
        """The actor's answer to disturbed forces: exploration that turns with the crystal."""
        noise = float(self.sigma(self.steps))
        self.steps += self.rows
        seen = disturbed(obs["force"], noise, self.learner.cfg.noise_clip, self.rng)
        return self._act(self._seen({**obs, "force": seen}))

    def random(self, obs: Obs) -> Array:
        return self._shown(obs, super().random(obs))

    @staticmethod
    def _shown(obs: Obs, action: Array) -> Array:
        offered = obs["offered"][:, 0] > 0
        action[offered] = obs["demonstration"][offered]
        return action
