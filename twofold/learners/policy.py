"""TD3's policy: the actor, and Gaussian noise while exploring."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from twofold.core import tree
from twofold.core.experience import Array, Obs
from twofold.core.protocols import State
from twofold.core.schedules import Schedule
from twofold.nets.acting import NumpyActor
from twofold.nets.mlp import MLP

if TYPE_CHECKING:
    from twofold.learners.td3 import TD3


class TD3Policy:
    """Acts with the learner's actor; with `explore`, adds Gaussian noise in the normalised action space."""

    def __init__(self, learner: TD3, *, explore: bool, rows: int, rng: np.random.Generator) -> None:
        cfg = learner.cfg
        self.learner, self.explore, self.rows, self.rng = learner, explore, rows, rng
        self.steps = self.episodes = self.warmup_steps = 0
        self.share = np.ones(rows, np.float32)  # of the schedule's noise, per row
        self._held: Array = np.zeros((rows, *learner.action_space.shape), np.float32)
        self.sigma = Schedule(
            cfg.expl_noise_schedule, cfg.expl_noise, cfg.expl_noise_floor, cfg.expl_noise_over
        )
        module = learner.actor.module if explore else learner.acting
        self._module = module
        self._act = NumpyActor(module).act if type(module) is MLP else self._by_torch

    def reset(self, rows: Array) -> None:
        self.episodes += int(rows.sum())
        if self.explore and self.learner.cfg.expl_noise_drawn:
            self.share[rows] = self.rng.random(int(rows.sum()), dtype=np.float32)

    def act(self, obs: Obs) -> Array:
        """Actions [N, a] in [-1, 1]."""
        action = self._act(self._seen(obs))
        if self.explore:
            progress = self.steps if self.learner.cfg.expl_noise_per == "step" else self.episodes
            sigma = np.float32(self.sigma(progress)) * self.share.reshape(-1, *[1] * (action.ndim - 1))
            action = (action + sigma * self.rng.standard_normal(action.shape, dtype=np.float32)).clip(-1, 1)
            self.steps += len(action)
        return action if self.learner.chooser is None else self._chosen(obs, action)

    def _chosen(self, obs: Obs, action: Array) -> Array:
        """The valid action that the chooser makes of a free one."""
        chooser, seen = self.learner.chooser, tree.map(torch.from_numpy, obs)
        action = chooser.choose(seen, torch.from_numpy(action), self.learner.critic.module).numpy()
        return chooser.explore(obs, action, self.rng) if self.explore else action

    def random(self, obs: Obs) -> Array:
        """Uniform actions, for the warm-up, each held for `warmup_hold` steps."""
        self._seen(obs)
        if self.learner.chooser is not None:
            return self.learner.chooser.random(obs, self.rng)  # type: ignore[no-any-return]
        if self.warmup_steps % self.learner.cfg.warmup_hold == 0:
            self._held = self.rng.uniform(-1, 1, self._held.shape).astype(np.float32)
        self.warmup_steps += 1
        return self._held.copy()

    def _seen(self, obs: Obs) -> Obs:
        """The observation as the networks see it; while exploring, the normaliser learns from it."""
        normaliser = self.learner.normaliser
        if normaliser is None:
            return obs
        if self.explore:
            normaliser.observe(obs)
        return normaliser(obs)

    @torch.no_grad()
    def _by_torch(self, obs: Obs) -> Array:
        return self._module(tree.map(torch.from_numpy, obs)).numpy()  # type: ignore[no-any-return]

    def state_dict(self) -> State:
        counts = {"steps": self.steps, "episodes": self.episodes, "warmup_steps": self.warmup_steps}
        return {**counts, "share": self.share.copy(), "held": self._held.copy()}

    def load_state_dict(self, state: State) -> None:
        self.steps, self.episodes = int(state["steps"]), int(state["episodes"])
        self.warmup_steps = int(state["warmup_steps"])
        self.share, self._held = np.array(state["share"]), np.array(state["held"])
