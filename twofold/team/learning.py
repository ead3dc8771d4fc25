"""What all learners of whole episodes share: settings, counting, writing, the last numbers, and their state."""

from __future__ import annotations

import logging
import math
from abc import ABC, abstractmethod
from typing import TypedDict, Unpack

import numpy as np
import torch
from torch import Tensor, nn

from twofold.base.errors import CheckpointError, ConfigError
from twofold.base.setting import setting, settings
from twofold.core.protocols import Metrics, Policy, State
from twofold.core.schedules import Schedule
from twofold.core.seeding import Generators
from twofold.native.sequence import sequences
from twofold.nets.recurrent import Recurrent, Unroll
from twofold.team.agents import TeamNetworks, fill_episodes
from twofold.team.episodes import Episode, EpisodeWriter, going_on, longest, longest_first
from twofold.team.optimise import Kept, OptimiserName, Weights
from twofold.team.worlds.space import Space

log = logging.getLogger("twofold")


@settings
class TeamConfig:
    """What every learner of a team can be told; PyMARL's names are accepted."""

    gamma: float = setting("discount of a reward one step later", default=0.99, ge=0, le=1)
    lr: float = setting("learning rate of the agents' network", default=5e-4, gt=0)
    optimiser: OptimiserName = setting(
        "what moves the weights; PyMARL's is rmsprop", default="adam", aliases=("optimizer",)
    )
    optim_eps: float = setting("the optimiser's epsilon", default=1e-5, gt=0)
    grad_norm_clip: float = setting("largest global norm of a gradient", default=10.0, gt=0)
    target_update_interval: float = setting(
        "updates between two copies to the target networks; below 1: the share mixed in at every update",
        default=200.0,
        gt=0,
        unit="updates",
        aliases=("target_update_interval_or_tau",),
    )
    epsilon_start: float = setting("initial share of random actions", default=1.0, ge=0, le=1)
    epsilon_finish: float = setting("final share of random actions", default=0.05, ge=0, le=1)
    epsilon_anneal_time: float = setting(
        "the share of random actions falls over this long", default=50_000.0, gt=0, unit="world steps"
    )
    td_lambda: float = setting(
        "0: one-step targets; above: targets mixed over the rest of the episode", default=0.0, ge=0, le=1
    )
    standardise_rewards: bool = setting(
        "rewards minus their running mean, over their running standard deviation", default=False
    )

    @property
    def epsilon(self) -> Schedule:
        return Schedule(self.epsilon_start, self.epsilon_finish, over=self.epsilon_anneal_time)


class Given(TypedDict):
    """What every learner is made with, beside its settings."""

    networks: TeamNetworks
    observation_space: Space
    action_space: Space
    rngs: Generators


class EpisodeLearner(ABC):
    """A learner of whole episodes; a subclass says which parts it keeps and which networks act."""

    def __init__(self, **given: Unpack[Given]) -> None:
        self.nets, self.updates = given["networks"], 0
        if not isinstance(self.nets, TeamNetworks):
            raise ConfigError(f"a team's learner needs team/agents networks, not {type(self.nets).__name__}")
        self.shape = self.nets.shape
        self._spaces = (given["observation_space"], given["action_space"])
        self._metrics: dict[str, Tensor] = {}
        self._kept: dict[str, Kept] = {}  # whose states make the learner's
        self._acts: dict[str, nn.Module] = {}  # what acting needs

    @property
    def acting(self) -> nn.Module:
        """The networks that act when it counts, by name."""
        return nn.ModuleDict(self._acts)

    @abstractmethod
    def policy(self, *, explore: bool, rows: int, rng: np.random.Generator) -> Policy: ...

    def writer(self, rows: int) -> EpisodeWriter:
        return EpisodeWriter(rows, *self._spaces)

    def update(self, batch: Episode) -> None:
        """One gradient step on whole episodes, the longest first; nothing is computed behind their ends."""
        self.updates += 1
        steps = longest(batch.filled)
        self.learn(longest_first(batch, steps), steps)

    @abstractmethod
    def learn(self, batch: Episode, steps: int) -> None:
        """Improve all networks on the first `steps` steps of the episodes."""

    def metrics(self) -> Metrics:
        return {f"learner/{name}": float(value) for name, value in self._metrics.items()}

    def first_bad(self) -> str | None:
        bad = [name for name, value in self._metrics.items() if not math.isfinite(float(value))]
        return f"learner/{bad[0]}" if bad else None

    def state_dict(self) -> State:
        last = {name: float(value) for name, value in self._metrics.items()}
        return {
            "updates": self.updates,
            "metrics": last,
            "computed": self._computed(),
            **states_of(self._kept),
        }

    def _computed(self) -> str:
        """By what the recurrent network is computed: both ways agree to rounding, not to the byte."""
        return "torch" if sequences(torch.empty(0, device=self.nets.place)) is None else "native"

    def load_state_dict(self, state: State) -> None:
        self.updates, before, now = int(state["updates"]), state.get("computed", "torch"), self._computed()
        if before != now:
            log.warning("the run was computed by %s and goes on by %s: equal to rounding only", before, now)
        self._metrics = {k: torch.tensor(v, dtype=torch.float64) for k, v in state["metrics"].items()}
        load_states(self._kept, state)

    def policy_state(self) -> State:
        return {name: named(module) for name, module in self._acts.items()}

    def load_policy_state(self, state: State) -> None:
        for name, module in self._acts.items():
            load_named(module, state[name], name)


