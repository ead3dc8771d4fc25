"""COMA: actors, and a central critic that asks what else an agent could have done (Foerster et al., 2018)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from twofold.base.errors import ConfigError
from twofold.core.schedules import Schedule
from twofold.core.seeding import Generators
from twofold.nets import MLP, Flat, copy_of, track
from twofold.nets.recurrent import Unroll
from twofold.settings.registry import learners
from twofold.team.agents import TeamNetworks, TeamPolicy, by_agent, fill_episodes
from twofold.team.episodes import Episode, EpisodeLearner, longest
from twofold.team.learner import TeamBatch, cut, lambda_returns, load_named
from twofold.team.optimise import OptimiserName, RewardScale, load_optimiser, make_optimiser


@dataclass(frozen=True)
class ComaConfig:
    """Settings of COMA under PyMARL's names."""

    gamma: float = 0.99
    lr: float = 5e-4
    critic_lr: float = 5e-4
    optimiser: OptimiserName = field(default="adam", metadata={"aliases": ("optimizer",)})
    optim_eps: float = 1e-5
    grad_norm_clip: float = 10.0
    td_lambda: float = 0.8
    critic_hidden: int = 128
    target_update_interval: float = 200.0  # updates; below 1 a share at every update
    epsilon_start: float = 0.5  # share of uniform actions mixed into the policy
    epsilon_finish: float = 0.01
    epsilon_anneal_time: float = 100_000.0
    entropy: float = 0.0  # weight of the policy's entropy in its loss
    standardise_rewards: bool = False

    def __post_init__(self) -> None:
        for name in ("gamma", "td_lambda", "epsilon_start", "epsilon_finish"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"learner.{name} must be in [0, 1], got {getattr(self, name)}")
        for name in ("lr", "critic_lr", "grad_norm_clip", "target_update_interval", "epsilon_anneal_time"):
            if getattr(self, name) <= 0:
                raise ConfigError(f"learner.{name} must be above 0, got {getattr(self, name)}")


