"""TD3's targets and gradients for networks over items, derived by hand; learned trackers by autograd."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor
from torch.autograd import backward

from twofold.base import tree
from twofold.base.errors import ConfigError
from twofold.core.experience import Transition, named
from twofold.learners.config import TD3Config
from twofold.learners.descent import TorchDescent
from twofold.learners.engine import Autograd, Batch
from twofold.learners.nets import Nets
from twofold.nets.twin import Tensors
from twofold.recsys.candidates import WINDOW, Candidates
from twofold.recsys.heads import ActorHead, CriticHead, actor_weights, critic_weights, gradients
from twofold.recsys.item_nets import SOFT, Chooser, UserState, item_actor, item_critic
from twofold.recsys.seen import Seen


class ItemEngine(TorchDescent):
    """The equations of `ItemAutograd` for `ItemActor` and `ItemCritic`, in a third of the time."""

    name = "items"

    def __init__(self, nets: Nets, cfg: TD3Config, chooser: Chooser, rng: np.random.Generator) -> None:
        self.nets, self.actor, self.critic = nets, nets.actor, nets.critic
        self.chooser, self.rng = chooser, rng
        self.twin, self.huber = cfg.twin, cfg.huber
        self.cfg, self.tables = chooser.cfg, chooser.tables
        self._actor, self._target_actor = item_actor(nets.actor.module), item_actor(nets.target_actor.module)
        self._critic, self._target_critic = (
            item_critic(part.module) for part in (nets.critic, nets.target_critic)
        )
        self._actor_weights = actor_weights(self._actor)
        self._target_actor_weights = actor_weights(self._target_actor)
        self._critic_weights = critic_weights(self._critic)
        self._target_critic_weights = critic_weights(self._target_critic)
        self._actor_grads = gradients(self._actor.body.layers)
        self._critic_grads = [[grad[k] for grad in gradients(self._critic.head.layers)] for k in range(2)]
        self._allocate(1)

    def _allocate(self, rows: int) -> None:
        self.rows = rows
        self._actor_head, self._critic_head = ActorHead(self._actor, rows), CriticHead(self._critic, rows)
        self.values, self._errors = torch.zeros(2, rows), torch.zeros(2, rows)
        self._shown = torch.zeros(rows, 1, dtype=torch.int64)
        self._both: Seen | None = None
        self._fixed: list[Tensor] | None = None  # features of the item shown, if they are made already

    # ---- what the equations ask for ----

    @torch.no_grad()
    def tensors(self, items: Transition) -> Batch[Seen]:
        """The batch; what needs no parameters is derived for both observations at once."""
        obs, next_obs = named(items.obs), named(items.next_obs)
        rows = len(obs["turn"])
        if rows != self.rows:
            self._allocate(rows)
        both = Seen({name: np.concatenate([obs[name], next_obs[name]]) for name in obs})
        both.blocked(self.tables.item_vectors.shape[0])
        both.last(max(self.cfg.window_size, WINDOW))
        if self._critic.candidates is not None:
            self._critic.candidates.derive(both)
        if self.cfg.shortlist and self.cfg.rerank > 1:
            self.tables.favourites(both, self.cfg.shortlist)
        if not self._actor.state.learned:
            self._actor.state(both)
        self._both, self._fixed = both, None
        # The item shown at s stands in the history of s', however many steps lie between.
        shown = next_obs["items"][np.arange(rows)[:, None], obs["turn"]]
        self._shown = torch.from_numpy(shown.astype(np.int64))
        rest = (torch.from_numpy(x) for x in (items.action, items.reward, items.terminated, items.discount))
        action, reward, terminated, discount = rest
        return Batch(
            both.part(slice(rows)), action, reward, both.part(slice(rows, None)), terminated, discount
        )

    @torch.no_grad()
    def target(self, batch: Batch[Seen], reward: Tensor, noise: Tensor | None) -> Tensor:
        """r + gamma^n (1 - terminated) min Q'(s', what is shown for the smoothed action)."""
        next_obs, actor = batch.next_obs, self._target_actor
        point = self._actor_head.forward(
            self._target_actor_weights, actor.state.forward(next_obs), self._guide(next_obs)
        )
        if noise is not None:
            point = (point + noise).clamp_(-1, 1)
        critic = self._target_critic
        if self.cfg.rerank > 1:
            values = self.chooser.values(next_obs, point, critic)
        else:
            candidates = critic.candidates
            features = point if candidates is None else self._next_features(candidates, next_obs, point)
            values = self._critic_head.forward(
                self._target_critic_weights, features, critic.state.forward(next_obs)
            )
            values = values + critic.planned(features)  # nothing where the critic has no prior
        pessimistic = values.amin(dim=0) if self.twin else values[0]
        return torch.addcmul(reward, batch.discount * (1 - batch.terminated), pessimistic)

    @torch.no_grad()
    def critic_gradients(self, batch: Batch[Seen], target: Tensor) -> Tensor:
        self.critic.zero_grad()
        critic, head = self._critic, self._critic_head
        obs, candidates = batch.obs, critic.candidates
        state = self._state(critic.state, obs)
        features = batch.action if candidates is None else self._features(candidates, obs)
        self.values = head.forward(self._critic_weights, features, state.detach())
        if critic.prior is not None:
            self.values = self.values + critic.planned(features)
        slopes = self._slopes(target)
        learned = slice(0, 0) if candidates is None else candidates.learned
        # From the learned pairs on, or up to their end: one product for all that is needed.
        columns = slice(learned.start, None if critic.state.learned else learned.stop)
        d_inputs = head.backward(self._critic_weights, slopes, self._critic_grads, columns)
        if candidates is not None and learned.stop > learned.start:
            candidates.add_gradient(obs, self._shown, d_inputs[:, : learned.stop - learned.start])
        if critic.state.learned:
            backward(state, d_inputs[:, head.features - learned.start :])
        if self.huber is None:
            return torch.dot(slopes.view(-1), self._errors.view(-1)) / 2
        inside = self._errors.clamp(-self.huber, self.huber)
        return torch.dot(slopes.view(-1), (self._errors - inside / 2).view(-1))

    @torch.no_grad()
    def actor_gradients(self, batch: Batch[Seen]) -> Tensor:
        self.actor.zero_grad()
        obs = batch.obs
        state = self._state(self._actor.state, obs)
        point = self._actor_head.forward(self._actor_weights, state.detach(), self._guide(obs))
        first, critic_state = self._critic_weights[0], self._critic.state.forward(obs)
        candidates = self._critic.candidates
        if candidates is None:
            loss, d_point = self._critic_head.ascend(first, point, critic_state)
        else:
            each = candidates.forward(obs, self.tables.top(obs, point, SOFT))
            loss, d_point = self._through_the_choice(each, point, critic_state)
        learned = self._actor.state.learned
        d_state = self._actor_head.backward(self._actor_weights, d_point, self._actor_grads, learned)
        if learned:
            backward(state, d_state)
        return loss

    def _through_the_choice(self, each: Tensor, point: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Loss and gradient of a point that stands for a soft mixture of the items around it: `each` [B, SOFT, f]."""
        vectors = each[:, :, : self.tables.width]
        length = torch.linalg.vector_norm(point, dim=1, keepdim=True).clamp_min_(1e-12)
        unit = point / length
        scores = torch.bmm(vectors, unit.unsqueeze(2)).squeeze(2)
        shares = scores.mul_(self.cfg.sharpness).softmax(dim=1)
        features = torch.bmm(shares.unsqueeze(1), each).squeeze(1)
        loss, d_features = self._critic_head.ascend(self._critic_weights[0], features, state)
        if self._critic.prior is not None:
            loss = loss - (features @ self._critic.prior).mean()
            d_features -= self._critic.prior / self.rows
        d_shares = torch.bmm(each, d_features.unsqueeze(2)).squeeze(2)
        d_scores = shares * (d_shares - (shares * d_shares).sum(dim=1, keepdim=True)) * self.cfg.sharpness
        d_unit = torch.bmm(d_scores.unsqueeze(1), vectors).squeeze(1)
        along = (unit * d_unit).sum(dim=1, keepdim=True)
        return loss, torch.addcmul(d_unit, unit, along, value=-1).div_(length)

    # ---- parts ----

    def _state(self, state: UserState, obs: Seen) -> Tensor:
        """The state of a network in training: a graph to go back through, and dropout, where it has parameters."""
        if not state.learned:
            return state.forward(obs)
        with torch.enable_grad():
            return state.forward(obs, self.rng)

    def _guide(self, obs: Seen) -> Tensor | None:
        return self.tables.towards_the_best(obs) if self.cfg.guide else None

    def _next_features(self, candidates: Candidates, next_obs: Seen, point: Tensor) -> Tensor:
        """What the target critic sees of the item that a point stands for [B, f].

        The fixed ones are made for the item shown at s, too: two small batches cost nearly what one does.
        """
        items, both = self.tables.top(next_obs, point, 1), self._both
        if both is None:
            raise RuntimeError("`tensors` comes before `target`")
        fixed = candidates.fixed(both, torch.cat([self._shown, items]))
        self._fixed = [leaf[: self.rows] for leaf in fixed]
        next_fixed = [leaf[self.rows :] for leaf in fixed]
        return candidates.completed(next_obs, items, next_fixed).squeeze(1)

    def _features(self, candidates: Candidates, obs: Seen) -> Tensor:
        """What the critic sees of the item that was shown [B, f]."""
        fixed = candidates.fixed(obs, self._shown) if self._fixed is None else self._fixed
        return candidates.completed(obs, self._shown, fixed).squeeze(1)

    def _slopes(self, target: Tensor) -> Tensor:
        """d loss / d value [2, B] for the mean of squared or Huber errors."""
        torch.sub(self.values, target, out=self._errors)
        slopes = self._errors * 2 if self.huber is None else self._errors.clamp(-self.huber, self.huber)
        return slopes.div_(self.rows)