def weights_of(
    module: nn.Module, cfg: TeamConfig, lr: float | None = None, *, place: torch.device | None = None
) -> Weights:
    """The weights of a network, moved to `place`, with the optimiser that the settings ask for."""
    rate, moved = cfg.lr if lr is None else lr, module.to(place)
    return Weights(moved, rate, optimiser=cfg.optimiser, eps=cfg.optim_eps, clip=cfg.grad_norm_clip)


class AgentUnroll:
    """Runs the agents' network over batches of episodes, in room that is made once."""

    def __init__(self, nets: TeamNetworks, agent: Recurrent) -> None:
        self.nets, self.agent = nets, agent
        self._room: Unroll | None = None

    def filled(self, batch: Episode, steps: int) -> Unroll:
        """Room whose inputs are those of the first `steps` + 1 observations."""
        each = self.nets.shape.agents // self.agent.copies  # rows of an episode
        rows = each * len(batch.filled)
        if self._room is None or self._room.rows != rows:
            self._room = self.agent.room(self.nets.shape.limit + 1, rows)
        self._room.live[: steps + 1] = each * going_on(batch.filled, steps)
        place = self._room.x.device
        obs, action = torch.from_numpy(batch.obs["obs"]), torch.from_numpy(batch.action[:, :steps])
        obs, action = obs[:, : steps + 1].to(place), action.long().to(place)
        fill_episodes(self.nets, self._room.x[:, : steps + 1], obs, action)
        return self._room


def lambda_returns(reward: Tensor, going_on: Tensor, next_value: Tensor, mask: Tensor, lam: float) -> Tensor:
    """TD(lambda) targets, time first; the last played step of an episode bootstraps from its next value."""
    if lam == 0:
        return reward + going_on * next_value
    targets = torch.empty_like(next_value)
    later = next_value[-1]
    played = torch.zeros_like(mask[-1])  # whether the step after this one was played
    for t in reversed(range(len(next_value))):
        ahead = torch.lerp(next_value[t], torch.where(played > 0, later, next_value[t]), lam)
        later = targets[t] = reward[t] + going_on[t] * ahead
        played = mask[t]
    return targets


def states_of(parts: dict[str, Kept]) -> State:
    return {name: part.state_dict() for name, part in parts.items()}


def load_states(parts: dict[str, Kept], state: State) -> None:
    for name, part in parts.items():
        part.load_state_dict(state[name])


def named(module: nn.Module) -> dict[str, Tensor]:
    """Copies of a module's parameters by name, for a policy file."""
    return {name: value.detach().clone() for name, value in module.named_parameters()}


def load_named(module: nn.Module, state: State, what: str) -> None:
    """Copy named parameters in place, refusing other shapes with a message that names them."""
    for name, parameter in module.named_parameters():
        given = torch.as_tensor(state[name])
        if given.shape != parameter.shape:
            raise CheckpointError(
                f"the saved {what} has {name} of shape {tuple(given.shape)}, this world and config need "
                f"{tuple(parameter.shape)}: was it trained with other observations, map or obs_is_state?"
            )
        with torch.no_grad():
            parameter.copy_(given)