@learners.register("team/coma", config=ComaConfig)
class Coma(EpisodeLearner):
    """Counterfactual multi-agent policy gradients, on the newest episodes only."""

    def __init__(
        self,
        cfg: ComaConfig,
        *,
        networks: TeamNetworks,
        observation_space: Any,
        action_space: Any,
        rngs: Generators,
    ) -> None:
        self.cfg, self.nets, self.shape = cfg, networks, networks.shape
        self._spaces = (observation_space, action_space)
        shape, hidden = self.shape, cfg.critic_hidden
        inputs = shape.state + shape.obs + 2 * shape.agents * shape.actions + shape.agents
        self.agent = networks.agent()
        self.critic = MLP(inputs, (hidden, hidden), shape.actions, generator=networks.generator)
        self.target_critic = copy_of(self.critic)
        self.actor_flat, self.critic_flat, self.target = (
            Flat(self.agent),
            Flat(self.critic),
            Flat(self.target_critic),
        )
        self.actor_optimiser = make_optimiser(cfg.optimiser, self.actor_flat, cfg.lr, cfg.optim_eps)
        self.critic_optimiser = make_optimiser(cfg.optimiser, self.critic_flat, cfg.critic_lr, cfg.optim_eps)
        self.scale = RewardScale() if cfg.standardise_rewards else None
        self.updates = 0
        self._explorer: TeamPolicy | None = None
        self._unroll: Unroll | None = None
        self._metrics: dict[str, Tensor] = {}

    @property
    def epsilon(self) -> Schedule:
        return Schedule(self.cfg.epsilon_start, self.cfg.epsilon_finish, over=self.cfg.epsilon_anneal_time)

    def policy(self, *, explore: bool, rows: int, rng: np.random.Generator) -> TeamPolicy:
        epsilon = self.epsilon if explore else Schedule(0.0)
        made = TeamPolicy(self.nets, self.agent, rows, epsilon=epsilon, rng=rng, sample=explore)
        if explore:
            self._explorer = made  # the gradient is that of the policy that played, epsilon included
        return made

    # ---- learning ----

    def update(self, batch: Episode) -> None:
        """The critic first, then the actors with its advantages."""
        self.updates += 1
        steps = longest(batch.filled)
        data = cut(batch, steps)
        inputs = self._critic_inputs(batch, data, steps)
        q = self._improve_critic(inputs, data)
        self._improve_actors(batch, data, q, steps)
        interval = self.cfg.target_update_interval
        if interval < 1:
            track(self.target, self.critic_flat, interval)
        elif self.updates % int(interval) == 0:
            track(self.target, self.critic_flat, 1.0)

    def _critic_inputs(self, batch: Episode, data: TeamBatch, steps: int) -> Tensor:
        """State, own observation, the others' actions, all last actions, own number: [T + 1, B, A, inputs]."""
        agents, count = self.shape.agents, batch.filled.shape[0]
        time = (steps + 1, count, agents)
        chosen = torch.zeros(*time, self.shape.actions)
        chosen[:steps] = nn.functional.one_hot(data.action.permute(1, 2, 0), self.shape.actions).float()
        chosen[:steps] *= data.mask[..., None, None]
        joint = chosen.unsqueeze(2).expand(*time, agents, self.shape.actions)
        others = joint * (1 - torch.eye(agents)).view(1, 1, agents, agents, 1)
        last = torch.zeros_like(chosen)
        last[1:] = chosen[:-1]
        return torch.cat(
            [
                data.state.unsqueeze(2).expand(*time, self.shape.state),
                torch.from_numpy(batch.obs["obs"][:, : steps + 1]).transpose(0, 1),
                others.flatten(3),
                last.flatten(2).unsqueeze(2).expand(*time, agents * self.shape.actions),
                torch.eye(agents).expand(*time, agents),
            ],
            -1,
        )

    def _improve_critic(self, inputs: Tensor, data: TeamBatch) -> Tensor:
        """TD(lambda) on the values of the chosen actions; the new critic's values [T, B, A, n]."""
        action = data.action.permute(1, 2, 0).unsqueeze(-1)
        with torch.no_grad():
            ahead = self.target_critic(inputs)[1:]
            # The last step of a cut episode has no next action: its value is that of the first, as in PyMARL.
            next_action = torch.cat([action[1:], torch.zeros_like(action[:1])])
            next_value = ahead.gather(-1, next_action).squeeze(-1)
            reward = data.reward if self.scale is None else self.scale(data.reward, data.mask)
            going_on = (self.cfg.gamma * (1 - data.terminated)).unsqueeze(-1)
            target = lambda_returns(
                reward.unsqueeze(-1), going_on, next_value, data.mask.unsqueeze(-1), self.cfg.td_lambda
            )
        self.critic_flat.zero_grad()
        q: Tensor = self.critic(inputs[:-1])
        weight = data.mask.unsqueeze(-1).expand_as(target)
        loss = ((q.gather(-1, action).squeeze(-1) - target).square() * weight).sum() / weight.sum()
        loss.backward()  # type: ignore[no-untyped-call]
        self._metrics["critic_loss"] = loss.detach()
        self._metrics["critic_grad_norm"] = self.critic_flat.clip_(self.cfg.grad_norm_clip)
        self.critic_optimiser.step()
        return q.detach()

    def _improve_actors(self, batch: Episode, data: TeamBatch, q: Tensor, steps: int) -> None:
        """Policy gradient with the counterfactual advantage Q(u) - sum_a pi(a) Q(u with a)."""
        unroll = self._inputs(batch, steps)
        out = unroll.forward(self.agent, steps).detach().requires_grad_()
        avail = data.avail[:, :-1].permute(1, 2, 0, 3)
        policy = self._probabilities(by_agent(out, self.shape).permute(1, 2, 0, 3), avail)
        action = data.action.permute(1, 2, 0).unsqueeze(-1)
        advantage = q.gather(-1, action).squeeze(-1) - (policy.detach() * q).sum(-1)
        log_policy = policy.clamp(min=1e-10).log()
        weight = data.mask.unsqueeze(-1).expand_as(advantage)
        entropy = -(policy * log_policy).sum(-1)
        gain = advantage * log_policy.gather(-1, action).squeeze(-1) + self.cfg.entropy * entropy
        loss = -(gain * weight).sum() / weight.sum()
        loss.backward()  # type: ignore[no-untyped-call]
        assert out.grad is not None
        unroll.backward(self.agent, out.grad)
        self._metrics["policy_loss"] = loss.detach()
        self._metrics["entropy"] = ((entropy * weight).sum() / weight.sum()).detach()
        self._metrics["grad_norm"] = self.actor_flat.clip_(self.cfg.grad_norm_clip)
        self.actor_optimiser.step()

    def _probabilities(self, logits: Tensor, avail: Tensor) -> Tensor:
        """The policy that explores: softmax over what is available, with a uniform share of epsilon."""
        epsilon = self.epsilon(self._explorer.steps if self._explorer is not None else 0)
        # Padding has nothing available: its uniform share keeps the softmax finite and its weight is zero.
        avail = avail | ~avail.any(-1, keepdim=True)
        soft = torch.softmax(logits.masked_fill(~avail, -torch.inf), -1)
        return (1 - epsilon) * soft + epsilon * avail / avail.sum(-1, keepdim=True)

    def _inputs(self, batch: Episode, steps: int) -> Unroll:
        count, limit = batch.filled.shape
        rows = self.shape.agents * count // self.agent.copies
        if self._unroll is None or self._unroll.rows != rows:
            self._unroll = Unroll(self.agent, limit, rows)
        obs, action = torch.from_numpy(batch.obs["obs"][:, :steps]), torch.from_numpy(batch.action[:, :steps])
        fill_episodes(self.nets, self._unroll.x[:, :steps], obs, action.long())
        return self._unroll

    # ---- saying and keeping ----

    def state_dict(self) -> dict[str, Any]:
        return {
            "actor": self.actor_flat.values.clone(),
            "critic": self.critic_flat.values.clone(),
            "target": self.target.values.clone(),
            "actor_optimiser": dict(self.actor_optimiser.state_dict()),
            "critic_optimiser": dict(self.critic_optimiser.state_dict()),
            "scale": self.scale.state_dict() if self.scale else None,
            "updates": self.updates,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        flats = {"actor": self.actor_flat, "critic": self.critic_flat, "target": self.target}
        for key, flat in flats.items():
            flat.values.copy_(torch.as_tensor(state[key]))
        load_optimiser(self.actor_optimiser, state["actor_optimiser"])
        load_optimiser(self.critic_optimiser, state["critic_optimiser"])
        if self.scale is not None:
            self.scale.load_state_dict(state["scale"])
        self.updates = int(state["updates"])

    def policy_state(self) -> dict[str, Any]:
        return {"agent": {name: value.detach().clone() for name, value in self.agent.named_parameters()}}

    def load_policy_state(self, state: dict[str, Any]) -> None:
        load_named(self.agent, state["agent"], "agent")
