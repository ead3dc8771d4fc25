"""Independent Q-learning whose agents see something more: an embedding of what the others are about."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from twofold.base.errors import ConfigError
from twofold.base.setting import setting, settings
from twofold.core.experience import Array, Obs, named
from twofold.core.protocols import State
from twofold.core.schedules import Schedule
from twofold.nets import copy_of
from twofold.nets.recurrent import Recurrent, Unroll
from twofold.team.agents import TeamNetworks, TeamPolicy, agents_first
from twofold.team.episodes import Episode, going_on
from twofold.team.hits import exists
from twofold.team.learner import cut
from twofold.team.learning import AgentUnroll, TeamConfig, lambda_returns, load_states, states_of, weights_of
from twofold.team.optimise import Kept, RewardScale, Target
from twofold.team.worlds.space import TeamShape


@settings
class ConditionedConfig(TeamConfig):
    """Settings of Q-learning with a model of the others."""

    double_q: bool = setting(
        "the online network chooses the next action, the target network values it", default=True
    )
    evaluation_epsilon: float = setting("share of random actions in evaluations", default=0.0, ge=0, le=1)
    model_columns: Literal["zero", "uniform"] = setting(
        "how the weights of the model's columns start: zero, so that Q begins as without a model, or like all",
        default="zero",
    )
    history: int = setting("width of the model's memory", default=96, ge=1)
    model_lr: float = setting("learning rate of the model", default=5e-4, gt=0)
    model_updates: int = setting(
        "steps of the model on the batch of an update of Q", default=1, ge=1, unit="steps"
    )


@dataclass(frozen=True)
class RowBatch:
    """Episodes as rows (episode, agent) with time first, R = B * A."""

    obs: Tensor  # [T + 1, R, d]
    state: Tensor  # [T + 1, R, s]
    avail: Tensor  # [T + 1, R, n] bool
    action: Tensor  # [T, R]
    others: Tensor  # [T, R, others]: what the other agents did
    reward: Tensor  # [T, R]
    terminated: Tensor  # [T, R]
    mask: Tensor  # [T, R]
    live: Array  # [T + 1]: rows up to the last one that has come so far


def rows_of(batch: Episode, steps: int, place: torch.device | None = None) -> RowBatch:
    """Replayed episodes, every agent of every episode a row of its own."""
    data = cut(batch, steps, place)
    agents = data.action.shape[0]

    def each(team: Tensor) -> Tensor:  # [T, B, ...] for the whole team -> [T, R, ...]
        return team.unsqueeze(2).expand(-1, -1, agents, *team.shape[2:]).flatten(1, 2)

    def own(by_agent: Tensor) -> Tensor:  # [A, T, B, ...] -> [T, R, ...]
        return by_agent.permute(1, 2, 0, *range(3, by_agent.dim())).flatten(1, 2)

    obs = torch.from_numpy(batch.obs["obs"][:, : steps + 1]).to(place).permute(2, 1, 0, 3)
    return RowBatch(
        own(obs), each(data.state), own(data.avail), own(data.action), _others(batch, data.action, steps),
        each(data.reward), each(data.terminated), each(data.mask), agents * going_on(batch.filled, steps),
    )  # fmt: skip


def _others(batch: Episode, action: Tensor, steps: int) -> Tensor:
    """[T, R, others]: actions of the team mates, then of the fixed partners."""
    agents = action.shape[0]
    mates = [
        torch.stack([action[j] for j in range(agents) if j != i], -1) for i in range(agents) if agents > 1
    ]
    parts = [torch.stack(mates, 2).flatten(1, 2)] if mates else []
    if "others" in batch.obs:
        hidden = (
            torch.from_numpy(batch.obs["others"][:, 1 : steps + 1]).to(action.device).long().transpose(0, 1)
        )
        parts.append(hidden.unsqueeze(2).expand(-1, -1, agents, -1).flatten(1, 2))
    return torch.cat(parts, -1)


def whom(shape: TeamShape) -> tuple[int, int]:
    """How many others an agent has to model, and the actions that each may take."""
    others = shape.agents - 1 + shape.others
    if others == 0:
        raise ConfigError(
            "agent modelling needs other agents to model: this world has one agent and no partners"
        )
    return others, max(shape.actions, shape.other_actions)


class ConditionedQ:
    """The Q part of an opponent-modelling learner; `size` columns of the agents' input come from the model."""

    def __init__(self, cfg: ConditionedConfig, nets: TeamNetworks, size: int) -> None:
        if not nets.cfg.shared:
            raise ConfigError("opponent models need networks.shared=true")
        self.cfg, self.nets = cfg, nets
        self.agent = nets.agent(extra=size, blank=cfg.model_columns == "zero")
        self.target_agent = copy_of(self.agent)
        self.online = weights_of(self.agent, cfg, place=nets.place)
        self.target = Target(self.target_agent, self.online, cfg.target_update_interval)
        self.scale = RewardScale(cfg.standardise_rewards)
        self._room = AgentUnroll(nets, self.agent)
        self._kept: dict[str, Kept] = {"online": self.online, "target": self.target, "scale": self.scale}

    def policy(self, *, explore: bool, rows: int, rng: np.random.Generator) -> TeamPolicy:
        """Acts with the online network, given the model's columns."""
        epsilon = self.cfg.epsilon if explore else Schedule(self.cfg.evaluation_epsilon)
        return TeamPolicy(self.nets, self.agent, rows, epsilon=epsilon, rng=rng)

    def take(self, batch: Episode, steps: int) -> None:
        """Write the inputs of a batch, all but the model's columns."""
        self._unroll, self._steps = self._room.filled(batch, steps), steps

    def run(self, net: Recurrent, extra: Tensor) -> tuple[Tensor, Tensor]:
        """Values [T + 1, R, n] and the memory before each step [T + 1, R, h], with extra [T + 1, R, size]."""
        steps = self._steps + 1
        self._unroll.x[0, :steps, :, self.nets.columns :] = extra
        q = self._unroll.forward(net, steps)
        return q[0], self._unroll.before[0, :steps]

    @torch.no_grad()
    def peek(self, net: Recurrent, extra: Tensor, memory: Tensor, at: slice) -> Tensor:
        """Values [t, R, n] of the steps `at` if the model's columns there were `extra`, memory left as it was."""
        x = self._unroll.x[0, at].clone()
        x[..., self.nets.columns :] = extra
        q, _ = net(x.flatten(0, 1).unsqueeze(0), memory.flatten(0, 1).unsqueeze(0))
        return torch.reshape(q[0], (*x.shape[:2], -1))

    def improve(self, data: RowBatch, extra: Tensor, *, held: int) -> dict[str, Tensor]:
        """One TD(lambda) step; the next state is valued with the first `held` columns of this step's extra."""
        steps = self._steps
        after, memory = self.run(self.target_agent, extra)
        after = self._ahead(self.target_agent, extra, memory, after, held).clone()
        q, memory = self.run(self.agent, extra)
        ahead = self._ahead(self.agent, extra, memory, q, held) if self.cfg.double_q else after
        best = ahead.masked_fill(~data.avail[1:], -torch.inf).argmax(-1, keepdim=True)
        next_value = after.gather(-1, best).squeeze(-1)
        reward = self.scale(data.reward, data.mask)
        going_on = self.cfg.gamma * (1 - data.terminated)
        target = lambda_returns(reward, going_on, next_value, data.mask, self.cfg.td_lambda)
        leaf = q.detach().unsqueeze(0).requires_grad_()
        chosen = leaf[0, :steps].gather(-1, data.action.unsqueeze(-1)).squeeze(-1)
        total = data.mask.sum()
        loss = ((chosen - target).square() * data.mask).sum() / total
        self.online.zero_grad()
        torch.autograd.backward(loss)
        assert leaf.grad is not None
        self._unroll.backward(self.agent, leaf.grad)
        norm = self.online.descend()
        mean = ((chosen.detach() * data.mask).sum() / total).detach()
        return {"loss": loss.detach(), "q_mean": mean, "grad_norm": norm}

    def _ahead(self, net: Recurrent, extra: Tensor, memory: Tensor, q: Tensor, held: int) -> Tensor:
        """Values of the next states, [T, R, n]."""
        if not held:
            return q[1:]
        ahead = torch.cat([extra[:-1, :, :held], extra[1:, :, held:]], -1)
        return self.peek(net, ahead, memory[1:], slice(1, self._steps + 1))

    def state_dict(self) -> State:
        return states_of(self._kept)

    def load_state_dict(self, state: State) -> None:
        load_states(self._kept, state)


