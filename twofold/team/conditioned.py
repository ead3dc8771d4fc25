"""Independent Q-learning whose agents see something more: an embedding of what the others are about."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from twofold.base.errors import ConfigError
from twofold.core.experience import Array, Obs
from twofold.nets import Flat, copy_of, track
from twofold.nets.recurrent import Recurrent, Unroll
from twofold.team.agents import TeamNetworks, TeamPolicy, fill_episodes
from twofold.team.episodes import Episode
from twofold.team.learner import QConfig, cut, lambda_returns
from twofold.team.optimise import RewardScale, load_optimiser, make_optimiser


@dataclass(frozen=True)
class RowBatch:
    """Episodes as rows (agent, episode) with time first, R = A * B."""

    obs: Tensor  # [T + 1, R, d]
    state: Tensor  # [T + 1, R, s]
    avail: Tensor  # [T + 1, R, n] bool
    action: Tensor  # [T, R]
    others: Tensor  # [T, R, others]: what the other agents did
    reward: Tensor  # [T, R]
    terminated: Tensor  # [T, R]
    mask: Tensor  # [T, R]


def rows_of(batch: Episode, steps: int, *, individual: bool) -> RowBatch:
    """Replayed episodes, every agent of every episode a row of its own."""
    data = cut(batch, steps, individual=individual)
    agents = data.action.shape[0]

    def each(team: Tensor) -> Tensor:  # [T, B, ...] for the whole team -> [T, R, ...]
        return team.unsqueeze(1).expand(-1, agents, *team.shape[1:]).flatten(1, 2)

    def own(by_agent: Tensor) -> Tensor:  # [A, T, B, ...] -> [T, R, ...]
        return by_agent.transpose(0, 1).flatten(1, 2)

    obs = torch.from_numpy(batch.obs["obs"][:, : steps + 1]).permute(2, 1, 0, 3)
    reward = own(data.reward.permute(2, 0, 1)) if individual else each(data.reward)
    return RowBatch(
        own(obs), each(data.state), own(data.avail), own(data.action), _others(batch, data.action, steps),
        reward, each(data.terminated), each(data.mask),
    )  # fmt: skip


def _others(batch: Episode, action: Tensor, steps: int) -> Tensor:
    """[T, R, others]: actions of the team mates, then of the fixed partners."""
    agents = action.shape[0]
    mates = [
        torch.stack([action[j] for j in range(agents) if j != i], -1) for i in range(agents) if agents > 1
    ]
    parts = [torch.stack(mates, 1).flatten(1, 2)] if mates else []
    if "others" in batch.obs:
        hidden = torch.from_numpy(batch.obs["others"][:, 1 : steps + 1]).long().transpose(0, 1)
        parts.append(hidden.unsqueeze(1).expand(-1, agents, -1, -1).flatten(1, 2))
    return torch.cat(parts, -1)


class ConditionedQ:
    """The Q part of an opponent-modelling learner; `size` columns of the agents' input come from the model."""

    def __init__(self, cfg: QConfig, nets: TeamNetworks, size: int) -> None:
        if not nets.cfg.shared or cfg.mixer != "none":
            raise ConfigError("opponent models need networks.shared=true and learner.mixer=none")
        self.cfg, self.nets, self.shape, self.size = cfg, nets, nets.shape, size
        self.agent = nets.agent(extra=size)
        self.target_agent = copy_of(self.agent)
        self.online, self.target = Flat(self.agent), Flat(self.target_agent)
        self.optimiser = make_optimiser(cfg.optimiser, self.online, cfg.lr, cfg.optim_eps)
        self.scale = RewardScale() if cfg.standardise_rewards else None
        self._unroll: Unroll | None = None

    def take(self, batch: Episode, steps: int) -> None:
        """Write the inputs of a batch, all but the model's columns."""
        count, limit = batch.filled.shape
        rows = self.shape.agents * count
        if self._unroll is None or self._unroll.rows != rows:
            self._unroll = Unroll(self.agent, limit + 1, rows)
        obs, action = (
            torch.from_numpy(batch.obs["obs"][:, : steps + 1]),
            torch.from_numpy(batch.action[:, :steps]),
        )
        fill_episodes(self.nets, self._unroll.x[:, : steps + 1], obs, action.long())
        self._steps = steps

    def run(self, net: Recurrent, extra: Tensor) -> tuple[Tensor, Tensor]:
        """Values [T + 1, R, n] and the memory before each step [T + 1, R, h], with extra [T + 1, R, size]."""
        assert self._unroll is not None
        steps = self._steps + 1
        self._unroll.x[0, :steps, :, self.nets.columns :] = extra
        q = self._unroll.forward(net, steps)
        return q[0], self._unroll._hidden[0, :steps, :, :-1]

    @torch.no_grad()
    def peek(self, net: Recurrent, extra: Tensor, memory: Tensor, at: slice) -> Tensor:
        """Values [t, R, n] of the steps `at` if the model's columns there were `extra`, memory left as it was."""
        assert self._unroll is not None
        x = self._unroll.x[0, at].clone()
        x[..., self.nets.columns :] = extra
        q, _ = net(x.flatten(0, 1).unsqueeze(0), memory.flatten(0, 1).unsqueeze(0))
        return torch.reshape(q[0], (*x.shape[:2], -1))

    def improve(self, data: RowBatch, extra: Tensor, *, held: bool) -> dict[str, Tensor]:
        """One TD(lambda) step; `held` values the next state with this step's extra, as OMG does with its subgoal."""
        steps = self._steps
        after, memory = self.run(self.target_agent, extra)
        after = self._ahead(self.target_agent, extra, memory, after, held).clone()
        q, memory = self.run(self.agent, extra)
        ahead = self._ahead(self.agent, extra, memory, q, held) if self.cfg.double_q else after
        best = ahead.masked_fill(~data.avail[1:], -torch.inf).argmax(-1, keepdim=True)
        next_value = after.gather(-1, best).squeeze(-1)
        reward = data.reward if self.scale is None else self.scale(data.reward, data.mask)
        going_on = self.cfg.gamma * (1 - data.terminated)
        target = lambda_returns(reward, going_on, next_value, data.mask, self.cfg.td_lambda)
        leaf = q.detach().unsqueeze(0).requires_grad_()
        chosen = leaf[0, :steps].gather(-1, data.action.unsqueeze(-1)).squeeze(-1)
        total = data.mask.sum()
        loss = ((chosen - target).square() * data.mask).sum() / total
        self.online.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        assert self._unroll is not None and leaf.grad is not None
        self._unroll.backward(self.agent, leaf.grad)
        norm = self.online.clip_(self.cfg.grad_norm_clip)
        self.optimiser.step()
        mean = ((chosen.detach() * data.mask).sum() / total).detach()
        return {"loss": loss.detach(), "q_mean": mean, "grad_norm": norm}

    def _ahead(self, net: Recurrent, extra: Tensor, memory: Tensor, q: Tensor, held: bool) -> Tensor:
        """Values of the next states, [T, R, n]."""
        return self.peek(net, extra[:-1], memory[1:], slice(1, self._steps + 1)) if held else q[1:]

    def track(self, updates: int) -> None:
        interval = self.cfg.target_update_interval
        if interval < 1:
            track(self.target, self.online, interval)
        elif updates % int(interval) == 0:
            track(self.target, self.online, 1.0)

    def state_dict(self) -> dict[str, Any]:
        return {
            "online": self.online.values.clone(),
            "target": self.target.values.clone(),
            "optimiser": dict(self.optimiser.state_dict()),
            "scale": self.scale.state_dict() if self.scale else None,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.online.values.copy_(torch.as_tensor(state["online"]))
        self.target.values.copy_(torch.as_tensor(state["target"]))
        load_optimiser(self.optimiser, state["optimiser"])
        if self.scale is not None:
            self.scale.load_state_dict(state["scale"])


class ConditionedPolicy(ABC):
    """Acts with Q values conditioned on what a model of the others makes of the history seen so far."""

    def __init__(self, model: Any, team: TeamPolicy) -> None:
        self.model, self.team = model, team
        self.memory = torch.zeros(team.nets.shape.agents, team.rows, model.history.width)

    @abstractmethod
    def condition(self, seen: Tensor, obs: Obs) -> tuple[Tensor, Tensor]:
        """The model's columns and its next memory, each [A * N, ...], from observations [A, N, d]."""

    def reset(self, rows: Array) -> None:
        self.memory[:, torch.from_numpy(np.asarray(rows, bool))] = 0
        self.team.reset(rows)

    @torch.no_grad()
    def act(self, obs: Obs) -> Array:
        seen = torch.from_numpy(np.ascontiguousarray(obs["obs"], np.float32)).transpose(0, 1)
        extra, memory = self.condition(seen, obs)
        self.memory = memory.view_as(self.memory)
        return self.team.choose(self.team.values(obs, extra.view(*seen.shape[:2], -1)), obs["avail"])

    def random(self, obs: Obs) -> Array:
        return self.team.random(obs)

    def state_dict(self) -> dict[str, Any]:
        return {"memory": self.memory.clone(), "team": self.team.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.memory = torch.as_tensor(np.array(state["memory"]))
        self.team.load_state_dict(state["team"])
