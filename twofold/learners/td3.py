"""TD3 (Fujimoto, van Hoof, Meger 2018): twin critics, delayed policy updates, smoothed targets."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from twofold.base.errors import ConfigError
from twofold.base.foreign import AnySpace
from twofold.core.experience import Transition
from twofold.core.protocols import Metrics, Policy, State
from twofold.core.seeding import Generators
from twofold.core.writers import TransitionWriter
from twofold.learners.actor_critic import ActorCritic
from twofold.learners.config import TD3Config
from twofold.learners.nets import Nets
from twofold.nets.flat import Adam
from twofold.settings.registry import learners


@learners.register("td3", config=TD3Config)
class TD3:
    """Twin delayed deep deterministic policy gradient; with `twin`, `policy_delay`, `policy_noise` off, DDPG."""

    def __init__(
        self,
        cfg: TD3Config,
        *,
        networks: ActorCritic,
        observation_space: AnySpace,
        action_space: AnySpace,
        rngs: Generators,
    ) -> None:
        if not isinstance(networks, ActorCritic):
            raise ConfigError(f"TD3 needs networks with an actor and a critic, not {type(networks).__name__}")
        self.cfg, self.networks = cfg, networks
        self.observation_space, self.action_space = observation_space, action_space
        self.rng = rngs["smoothing"]
        self.updates = 0
        both = networks.actor().to(networks.place), networks.critic().to(networks.place)
        self.nets = Nets.of(*both, averaged=cfg.actor_average > 0)
        self.actor_optimiser = Adam(self.nets.actor, cfg.actor_lr, weight_decay=cfg.weight_decay)
        self.critic_optimiser = Adam(self.nets.critic, cfg.critic_lr, weight_decay=cfg.weight_decay)
        self.engine = networks.engine(self.nets, cfg, self.rng)
        self.critic_loss = self.actor_loss = self.nets.critic.values.new_zeros(())
        self._metrics: Metrics | None = None  # of the last update before a resume

    # ---- the algorithm ----

    def update(self, items: Transition) -> None:
        """One update of the critics, and every `policy_delay` of them one of the policy and the targets."""
        self.updates += 1
        self._metrics = None
        batch = self.engine.tensors(items)
        # y = r + gamma^n (1 - terminated) min_i Q'_i(s', clip(pi'(s') + clip(eps, -c, c), -1, 1))
        y = self.engine.target(batch, self._reward(batch.reward), self._smoothing(batch.action))
        # theta_i <- argmin 1/N sum (y - Q_i(s, a))^2
        self.critic_loss = self.engine.critic_gradients(batch, y)
        self._descend(self.critic_optimiser, self.cfg.critic_lr)
        if self.updates % self.cfg.policy_delay == 0:
            # phi <- argmax 1/N sum Q_1(s, pi(s))
            self.actor_loss = self.engine.actor_gradients(batch)
            self._descend(self.actor_optimiser, self.cfg.actor_lr)
            # theta' <- tau theta + (1 - tau) theta', phi' likewise
            self.engine.track(self.cfg.tau, self.cfg.actor_average)

    def _reward(self, reward: Tensor) -> Tensor:
        """The reward as it is learned from."""
        if self.cfg.reward_scale != 1:
            reward = reward * self.cfg.reward_scale
        floor = self.cfg.reward_floor
        return reward if floor is None else reward.clamp(min=floor(self.updates))

    def _smoothing(self, action: Tensor) -> Tensor | None:
        """Clipped noise for the target action: similar actions should have similar values."""
        if self.cfg.policy_noise == 0:
            return None
        noise = self.rng.standard_normal(action.shape, dtype=np.float32) * np.float32(self.cfg.policy_noise)
        return torch.from_numpy(noise.clip(-self.cfg.noise_clip, self.cfg.noise_clip))

    def _descend(self, optimiser: Adam, lr: float) -> None:
        optimiser.lr = lr * self.cfg.lr_decay(self.updates)
        self.engine.descend(optimiser, self.cfg.grad_clip)

    # ---- what the trainer asks for ----

    @property
    def engine_name(self) -> str:
        return self.engine.name

    @property
    def acting(self) -> nn.Module:
        """The network that acts when it counts."""
        return self.nets.acting

    def policy(self, *, explore: bool, rows: int, rng: np.random.Generator) -> Policy:
        return self.networks.policy(self.nets, self.cfg, explore=explore, rows=rows, rng=rng)

    def writer(self, rows: int) -> TransitionWriter:
        cfg = self.cfg
        return TransitionWriter(
            rows, self.observation_space, self.action_space, n_step=cfg.n_step, gamma=cfg.gamma
        )

    def metrics(self) -> Metrics:
        if self._metrics is not None:
            return self._metrics
        values = self.engine.values
        return {
            "critic/loss": float(self.critic_loss),
            "critic/q_mean": float(values[0].mean()),
            "critic/q_max": float(values[0].max()),
            "actor/loss": float(self.actor_loss),
        }

    def first_bad(self) -> str | None:
        """One sum over each gradient keeps every NaN and infinity in it."""
        nets = self.nets
        total = float(self.critic_loss) + float(self.actor_loss) + self.engine.gradient_sum()
        if math.isfinite(total):
            return None
        named: dict[str, Tensor | None] = {"critic loss": self.critic_loss, "actor loss": self.actor_loss}
        for name, flat in (("critic", nets.critic), ("actor", nets.actor)):
            named |= {f"gradient of {name}.{n}": p.grad for n, p in flat.module.named_parameters()}
        bad = (name for name, value in named.items() if value is not None and not torch.isfinite(value).all())
        return next(bad, "a gradient")

    def state_dict(self) -> State:
        return self.nets.state_dict() | {
            "actor_optimiser": self.actor_optimiser.state_dict(),
            "critic_optimiser": self.critic_optimiser.state_dict(),
            "updates": self.updates,
            "engine": self.engine.name,
            "metrics": self.metrics() if self.updates else {},
        }

    def load_state_dict(self, state: State) -> None:
        # Engines agree to rounding only: a run goes on with the one it began with, unless another is asked for.
        began = state.get("engine", "fused" if self.engine.name == "native" else self.engine.name)
        if self.cfg.engine == "auto" and began != self.engine.name:
            self.engine = self.networks.engine(self.nets, replace(self.cfg, engine=began), self.rng)
        self.nets.load_state_dict(state)
        self.actor_optimiser.load_state_dict(state["actor_optimiser"])
        self.critic_optimiser.load_state_dict(state["critic_optimiser"])
        self.updates = int(state["updates"])
        self._metrics = state["metrics"]
        last = float(self._metrics.get("actor/loss", 0.0))  # not of every update
        self.actor_loss = torch.tensor(last, dtype=torch.float64)

    def policy_state(self) -> State:
        return self.networks.policy_state(self.nets)

    def load_policy_state(self, state: State) -> None:
        self.networks.load_policy_state(self.nets, state)
