"""Q-learning of teams: independent, or with a mixer; one file for IQL, VDN, QMIX and QTRAN."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from twofold.base.errors import CheckpointError, ConfigError
from twofold.core.schedules import Schedule
from twofold.core.seeding import Generators
from twofold.nets import Flat, copy_of, track
from twofold.nets.recurrent import Recurrent, Unroll
from twofold.settings.registry import learners
from twofold.team.agents import TeamNetworks, TeamPolicy, by_agent, fill_episodes
from twofold.team.episodes import Episode, EpisodeLearner, longest
from twofold.team.mixers import JointValue, MixerName, Monotonic, Sum
from twofold.team.optimise import OptimiserName, RewardScale, load_optimiser, make_optimiser


@dataclass(frozen=True)
class QConfig:
    """Settings of team Q-learning; PyMARL's names are accepted."""

    mixer: MixerName = "none"
    gamma: float = 0.99
    lr: float = 5e-4
    optimiser: OptimiserName = field(default="adam", metadata={"aliases": ("optimizer",)})
    optim_eps: float = 1e-5
    grad_norm_clip: float = 10.0
    double_q: bool = True  # the online network chooses the next action, the target network values it
    target_update_interval: float = field(  # in updates; below 1 it is the share mixed in at every update
        default=200.0, metadata={"aliases": ("target_update_interval_or_tau",)}
    )
    epsilon_start: float = 1.0
    epsilon_finish: float = 0.05
    epsilon_anneal_time: float = 50_000.0  # world steps
    evaluation_epsilon: float = 0.0
    td_lambda: float = 0.0  # 0: one-step targets; above: targets mixed over the rest of the episode
    standardise_rewards: bool = False
    individual_rewards: bool = False  # each agent learns from its own reward, where the world gives one
    mixing_embed_dim: int = 32
    hypernet_layers: int = 2
    hypernet_embed: int = 64
    opt_loss: float = 1.0  # QTRAN: weight of the loss at the best joint action
    nopt_min_loss: float = 0.1  # QTRAN: weight of the loss at the others

    def __post_init__(self) -> None:
        for name in ("gamma", "epsilon_start", "epsilon_finish", "evaluation_epsilon", "td_lambda"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"learner.{name} must be in [0, 1], got {getattr(self, name)}")
        for name in (
            "lr",
            "grad_norm_clip",
            "target_update_interval",
            "epsilon_anneal_time",
            "mixing_embed_dim",
        ):
            if getattr(self, name) <= 0:
                raise ConfigError(f"learner.{name} must be above 0, got {getattr(self, name)}")
        if self.hypernet_layers not in (1, 2):
            raise ConfigError(f"learner.hypernet_layers must be 1 or 2, got {self.hypernet_layers}")
        if self.mixer != "none" and self.individual_rewards:
            raise ConfigError(
                "learner.individual_rewards needs learner.mixer=none: a mixer shares one team reward"
            )

    @property
    def epsilon(self) -> Schedule:
        return Schedule(self.epsilon_start, self.epsilon_finish, over=self.epsilon_anneal_time)


@dataclass(frozen=True)
class TeamBatch:
    """Episodes with time first, cut to the longest."""

    state: Tensor  # [T + 1, B, s]
    avail: Tensor  # [A, T + 1, B, n] bool
    action: Tensor  # [A, T, B]
    reward: Tensor  # [T, B], or [T, B, A] where each agent has its own
    terminated: Tensor  # [T, B]
    mask: Tensor  # [T, B]


def cut(batch: Episode, steps: int, *, individual: bool = False) -> TeamBatch:
    """The first `steps` steps of replayed episodes as tensors."""
    obs = batch.obs
    reward = obs["rewards"][:, 1 : steps + 1] if individual else batch.reward[:, :steps]
    return TeamBatch(
        torch.from_numpy(obs["state"][:, : steps + 1]).transpose(0, 1),
        torch.from_numpy(obs["avail"][:, : steps + 1]).permute(2, 1, 0, 3) > 0,
        torch.from_numpy(batch.action[:, :steps]).long().permute(2, 1, 0),
        torch.from_numpy(reward).transpose(0, 1),
        torch.from_numpy(batch.terminated[:, :steps]).float().t(),
        torch.from_numpy(batch.filled[:, :steps]).float().t(),
    )


