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
    epsilon_start: float = setting("initial share of uniform actions in the policy", default=0.5, ge=0, le=1)
    epsilon_finish: float = setting("final share of uniform actions in the policy", default=0.01, ge=0, le=1)
    epsilon_anneal_time: float = setting(
        "the share of uniform actions falls over this long", default=100_000.0, gt=0, unit="world steps"
    )
    target_update_interval: float = setting(
        "steps of the critic (one for each step of the longest episode of a batch) between two copies to its "
        "target; below 1: the share mixed in after every batch",
        default=200.0,
        gt=0,
        unit="critic steps",
        aliases=("target_update_interval_or_tau",),
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
        self.actor_weights = weights_of(self.agent, cfg, place=self.nets.place)
        self.critic_weights = weights_of(self.critic, cfg, cfg.critic_lr, place=self.nets.place)
        self.target = Target(self.target_critic, self.critic_weights, cfg.target_update_interval)
        self.scale = RewardScale(cfg.standardise_rewards)
        self.played = 0  # world steps of all episodes learned from, each of which comes once
        self.critic_steps = 0  # what `target_update_interval` counts
        self.rng = given["rngs"]["coma"]
        self._unroll = AgentUnroll(self.nets, self.agent)
        self._kept = {"actor": self.actor_weights, "critic": self.critic_weights}
        self._kept |= {"target": self.target, "scale": self.scale}
        self._acts = {"agent": self.agent}

    def policy(self, *, explore: bool, rows: int, rng: np.random.Generator) -> TeamPolicy:
        epsilon = self.cfg.epsilon if explore else Schedule(0.0)
        return TeamPolicy(self.nets, self.agent, rows, epsilon=epsilon, rng=rng, sample=explore)

    def state_dict(self) -> State:
        return super().state_dict() | {"played": self.played, "critic_steps": self.critic_steps}

    def load_state_dict(self, state: State) -> None:
        super().load_state_dict(state)
        self.played, self.critic_steps = int(state["played"]), int(state["critic_steps"])

    # ---- learning ----

    def learn(self, batch: Episode, steps: int) -> None:
        """The critic first, then the actors with its advantages."""
        data = cut(batch, steps, self.nets.place)
        self.played += int(batch.filled.sum())
        unroll = self._unroll.filled(batch, steps)
        out = unroll.forward(self.agent, steps + 1).detach().requires_grad_()
        logits = by_agent(out, self.shape).permute(1, 2, 0, 3)  # [T + 1, B, A, n]
        policy = self._probabilities(logits, data.avail.permute(1, 2, 0, 3))
        action = self._actions(data, policy.detach())
        q = self._improve_critic(self._critic_inputs(batch, data, action), action, data)
        self._improve_actors(policy[:-1], q, data)
        assert out.grad is not None
        unroll.backward(self.agent, out.grad)
        self._metrics["grad_norm"] = self.actor_weights.descend()
        self.target.track(self.critic_steps)

    def _actions(self, data: TeamBatch, policy: Tensor) -> Tensor:
        """What was played [T + 1, B, A], and in every episode's last state what the policy would play there."""
        action = data.action.new_zeros(policy.shape[:-1])
        action[:-1] = data.action.permute(1, 2, 0)
        last, episode = data.mask.sum(0).long(), torch.arange(policy.shape[1], device=self.nets.place)
        draws = torch.from_numpy(self.rng.random(policy.shape[1:3])).to(self.nets.place).unsqueeze(-1)
        reached = policy[last, episode].double().cumsum(-1)
        action[last, episode] = (reached <= draws * reached[..., -1:]).sum(-1)
        return action

    def _critic_inputs(self, batch: Episode, data: TeamBatch, action: Tensor) -> Tensor:
        """State, own observation, the others' actions, all last actions, own number: [T + 1, B, A, inputs]."""
        agents, time = self.shape.agents, action.shape
        chosen = nn.functional.one_hot(action, self.shape.actions).float()
        exists = torch.cat([torch.ones_like(data.mask[:1]), data.mask])  # a state, if a step led to it
        chosen *= exists[..., None, None]
        joint = chosen.unsqueeze(2).expand(*time, agents, self.shape.actions)
        number = torch.eye(agents, device=self.nets.place)
        others = joint * (1 - number).view(1, 1, agents, agents, 1)
        last = torch.zeros_like(chosen)
        last[1:] = chosen[:-1]
        return torch.cat(
            [
                data.state.unsqueeze(2).expand(*time, self.shape.state),
                torch.from_numpy(batch.obs["obs"][:, : len(action)]).to(self.nets.place).transpose(0, 1),
                others.flatten(3),
                last.flatten(2).unsqueeze(2).expand(*time, agents * self.shape.actions),
                number.expand(*time, agents),
            ],
            -1,
        )

    def _improve_critic(self, inputs: Tensor, action: Tensor, data: TeamBatch) -> Tensor:
        """TD(lambda) on the values of the chosen actions, a step of the critic for each step of the episodes.

        As in PyMARL the last step comes first; the values [T, B, A, n] are those before each step of the critic.
        """
        target = self._target(inputs, action, data)
        values = target.new_zeros(*action[:-1].shape, self.shape.actions)
        losses, norms = [], []
        for t in reversed(range(len(target))):
            weight = data.mask[t].unsqueeze(-1).expand_as(target[t])
            q: Tensor = self.critic(inputs[t])
            values[t] = q.detach()
            error = q.gather(-1, action[t].unsqueeze(-1)).squeeze(-1) - target[t]
            loss = (error.square() * weight).sum() / weight.sum()
            self.critic_weights.zero_grad()
            torch.autograd.backward(loss)
            norms.append(self.critic_weights.descend())
            losses.append(loss.detach())
            self.critic_steps += 1
        self._metrics["critic_loss"] = torch.stack(losses).mean()
        self._metrics["critic_grad_norm"] = torch.stack(norms).mean()
        return values

    @torch.no_grad()
    def _target(self, inputs: Tensor, action: Tensor, data: TeamBatch) -> Tensor:
        """TD(lambda) returns [T, B, A] of the target critic's values of what was played next."""
        ahead = self.target_critic(inputs[1:]).gather(-1, action[1:].unsqueeze(-1)).squeeze(-1)
        reward = self.scale(data.reward, data.mask).unsqueeze(-1)
        going_on = (self.cfg.gamma * (1 - data.terminated)).unsqueeze(-1)
        return lambda_returns(reward, going_on, ahead, data.mask.unsqueeze(-1), self.cfg.td_lambda)

    def _improve_actors(self, policy: Tensor, q: Tensor, data: TeamBatch) -> None:
        """Policy gradient with the counterfactual advantage Q(u) - sum_a pi(a) Q(u with a)."""
        action = data.action.permute(1, 2, 0).unsqueeze(-1)
        advantage = q.gather(-1, action).squeeze(-1) - (policy.detach() * q).sum(-1)
        log_policy = policy.clamp(min=1e-10).log()
        weight = data.mask.unsqueeze(-1).expand_as(advantage)
        entropy = -(policy * log_policy).sum(-1)
        gain = advantage * log_policy.gather(-1, action).squeeze(-1) + self.cfg.entropy * entropy
        loss = -(gain * weight).sum() / weight.sum()
        torch.autograd.backward(loss)
        self._metrics["policy_loss"] = loss.detach()
        self._metrics["entropy"] = ((entropy * weight).sum() / weight.sum()).detach()

    def _probabilities(self, logits: Tensor, avail: Tensor) -> Tensor:
        """The policy that explores: softmax over what is available, with a uniform share of epsilon."""
        epsilon = self.cfg.epsilon(self.played)
        # Padding has nothing available: its uniform share keeps the softmax finite and its weight is zero.
        avail = avail | ~avail.any(-1, keepdim=True)
        soft = torch.softmax(logits.masked_fill(~avail, -torch.inf), -1)
        return (1 - epsilon) * soft + epsilon * avail / avail.sum(-1, keepdim=True)
