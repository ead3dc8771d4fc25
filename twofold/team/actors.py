"""Networks of a team with continuous actions for TD3: every agent acts on what it sees, the critics see everything."""

from __future__ import annotations

import gymnasium as gym
import torch
from torch import Tensor, nn

from twofold.base.errors import ConfigError
from twofold.base.setting import setting, settings
from twofold.learners.actor_critic import ActorCritic
from twofold.learners.vector import Width
from twofold.nets import MLP, Twin
from twofold.settings.registry import networks
from twofold.team.worlds.space import Space, shape_of


@settings
class ActorsConfig:
    """Sizes of the agents' shared actor and of the central critics."""

    actor_hidden: tuple[Width, ...] = setting("widths of the actor's layers", default=(128, 128))
    critic_hidden: tuple[Width, ...] = setting("widths of the critics' layers", default=(256, 256))


@networks.register("team/actors", config=ActorsConfig)
class TeamActors(ActorCritic):
    """Shared decentralised actor and central twin critics: TD3 unchanged becomes MATD3."""

    def __init__(
        self,
        cfg: ActorsConfig,
        observation_space: Space,
        action_space: Space,
        generator: torch.Generator,
    ) -> None:
        self.cfg, self.shape, self.generator = cfg, shape_of(observation_space), generator
        self.action_space = action_space
        wanted = (self.shape.agents * self.shape.actions,)
        if not isinstance(action_space, gym.spaces.Box) or action_space.shape != wanted:
            raise ConfigError(
                "matd3 needs a team world with continuous actions: add env_args.continuous=true"
            )

    def actor(self) -> nn.Module:
        """obs dict -> actions of all agents [B, A * a] in [-1, 1]."""
        return DecentralActor(
            self.shape.agents, self.shape.obs, self.shape.actions, self.cfg.actor_hidden, self.generator
        )

    def critic(self) -> nn.Module:
        """(obs dict, actions [B, A * a]) -> [2, B]."""
        return CentralCritics(
            self.shape.state, self.shape.agents * self.shape.actions, self.cfg.critic_hidden, self.generator
        )


class DecentralActor(nn.Module):
    """One network for all agents; each sees its own observation and its number."""

    number: Tensor

    def __init__(
        self, agents: int, obs: int, actions: int, hidden: tuple[int, ...], generator: torch.Generator
    ) -> None:
        super().__init__()
        self.net = MLP(obs + agents, hidden, actions, output="tanh", generator=generator)
        self.register_buffer("number", torch.eye(agents), persistent=False)

    def forward(self, obs: dict[str, Tensor]) -> Tensor:
        seen = obs["obs"]
        number = self.number.expand(len(seen), -1, -1)
        return torch.flatten(self.net(torch.cat([seen, number], -1)), 1)


class CentralCritics(nn.Module):
    """Twin critics of the state and everybody's actions."""

    def __init__(self, state: int, actions: int, hidden: tuple[int, ...], generator: torch.Generator) -> None:
        super().__init__()
        self.net = Twin(state, actions, hidden, generator=generator)

    def forward(self, obs: dict[str, Tensor], action: Tensor) -> Tensor:
        values: Tensor = self.net(obs["state"], action)
        return values

    def first(self, obs: dict[str, Tensor], action: Tensor) -> Tensor:
        """The first critic alone, [B]."""
        return self.net.first(obs["state"], action)
