"""Multi-particle spread stepped for all rows at once, by the rules of the package mpe2.

`tests/team/test_team_packages.py` plays this world and the package side by side.
"""

from __future__ import annotations

import numpy as np

from twofold.core.experience import Array
from twofold.team.worlds.space import (
    METADATA,
    Arrays,
    Info,
    Seeds,
    Stepped,
    TeamObs,
    TeamShape,
    TeamWorld,
    reset_mask,
    seeds_of,
    set_spaces,
)

PUSH = 5.0 * np.array([[0, 0], [-1, 0], [1, 0], [0, -1], [0, 1]])  # stay, left, right, down, up
TICK, DAMPING = 0.1, 0.25
APART = 0.3  # two radii: nearer agents collide
CONTACT_FORCE, CONTACT_MARGIN = 1e2, 1e-3


class Spread(Arrays, TeamWorld):
    """N games in which agents cover landmarks and should not touch; an episode ends by its time limit alone."""

    state = ("place", "velocity", "landmark", "step")

    def __init__(
        self,
        rows: int,
        limit: int,
        *,
        agents: int = 3,
        local_ratio: float = 0.5,
        reward: str = "sum",
    ) -> None:
        self.metadata = dict(METADATA)
        self.limit, self.agents, self.local_ratio = limit, agents, local_ratio
        self.mean = reward == "mean"
        width = 4 + 2 * agents + 4 * (agents - 1)
        set_spaces(self, rows, TeamShape(agents, width, agents * width, len(PUSH), limit))
        self._rng = np.random.default_rng(0)  # for resets without a seed
        self._place, self._velocity, self._landmark = (np.zeros((rows, agents, 2)) for _ in range(3))
        self._step = np.zeros(rows, np.int32)
        self._others = np.array([[j for j in range(agents) if j != i] for i in range(agents)], int)

    def reset(self, *, seed: Seeds = None, options: Info | None = None) -> tuple[TeamObs, Info]:
        seeds = seeds_of(seed, self.num_envs)
        mask = reset_mask(options, self.num_envs)
        for row in np.flatnonzero(mask):
            rng = self._rng if seeds[row] is None else np.random.default_rng(seeds[row])
            drawn = rng.uniform(-1, 1, (2, self.agents, 2))
            self._place[row], self._landmark[row] = drawn
        self._velocity[mask], self._step[mask] = 0.0, 0
        return self._observe(), {}

    def step(self, actions: Array) -> Stepped:
        force = PUSH[np.asarray(actions, np.int64)] + self._contacts()
        self._place = self._place + self._velocity * TICK
        self._velocity = self._velocity * (1 - DAMPING) + force * TICK
        self._step += 1
        paid = self._pay()
        reward = paid.mean(-1) if self.mean else paid.sum(-1)
        truncated = self._step >= self.limit
        return self._observe(), reward, np.zeros(self.num_envs, bool), truncated, {"episode": {}}

    def _apart(self) -> tuple[Array, Array]:
        """From every agent to every other: offsets [N, A, A, 2], and distances with infinity for itself."""
        offset = self._place[:, :, None] - self._place[:, None]
        distance = np.sqrt(np.square(offset).sum(-1))
        distance[:, np.arange(self.agents), np.arange(self.agents)] = np.inf
        return offset, distance

    def _contacts(self) -> Array:
        """What pushes touching agents apart: [N, A, 2]."""
        offset, distance = self._apart()
        depth = np.logaddexp(0, -(distance - APART) / CONTACT_MARGIN) * CONTACT_MARGIN
        push: Array = (CONTACT_FORCE * offset / distance[..., None] * depth[..., None]).sum(2)
        return push

    def _pay(self) -> Array:
        """Every agent's reward [N, A]: its share of the landmarks' distances and of its own collisions."""
        far = np.sqrt(np.square(self._place[:, :, None] - self._landmark[:, None]).sum(-1))  # [N, A, L]
        together = -far.min(1).sum(-1)
        own = -(self._apart()[1] < APART).sum(-1).astype(float)
        paid: Array = together[:, None] * (1 - self.local_ratio) + own * self.local_ratio
        return paid

    def _observe(self) -> TeamObs:
        rows = self.num_envs
        landmarks = (self._landmark[:, None] - self._place[:, :, None]).reshape(rows, self.agents, -1)
        others = self._place[:, self._others] - self._place[:, :, None]
        silence = np.zeros((rows, self.agents, 2 * (self.agents - 1)))  # nobody speaks in this game
        parts = [self._velocity, self._place, landmarks, others.reshape(rows, self.agents, -1), silence]
        obs = np.concatenate(parts, -1).astype(np.float32)
        avail = np.ones((rows, self.agents, len(PUSH)), np.uint8)
        return {"obs": obs, "state": obs.reshape(rows, -1).copy(), "avail": avail, "step": self._step.copy()}
