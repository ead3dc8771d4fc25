"""TD3 with what was found since (TD7: Fujimoto et al. 2023): embeddings, bounded values, hard targets, priorities."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import torch
from torch import Tensor, nn

from twofold.base.device import check_cpu
from twofold.base.errors import ConfigError
from twofold.base.foreign import AnySpace
from twofold.core.experience import Array, Transition
from twofold.core.protocols import Metrics, Policy, State
from twofold.core.seeding import Generators
from twofold.core.writers import TransitionWriter
from twofold.learners.actor_critic import ActorCritic
from twofold.learners.engine import Batch
from twofold.learners.nets import load_module
from twofold.learners.plus.bounds import Bounds
from twofold.learners.plus.config import PlusConfig
from twofold.learners.plus.policy import HeldNoise, HopefulNoise, PlusPolicy
from twofold.learners.plus.sale import Embeds
from twofold.learners.plus.writer import FollowingWriter, parted, vectors
from twofold.learners.policy import GaussianPolicy
from twofold.learners.td3 import TD3
from twofold.learners.vector import vector_size
from twofold.nets.flat import Adam
from twofold.nets.normaliser import Normaliser
from twofold.nets.target import track
from twofold.settings.registry import learners


@learners.register("td3_plus", config=PlusConfig)
class TD3Plus(TD3):
    """TD3 with bounded values, hard targets, priorities, held noise and, with networks `sale`, embeddings."""

    cfg: PlusConfig

    def __init__(
        self,
        cfg: PlusConfig,
        *,
        networks: ActorCritic,
        observation_space: AnySpace,
        action_space: AnySpace,
        rngs: Generators,
    ) -> None:
        cfg = cfg.for_actions(math.prod(action_space.shape or ()))
        super().__init__(
            cfg,
            networks=networks,
            observation_space=observation_space,
            action_space=action_space,
            rngs=rngs,
        )
        check_cpu(networks.place, "td3_plus learns")
        self.actor_optimiser.betas = self.critic_optimiser.betas = cfg.adam_betas
        self._embed()
        self.bounds = Bounds() if cfg.value_clip else None
        self.normaliser = _normaliser(observation_space) if cfg.normalise_obs else None
        self.encoder_loss = torch.zeros(())
        self._target = torch.zeros(0)

    def _embed(self) -> None:
        """The encoders of the engine, if it has such, and what teaches them."""
        cfg, self.sale = self.cfg, self.engine if isinstance(self.engine, Embeds) else None
        self.encoder_optimiser = (
            None if self.sale is None else Adam(self.sale.encoder, cfg.critic_lr, betas=cfg.adam_betas)
        )

    # ---- the algorithm ----

    def update(self, items: Transition) -> None:
        """One update of encoders and critics, at times one of the policy, at times a move of the targets."""
        self.updates += 1
        self._metrics = None
        batch, following = self._seen(items)
        if self.sale is not None and self.encoder_optimiser is not None:
            # f, g <- argmin |g(f(s), a) - f(s')|^2
            self.encoder_loss = self.sale.encoder_gradients(batch, following)
            self._descend(self.encoder_optimiser, self.cfg.critic_lr)
        # y = r + gamma^n (1 - terminated) clip(min_i Q'_i(s', clip(pi'(s') + noise)), lowest y, highest y)
        self._target = self._bounded_target(batch)
        self.critic_loss = self.engine.critic_gradients(batch, self._target)
        self._descend(self.critic_optimiser, self.cfg.critic_lr)
        if self.updates > self.cfg.actor_after and self.updates % self.cfg.policy_delay == 0:
            self.actor_loss = self.engine.actor_gradients(batch)
            self._descend(self.actor_optimiser, self.cfg.actor_lr)
            if self.nets.average is not None:
                track(self.nets.average, self.nets.actor, 1 - self.cfg.actor_average)
        if self.updates % (self.cfg.target_every or self.cfg.policy_delay) == 0:
            self._move_targets()

    def _seen(self, items: Transition) -> tuple[Batch[Tensor], Tensor]:
        """The batch as the networks see it, and what followed one step later."""
        if self.sale is None and self.normaliser is None:
            return self.engine.tensors(items), torch.zeros(0)
        items, following = parted(items)
        if self.normaliser is not None:
            near = following is items.next_obs
            obs, next_obs = (self.normaliser(vectors(o)) for o in (items.obs, items.next_obs))
            following = next_obs if near else self.normaliser(following)
            items = dataclasses.replace(items, obs=obs, next_obs=next_obs)
        return self.engine.tensors(items), torch.from_numpy(following)

    def _bounded_target(self, batch: Batch[Tensor]) -> Tensor:
        reward = self._reward(batch.reward)
        target = self.engine.target(batch, reward, self._smoothing(batch.action))
        if self.bounds is None:
            return target
        return self.bounds.clip(target, reward, batch.discount * (1 - batch.terminated))

    def _move_targets(self) -> None:
        """Targets first: their frozen encoders are those that the online networks have seen through until now."""
        track(self.nets.target_critic, self.nets.critic, self.cfg.tau)
        track(self.nets.target_actor, self.nets.actor, self.cfg.tau)
        if self.sale is not None:
            self.sale.renew(self.cfg.tau)
        if self.bounds is not None:
            self.bounds.take_over()

    # ---- what replay asks for (LAP: Fujimoto et al. 2020) ----

    @property
    def lowest_priority(self) -> float | None:
        """Errors within the quadratic part of the Huber loss are drawn alike."""
        huber = self.cfg.huber
        return None if self.cfg.priority == 0 or huber is None else huber**self.cfg.priority

    def priorities(self) -> Array:
        """max(|error|, huber)^priority with the larger error of the two critics: [B]."""
        error = (self.engine.values - self._target).abs().amax(dim=0)
        found: Array = error.clamp(min=self.cfg.huber).pow(self.cfg.priority).numpy()
        return found

    # ---- what the trainer asks for ----

    @property
    def acting(self) -> nn.Module:
        acting = super().acting
        return acting if self.normaliser is None else self.normaliser.before(acting)

    def policy(self, *, explore: bool, rows: int, rng: np.random.Generator) -> Policy:
        cfg, policy = self.cfg, super().policy(explore=explore, rows=rows, rng=rng)
        if isinstance(policy, GaussianPolicy):
            new = policy.noise
            if cfg.expl_noise_draws > 1:
                values = self.networks.values(self.nets)
                new = HopefulNoise(values, cfg.expl_noise_draws, cfg.expl_noise_draws_share, rng)
            return PlusPolicy(policy, self.normaliser, HeldNoise(cfg.expl_noise_hold.steps, new))
        if self.normaliser is not None or cfg.expl_noise_hold.steps > 1 or cfg.expl_noise_draws > 1:
            raise ConfigError(
                "learner.normalise_obs, learner.expl_noise_hold and learner.expl_noise_draws do not go with "
                f"{type(policy).__name__}, the policy of these networks: leave them out"
            )
        return policy

    def writer(self, rows: int) -> TransitionWriter:
        cfg = self.cfg
        kind = FollowingWriter if self.sale is not None and cfg.n_step > 1 else TransitionWriter
        return kind(rows, self.observation_space, self.action_space, n_step=cfg.n_step, gamma=cfg.gamma)

    def metrics(self) -> Metrics:
        if self._metrics is not None:
            return self._metrics
        own = {} if self.sale is None else {"encoder/loss": float(self.encoder_loss)}
        return super().metrics() | own

    def first_bad(self) -> str | None:
        if bad := super().first_bad():
            return bad
        if self.sale is None or math.isfinite(float(self.encoder_loss + self.sale.encoder.grads.sum())):
            return None
        return "the loss or a gradient of the encoder"

    def state_dict(self) -> State:
        own: State = {}
        if self.sale is not None and self.encoder_optimiser is not None:
            own["encoder"] = self.sale.encoder.module.state_dict()
            own["encoder_optimiser"] = self.encoder_optimiser.state_dict()
        if self.bounds is not None:
            own["bounds"] = self.bounds.state_dict()
        if self.normaliser is not None:
            own["normaliser"] = self.normaliser.state_dict()
        return super().state_dict() | own

    def load_state_dict(self, state: State) -> None:
        engine = self.engine
        super().load_state_dict(state)
        if self.engine is not engine:
            self._embed()
        if self.sale is not None and self.encoder_optimiser is not None:
            load_module(self.sale.encoder.module, state["encoder"], "encoder")
            self.encoder_optimiser.load_state_dict(state["encoder_optimiser"])
        if self.bounds is not None:
            self.bounds.load_state_dict(state["bounds"])
        if self.normaliser is not None:
            self.normaliser.load_state_dict(state["normaliser"])

    def policy_state(self) -> State:
        own = {} if self.normaliser is None else {"normaliser": self.normaliser.state_dict()}
        return super().policy_state() | own

    def load_policy_state(self, state: State) -> None:
        super().load_policy_state(state)
        if self.normaliser is not None:
            self.normaliser.load_state_dict(state["normaliser"])


def _normaliser(space: AnySpace) -> Normaliser:
    return Normaliser(vector_size(space, "learner.normalise_obs needs observations", "set it to false"))
