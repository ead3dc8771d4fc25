"""Q-learning of teams: independent, or with a mixer; one file for IQL, VDN, QMIX and QTRAN."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Unpack

import numpy as np
import torch
from torch import Tensor, nn

from twofold.base.setting import setting, settings
from twofold.core.experience import Array
from twofold.core.schedules import Schedule
from twofold.nets import copy_of
from twofold.nets.recurrent import Recurrent, Unroll
from twofold.settings.registry import learners
from twofold.team.agents import TeamPolicy, by_agent
from twofold.team.episodes import Episode
from twofold.team.learning import AgentUnroll, EpisodeLearner, Given, TeamConfig, lambda_returns, weights_of
from twofold.team.mixers import JointValue, MixerName, Monotonic, Sum
from twofold.team.mixing import Mixing, mixing
from twofold.team.optimise import RewardScale, Target


@settings
class QConfig(TeamConfig):
    """Settings of team Q-learning."""

    mixer: MixerName = setting("what joins the agents' values; none: each learns as if alone", default="none")
    double_q: bool = setting(
        "the online network chooses the next action, the target network values it", default=True
    )
    evaluation_epsilon: float = setting("share of random actions in evaluations", default=0.0, ge=0, le=1)
    mixing_embed_dim: int = setting("QMIX: width of the mixing network", default=32, ge=1)
    hypernet_layers: Literal[1, 2] = setting("QMIX: layers of the networks that make its weights", default=2)
    hypernet_embed: int = setting("width of those layers (QTRAN: of the joint value)", default=64, ge=1)
    opt_loss: float = setting("QTRAN: weight of the loss at the best joint action", default=1.0, ge=0)
    nopt_min_loss: float = setting("QTRAN: weight of the loss at the others", default=0.1, ge=0)


@dataclass(frozen=True)
class TeamBatch:
    """Episodes with time first, cut to the longest."""

    state: Tensor  # [T + 1, B, s]
    avail: Tensor  # [A, T + 1, B, n] bool
    action: Tensor  # [A, T, B]
    reward: Tensor  # [T, B]
    terminated: Tensor  # [T, B]
    mask: Tensor  # [T, B]


def cut(batch: Episode, steps: int, place: torch.device | None = None) -> TeamBatch:
    """The first `steps` steps of replayed episodes as tensors."""

    def tensor(array: Array) -> Tensor:
        return torch.from_numpy(array).to(place)

    return TeamBatch(
        tensor(batch.obs["state"][:, : steps + 1]).transpose(0, 1),
        tensor(batch.obs["avail"][:, : steps + 1]).permute(2, 1, 0, 3) > 0,
        tensor(batch.action[:, :steps]).long().permute(2, 1, 0),
        tensor(batch.reward[:, :steps]).transpose(0, 1),
        tensor(batch.terminated[:, :steps]).float().t(),
        tensor(batch.filled[:, :steps]).float().t(),
    )


@learners.register("team/q", config=QConfig)
class QLearner(EpisodeLearner):
    """Recurrent Q-learning with target networks; the mixer makes it IQL, VDN, QMIX or QTRAN."""

    def __init__(self, cfg: QConfig, **given: Unpack[Given]) -> None:
        super().__init__(**given)
        self.cfg = cfg
        self.agent, self.mixer = self.nets.agent(), self._make_mixer()
        self.target_agent = copy_of(self.agent)
        self.target_mixer = None if self.mixer is None else copy_of(self.mixer)
        self.online = weights_of(_together(self.agent, self.mixer), cfg, place=self.nets.place)
        target = _together(self.target_agent, self.target_mixer)
        self.target = Target(target, self.online, cfg.target_update_interval)
        self.scale = RewardScale(cfg.standardise_rewards)
        self._unroll = AgentUnroll(self.nets, self.agent)
        self._mixing = mixing(self.mixer)  # on the device where the weights now are
        self._kept = {"online": self.online, "target": self.target, "scale": self.scale}
        self._acts = {"agent": self.agent}

    def _make_mixer(self) -> nn.Module | None:
        cfg, shape, generator = self.cfg, self.shape, self.nets.generator
        if cfg.mixer == "qmix":
            sizes = {
                "embed": cfg.mixing_embed_dim,
                "hyper": cfg.hypernet_embed,
                "layers": cfg.hypernet_layers,
            }
            return Monotonic(shape.agents, shape.state, **sizes, generator=generator)
        if cfg.mixer == "qtran":
            sizes = {"memory": self.nets.cfg.hidden, "actions": shape.actions, "embed": cfg.hypernet_embed}
            return JointValue(shape.agents, shape.state, **sizes, generator=generator)
        return Sum() if cfg.mixer == "vdn" else None

    def policy(self, *, explore: bool, rows: int, rng: np.random.Generator) -> TeamPolicy:
        """Acts with the online network, whatever it is at the moment."""
        epsilon = self.cfg.epsilon if explore else Schedule(self.cfg.evaluation_epsilon)
        return TeamPolicy(self.nets, self.agent, rows, epsilon=epsilon, rng=rng)

    # ---- learning ----

    def learn(self, batch: Episode, steps: int) -> None:
        """Squared errors against the target networks' values, through the mixer and back through time."""
        data, unroll = cut(batch, steps, self.nets.place), self._unroll.filled(batch, steps)
        after = by_agent(unroll.forward(self.target_agent, steps + 1), self.shape)[:, 1:].clone()
        memory_after = self._memory(unroll, steps)[1:].clone() if self.cfg.mixer == "qtran" else None
        q = unroll.forward(self.agent, steps + 1)
        self.online.zero_grad()
        if self._mixing is None:
            self._by_autograd(unroll, q, after, memory_after, data)
        else:
            unroll.backward(self.agent, self._by_hand(self._mixing, q, after, data))
        self._metrics["grad_norm"] = self.online.descend()
        self.target.track(self.updates)

    def _by_autograd(
        self, unroll: Unroll, q: Tensor, after: Tensor, memory_after: Tensor | None, data: TeamBatch
    ) -> None:
        """Gradients of whatever loss there is; only the way back through time is by hand."""
        q, steps = q.detach().requires_grad_(), len(data.reward)
        memory = None if memory_after is None else self._memory(unroll, steps).detach().requires_grad_()
        loss = self._loss(by_agent(q, self.shape), after, memory, memory_after, data)
        torch.autograd.backward(loss)
        assert q.grad is not None
        unroll.backward(self.agent, q.grad, None if memory is None else self._memory_gradient(memory))
        self._metrics["loss"] = loss.detach()

    def _by_hand(self, mixing: Mixing, q: Tensor, after: Tensor, data: TeamBatch) -> Tensor:
        """QMIX's loss and gradients of q [K, T + 1, R, n], over the steps that were played alone."""
        assert isinstance(self.mixer, Monotonic) and isinstance(self.target_mixer, Monotonic)
        values, played = by_agent(q, self.shape), data.mask.flatten().nonzero().squeeze(1)
        ahead = values[:, 1:] if self.cfg.double_q else after
        best = ahead.masked_fill(~data.avail[:, 1:], -torch.inf).max(-1).indices
        next_value = q.new_zeros(data.mask.shape)
        next_value.view(-1)[played] = mixing.forward(
            self.target_mixer, _rows(_at(after, best))[played], data.state[1:].flatten(0, 1), played
        )
        target = self._target(next_value, data).flatten()[played]
        chosen = _rows(_at(values[:, :-1], data.action))[played]
        joint = mixing.forward(self.mixer, chosen, data.state[:-1].flatten(0, 1), played)
        error = joint - target
        self._metrics["loss"], self._metrics["q_mean"] = error.square().mean(), joint.mean()
        d_values = q.new_zeros(data.mask.numel(), self.shape.agents)
        d_values[played] = mixing.backward(error * (2 / len(played)))
        d_q = torch.zeros_like(q)
        slopes = d_values.view(*data.mask.shape, -1).permute(2, 0, 1).unsqueeze(-1)
        by_agent(d_q, self.shape)[:, :-1].scatter_(-1, data.action.unsqueeze(-1), slopes)
        return d_q

    def _loss(
        self, q: Tensor, after: Tensor, memory: Tensor | None, memory_after: Tensor | None, data: TeamBatch
    ) -> Tensor:
        """Squared error of the joint value against its target, over the steps that were played."""
        best = q.detach()[:, 1:].masked_fill(~data.avail[:, 1:], -torch.inf).max(-1).indices
        if not self.cfg.double_q:
            best = after.masked_fill(~data.avail[:, 1:], -torch.inf).max(-1).indices
        if isinstance(self.mixer, JointValue):
            assert memory is not None and memory_after is not None
            return self._qtran_loss(q, best, memory, memory_after, data)
        chosen = _at(q[:, :-1], data.action)
        joint = self._mix(self.mixer, chosen, data.state[:-1])
        with torch.no_grad():
            next_value = self._mix(self.target_mixer, _at(after, best), data.state[1:])
            target = self._target(next_value, data)
        return self._masked((joint - target).square(), joint, data)

    def _mix(self, mixer: nn.Module | None, values: Tensor, state: Tensor) -> Tensor:
        """values [A, T, B] -> [T, B], or [T, B, A] when nobody mixes them."""
        values = values.permute(1, 2, 0)
        return values if mixer is None else mixer(values, state)

    def _target(self, next_value: Tensor, data: TeamBatch) -> Tensor:
        """r + gamma * next value, or its average over the rest of the episode with weights lambda^n."""
        parts = self.scale(data.reward, data.mask), self.cfg.gamma * (1 - data.terminated), data.mask
        if next_value.dim() == 3:  # every agent has a value of its own
            reward, going_on, mask = (part.unsqueeze(-1) for part in parts)
        else:
            reward, going_on, mask = parts
        return lambda_returns(reward, going_on, next_value, mask, self.cfg.td_lambda)

    def _masked(self, error: Tensor, joint: Tensor, data: TeamBatch) -> Tensor:
        weight = data.mask if error.dim() == 2 else data.mask.unsqueeze(-1).expand_as(error)
        total = weight.sum()
        self._metrics["q_mean"] = ((joint.detach() * weight).sum() / total).detach()
        return (error * weight).sum() / total

    def _qtran_loss(
        self, q: Tensor, best: Tensor, memory: Tensor, memory_after: Tensor, data: TeamBatch
    ) -> Tensor:
        """QTRAN-base: the joint value learns from rewards, the agents' sum is bound to it (eqs. 2 to 4)."""
        mixer, target_mixer, state = self.mixer, self.target_mixer, data.state
        assert isinstance(mixer, JointValue) and isinstance(target_mixer, JointValue)
        joint, offset = mixer(memory[:-1], data.action.permute(1, 2, 0), state[:-1]), mixer.value(state[:-1])
        with torch.no_grad():
            next_value = target_mixer(memory_after, best.permute(1, 2, 0), state[1:])
            target = self._target(next_value, data)
            highest = q.detach()[:, :-1].masked_fill(~data.avail[:, :-1], -torch.inf).argmax(-1)
            joint_at_best = mixer(memory[:-1], highest.permute(1, 2, 0), state[:-1])
        at_best = _at(q[:, :-1], highest).sum(0) - joint_at_best + offset
        elsewhere = (_at(q[:, :-1], data.action).sum(0) - joint.detach() + offset).clamp(max=0)
        error = (joint - target).square() + self.cfg.opt_loss * at_best.square()
        return self._masked(error + self.cfg.nopt_min_loss * elsewhere.square(), joint, data)

    def _memory(self, unroll: Unroll, steps: int) -> Tensor:
        """The agents' states of the last forward pass, [T + 1, B, A, h]."""
        return by_agent(unroll.hidden[:, : steps + 1], self.shape).permute(1, 2, 0, 3)

    def _memory_gradient(self, memory: Tensor) -> Tensor:
        assert memory.grad is not None
        by_agent_first = memory.grad.permute(2, 0, 1, 3)  # [A, T, B, h]
        if self.agent.copies > 1:
            return by_agent_first
        return by_agent_first.permute(1, 2, 0, 3).flatten(1, 2).unsqueeze(0)


def _together(agent: Recurrent, mixer: nn.Module | None) -> nn.ModuleList:
    return nn.ModuleList([agent] if mixer is None else [agent, mixer])


def _rows(values: Tensor) -> Tensor:
    """[A, T, B] as [T * B, A]."""
    return values.permute(1, 2, 0).flatten(0, 1)


def _at(values: Tensor, action: Tensor) -> Tensor:
    return values.gather(-1, action.unsqueeze(-1)).squeeze(-1)