@learners.register("team/q", config=QConfig)
class QLearner(EpisodeLearner):
    """Recurrent Q-learning with target networks; the mixer makes it IQL, VDN, QMIX or QTRAN."""

    def __init__(
        self,
        cfg: QConfig,
        *,
        networks: TeamNetworks,
        observation_space: Any,
        action_space: Any,
        rngs: Generators,
    ) -> None:
        self.cfg, self.nets, self.shape = cfg, networks, networks.shape
        self._spaces = (observation_space, action_space)
        if cfg.individual_rewards and not self.shape.individual:
            raise ConfigError("learner.individual_rewards: this world gives the team one reward only")
        self.agent, self.mixer = networks.agent(), self._make_mixer()
        online = nn.ModuleList([self.agent, *([self.mixer] if self.mixer is not None else [])])
        target = copy_of(online)
        assert isinstance(target[0], Recurrent)
        self.target_agent, self.target_mixer = target[0], target[1] if self.mixer is not None else None
        self.online, self.target = Flat(online), Flat(target)
        self.optimiser = make_optimiser(cfg.optimiser, self.online, cfg.lr, cfg.optim_eps)
        self.scale = RewardScale() if cfg.standardise_rewards else None
        self.updates = 0
        self._unroll: Unroll | None = None
        self._metrics: dict[str, Tensor] = {}

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

    def update(self, batch: Episode) -> None:
        """One gradient step on whole episodes."""
        self.updates += 1
        steps = longest(batch.filled)
        data = cut(batch, steps, individual=self.cfg.individual_rewards)
        unroll = self._inputs(batch, steps)
        after = by_agent(unroll.forward(self.target_agent, steps + 1), self.shape)[:, 1:].clone()
        memory_after = self._memory(unroll, steps)[1:].clone() if self.cfg.mixer == "qtran" else None
        q = unroll.forward(self.agent, steps + 1).detach().requires_grad_()
        memory = self._memory(unroll, steps).detach().requires_grad_() if self.cfg.mixer == "qtran" else None
        self.online.zero_grad()
        loss = self._loss(by_agent(q, self.shape), after, memory, memory_after, data)
        loss.backward()  # type: ignore[no-untyped-call]
        assert q.grad is not None
        unroll.backward(self.agent, q.grad, None if memory is None else self._memory_gradient(memory))
        self._metrics["loss"] = loss.detach()
        self._metrics["grad_norm"] = self.online.clip_(self.cfg.grad_norm_clip)
        self.optimiser.step()
        self._track()

    def _inputs(self, batch: Episode, steps: int) -> Unroll:
        count, limit = batch.filled.shape
        rows = self.shape.agents * count // self.agent.copies
        if self._unroll is None or self._unroll.rows != rows:
            self._unroll = Unroll(self.agent, limit + 1, rows)
        obs, action = (
            torch.from_numpy(batch.obs["obs"][:, : steps + 1]),
            torch.from_numpy(batch.action[:, :steps]),
        )
        fill_episodes(self.nets, self._unroll.x[:, : steps + 1], obs, action.long())
        return self._unroll

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
        reward, going_on, mask = data.reward, self.cfg.gamma * (1 - data.terminated), data.mask
        if self.scale is not None:
            reward = self.scale(
                reward, mask if reward.dim() == mask.dim() else mask.unsqueeze(-1).expand_as(reward)
            )
        if next_value.dim() == 3:
            going_on, mask = going_on.unsqueeze(-1), mask.unsqueeze(-1)
            reward = reward if reward.dim() == 3 else reward.unsqueeze(-1)
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
        return by_agent_first.transpose(0, 1).flatten(1, 2).unsqueeze(0)

    def _track(self) -> None:
        interval = self.cfg.target_update_interval
        if interval < 1:
            track(self.target, self.online, interval)
        elif self.updates % int(interval) == 0:
            track(self.target, self.online, 1.0)

    # ---- saying and keeping ----

    def state_dict(self) -> dict[str, Any]:
        return {
            "online": self.online.values.clone(),
            "target": self.target.values.clone(),
            "optimiser": dict(self.optimiser.state_dict()),
            "scale": self.scale.state_dict() if self.scale else None,
            "updates": self.updates,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for flat, key in ((self.online, "online"), (self.target, "target")):
            flat.values.copy_(torch.as_tensor(state[key]))
        load_optimiser(self.optimiser, state["optimiser"])
        if self.scale is not None:
            self.scale.load_state_dict(state["scale"])
        self.updates = int(state["updates"])

    def policy_state(self) -> dict[str, Any]:
        return {"agent": {name: value.detach().clone() for name, value in self.agent.named_parameters()}}

    def load_policy_state(self, state: dict[str, Any]) -> None:
        load_named(self.agent, state["agent"], "agent")


def _at(values: Tensor, action: Tensor) -> Tensor:
    return values.gather(-1, action.unsqueeze(-1)).squeeze(-1)


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


def load_named(module: nn.Module, state: dict[str, Any], what: str) -> None:
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
