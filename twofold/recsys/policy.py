"""The policy over items: the actor's point, moved by noise while exploring, and the item that is shown for it."""

from __future__ import annotations

import numpy as np
import torch

from twofold.core.experience import Array, Obs, named
from twofold.core.protocols import State
from twofold.learners.config import TD3Config
from twofold.learners.nets import Nets
from twofold.learners.policy import GaussianPolicy
from twofold.recsys.item_nets import Chooser, item_critic


class ItemPolicy:
    """Shows, for each row, the item that the chooser makes of the actor's point."""

    def __init__(
        self,
        nets: Nets,
        cfg: TD3Config,
        chooser: Chooser,
        *,
        explore: bool,
        rows: int,
        rng: np.random.Generator,
    ) -> None:
        width = (chooser.tables.width,)
        self.points = GaussianPolicy(nets, cfg, actions=width, explore=explore, rows=rows, rng=rng)
        self.chooser, self.critic, self.rng, self.explore = (
            chooser,
            item_critic(nets.critic.module),
            rng,
            explore,
        )

    def reset(self, rows: Array) -> None:
        self.points.reset(rows)

    def act(self, obs: Obs) -> Array:
        """Vectors [N, d] of the items to show."""
        point, seen = self.points.act(obs), {k: torch.from_numpy(v) for k, v in named(obs).items()}
        shown: Array = self.chooser.choose(seen, torch.from_numpy(point), self.critic).numpy()
        return self.chooser.explore(named(obs), shown, self.rng) if self.explore else shown

    def random(self, obs: Obs) -> Array:
        return self.chooser.random(named(obs), self.rng)

    def state_dict(self) -> State:
        return self.points.state_dict()

    def load_state_dict(self, state: State) -> None:
        self.points.load_state_dict(state)
