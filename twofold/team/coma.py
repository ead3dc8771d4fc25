"""COMA: actors, and a central critic that asks what else an agent could have done (Foerster et al., 2018)."""

from __future__ import annotations

from typing import Unpack

import numpy as np
import torch
from torch import Tensor, nn

from twofold.base.setting import setting, settings
from twofold.core.protocols import State
from twofold.core.schedules import Schedule
from twofold.nets import MLP, copy_of
from twofold.settings.registry import learners
from twofold.team.agents import TeamPolicy, by_agent
from twofold.team.episodes import Episode
from twofold.team.learner import TeamBatch, cut
from twofold.team.learning import AgentUnroll, EpisodeLearner, Given, TeamConfig, lambda_returns, weights_of
from twofold.team.optimise import RewardScale, Target


@settings
class ComaConfig(TeamConfig):
    """Settings of COMA under PyMARL's names."""

    critic_lr: float = setting("learning rate of the critic", default=5e-4, gt=0)
    critic_hidden: int = setting("width of the critic", default=128, ge=1)
    td_lambda: float = setting(
        "0: one-step targets of the critic; above: mixed over the rest of the episode",
        default=0.8,
        ge=0,
        le=1,
    )
    epsilon_start: float = setting("share of uniform actions in the policy at first", default=0.5, ge=0, le=1)
    epsilon_finish: float = setting(
        "share of uniform actions in the policy at last", default=0.01, ge=0, le=1
    )
    epsilon_anneal_time: float = setting(
        "the share of uniform actions falls over this long", default=100_000.0, gt=0, unit="world steps"
    )
    entropy: float = setting("weight of the policy's entropy in its loss", default=0.0, ge=0)


@learners.register("team/coma", config=ComaConfig)
class Coma(EpisodeLearner):
    """Counterfactual multi-agent policy gradients, on the newest episodes only."""

    def __init__(self, cfg: ComaConfig, **given: Unpack[Given]) -> None:
        super().__init__(**given)
        self.cfg, shape, hidden = cfg, self.shape, cfg.critic_hidden
        inputs = shape.state + shape.obs + 2 * shape.agents * shape.actions + shape.agents
        self.agent = self.nets.agent()
        self.critic = MLP(inputs, (hidden, hidden), shape.actions, generator=self.nets.generator)
        self.target_critic = copy_of(self.critic)
        self.actor_weights = weights_of(self.agent, cfg)
        self.critic_weights = weights_of(self.critic, cfg, cfg.critic_lr)
        self.target = Target(self.target_critic, self.critic_weights, cfg.target_update_interval)
        self.scale = RewardScale(cfg.standardise_rewards)
        self.played = 0  # world steps of all episodes learned from, each of which comes once
        self._unroll = AgentUnroll(self.nets, self.agent)
        self._kept = {"actor": self.actor_weights, "critic": self.critic_weights}
        self._kept |= {"target": self.target, "scale": self.scale}
        self._acts = {"agent": self.agent}

    def policy(self, *, explore: bool, rows: int, rng: np.random.Generator) -> TeamPolicy:
        epsilon = self.cfg.epsilon if explore else Schedule(0.0)
        return TeamPolicy(self.nets, self.agent, rows, epsilon=epsilon, rng=rng, sample=explore)

    def state_dict(self) -> State:
        return super().state_dict() | {"played": self.played}

    def load_state_dict(self, state: State) -> None:
        super().load_state_dict(state)
        self.played = int(state["played"])

    # ---- learning ----

    def learn(self, batch: Episode, steps: int) -> None:
        """The critic first, then the actors with its advantages."""
        data = cut(batch, steps)
        self.played += int(batch.filled.sum())
        q = self._improve_critic(self._critic_inputs(batch, data, steps), data)
        self._improve_actors(batch, data, q, steps)
        self.target.track(self.updates)

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
            reward = self.scale(data.reward, data.mask)
            going_on = (self.cfg.gamma * (1 - data.terminated)).unsqueeze(-1)
            target = lambda_returns(
                reward.unsqueeze(-1), going_on, next_value, data.mask.unsqueeze(-1), self.cfg.td_lambda
            )
        self.critic_weights.zero_grad()
        q: Tensor = self.critic(inputs[:-1])
        weight = data.mask.unsqueeze(-1).expand_as(target)
        loss = ((q.gather(-1, action).squeeze(-1) - target).square() * weight).sum() / weight.sum()
        torch.autograd.backward(loss)
        self._metrics["critic_loss"] = loss.detach()
        self._metrics["critic_grad_norm"] = self.critic_weights.descend()
        return q.detach()

    def _improve_actors(self, batch: Episode, data: TeamBatch, q: Tensor, steps: int) -> None:
        """Policy gradient with the counterfactual advantage Q(u) - sum_a pi(a) Q(u with a)."""
        unroll = self._unroll.filled(batch, steps)
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
        torch.autograd.backward(loss)
        assert out.grad is not None
        unroll.backward(self.agent, out.grad)
        self._metrics["policy_loss"] = loss.detach()
        self._metrics["entropy"] = ((entropy * weight).sum() / weight.sum()).detach()
        self._metrics["grad_norm"] = self.actor_weights.descend()

    def _probabilities(self, logits: Tensor, avail: Tensor) -> Tensor:
        """The policy that explores: softmax over what is available, with a uniform share of epsilon."""
        epsilon = self.cfg.epsilon(self.played)
        # Padding has nothing available: its uniform share keeps the softmax finite and its weight is zero.
        avail = avail | ~avail.any(-1, keepdim=True)
        soft = torch.softmax(logits.masked_fill(~avail, -torch.inf), -1)
        return (1 - epsilon) * soft + epsilon * avail / avail.sum(-1, keepdim=True)