class ItemAutograd(Autograd):
    """The reference for networks over items: the target's value is of the item that would be shown."""

    def __init__(self, nets: Nets, cfg: TD3Config, chooser: Chooser) -> None:
        if chooser.cfg.dropout_rate > 0:
            raise ConfigError(
                "learner.engine=autograd draws no dropout; use engine=auto or networks.dropout_rate=0"
            )
        super().__init__(nets, cfg)
        self.chooser = chooser

    def tensors(self, items: Transition) -> Batch[Tensors]:
        """Observations stay on the CPU, where items are looked up."""
        blank = replace(items, obs={}, next_obs={})
        obs, next_obs = (tree.map(torch.from_numpy, seen) for seen in (items.obs, items.next_obs))
        return replace(super().tensors(blank), obs=obs, next_obs=next_obs)

    @torch.no_grad()
    def target(self, batch: Batch[Tensors], reward: Tensor, noise: Tensor | None) -> Tensor:
        action: Tensor = self.nets.target_actor.module(batch.next_obs)
        if noise is not None:
            action = (action + noise.to(action.device)).clamp(-1, 1)
        if isinstance(batch.next_obs, Tensor):
            raise TypeError("the observations of users have names")
        values = self.chooser.values(batch.next_obs, action, item_critic(self.nets.target_critic.module))
        pessimistic = values.amin(dim=0) if self.twin else values[0]
        return reward + batch.discount * (1 - batch.terminated) * pessimistic