class History:
    """What a model's memory says after every step of rows [T, R, d], in room that is made once."""

    def __init__(self, net: Recurrent) -> None:
        self.net = net
        self._room: Unroll | None = None
        self._said = torch.zeros(0)

    def __call__(self, data: RowBatch, limit: int) -> Tensor:
        """[T + 1, R, outputs], 0 behind the ends: gradients collect there until `backward` takes them through time."""
        steps, rows = data.obs.shape[:2]
        if self._room is None or self._room.rows != rows:
            self._room = Unroll(self.net, limit, rows)
        there = exists(data.mask)
        self._room.live[:steps] = data.live
        self._room.x[0, :steps] = data.obs
        said = self._room.forward(self.net, steps)[0]
        self._said = said.masked_fill(there.unsqueeze(-1) == 0, 0.0).requires_grad_()
        return self._said

    def backward(self) -> None:
        """Write the gradients of the network's weights, once those of what it said are there."""
        assert self._room is not None and self._said.grad is not None
        self._room.backward(self.net, self._said.grad.unsqueeze(0))


class ConditionedPolicy(ABC):
    """Acts with Q values conditioned on what a model of the others makes of the history seen so far."""

    def __init__(self, history: Recurrent, team: TeamPolicy) -> None:
        self.team = team
        self.memory = team.hidden.new_zeros(team.nets.shape.agents, team.rows, history.width)

    @abstractmethod
    def condition(self, seen: Tensor, obs: dict[str, Array]) -> tuple[Tensor, Tensor]:
        """The model's columns and its next memory, each [A * N, ...], from observations [A, N, d]."""

    def reset(self, rows: Array) -> None:
        self.memory[:, torch.from_numpy(np.asarray(rows, bool)).to(self.memory.device)] = 0
        self.team.reset(rows)

    @torch.no_grad()
    def act(self, obs: Obs) -> Array:
        obs = named(obs)
        seen = agents_first(obs["obs"]).to(self.memory.device)
        extra, memory = self.condition(seen, obs)
        self.memory = memory.view_as(self.memory)
        return self.team.choose(self.team.values(obs, extra.view(*seen.shape[:2], -1)), obs["avail"])

    def random(self, obs: Obs) -> Array:
        return self.team.random(obs)

    def played(self, actions: Array) -> None:
        """What the agents really did: they remember that, not what they would have done."""
        self.team.played(actions)

    def state_dict(self) -> State:
        return {"memory": self.memory.clone(), "team": self.team.state_dict()}

    def load_state_dict(self, state: State) -> None:
        self.memory = torch.as_tensor(np.array(state["memory"])).to(self.memory.device)
        self.team.load_state_dict(state["team"])
