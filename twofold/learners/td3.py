"""TD3 (Fujimoto, van Hoof, Meger 2018): twin critics, delayed policy updates, smoothed targets."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from twofold.core import tree
from twofold.core.errors import ConfigError
from twofold.core.experience import Array, Transition
from twofold.core.protocols import Metrics, State
from twofold.core.schedules import Schedule
from twofold.core.seeding import Generators
from twofold.core.writers import TransitionWriter
from twofold.learners.gradients import Autograd, Quantiles
from twofold.learners.policy import TD3Policy
from twofold.nets.flat import Adam, Flat
from twofold.nets.fused import FusedTD3, supports
from twofold.nets.normaliser import Normaliser
from twofold.nets.target import copy_of, track
from twofold.settings.registry import learners


@dataclass(frozen=True)
class TD3Config:
    actor_lr: float = field(default=3e-4, metadata={"aliases": ("pi_lr",)})
    critic_lr: float = field(default=3e-4, metadata={"aliases": ("q_lr",)})
    gamma: float = field(default=0.99, metadata={"aliases": ("discount",)})
    tau: float = 0.005  # share of the online weights mixed into the targets, each time the policy is updated
    policy_noise: float = field(
        default=0.2, metadata={"aliases": ("target_noise",)}
    )  # smooths target actions
    noise_clip: float = 0.5
    policy_delay: int = field(default=2, metadata={"aliases": ("policy_freq", "update_actor_freq")})
    twin: bool = True  # False: the target uses the first critic alone (DDPG)
    n_step: int = 1
    expl_noise: float = field(default=0.1, metadata={"aliases": ("exploration_noise", "explore_eps")})
    expl_noise_schedule: Literal["constant", "linear", "exponential"] = "constant"
    expl_noise_floor: float = 0.05  # where a linear or exponential schedule ends
    expl_noise_over: int = 1_000_000  # steps or episodes until the floor
    expl_noise_per: Literal["step", "episode"] = "step"
    expl_noise_drawn: bool = False  # every episode draws its own noise from U(0, the schedule's value)
    warmup_hold: int = 1  # steps that a random action of the warm-up is held
    lr_floor: float = 1.0  # the learning rates end at this share of their start, ...
    lr_decay_from: int = 0  # ... falling linearly from this update on ...
    lr_decay_over: int = 1_000_000  # ... over so many updates
    actor_average: float = (
        0.0  # decay of an averaged actor, which then acts in evaluation and is what is kept
    )
    drop_quantiles: int = (
        2  # with networks.critic_outputs > 1: highest quantiles dropped from the target, per critic
    )
    huber: float | None = None  # Huber loss with this threshold in place of the squared error
    grad_clip: float | None = None  # largest global norm of a network's gradient
    weight_decay: float = 0.0  # decoupled, both networks
    reward_scale: float = 1.0  # inside the learner only; reported returns are raw
    reward_floor: float | None = None  # a lower (n-step) reward counts as this: a fall's -100 drowns all else
    reward_floor_end: float | None = None  # where the floor ends, sinking linearly ...
    reward_floor_from: int = 0  # ... from this update on ...
    reward_floor_over: int = 1_000_000  # ... over so many updates
    normalise_obs: bool = field(default=False, metadata={"aliases": ("normalize_obs",)})
    engine: Literal["auto", "fused", "autograd"] = "auto"

    def __post_init__(self) -> None:
        if self.reward_floor is None and self.reward_floor_end is not None:
            raise ConfigError("learner.reward_floor_end needs learner.reward_floor, where it starts")
        if not (0 <= self.gamma <= 1 and 0 < self.tau <= 1):
            raise ConfigError(
                f"learner.gamma must be in [0, 1] and learner.tau in (0, 1], got {self.gamma} and {self.tau}"
            )
        positive = ("actor_lr", "critic_lr", "policy_delay", "n_step", "reward_scale", "expl_noise_over")
        for name in (*positive, "warmup_hold", "lr_floor", "lr_decay_over", "reward_floor_over"):
            if getattr(self, name) <= 0:
                raise ConfigError(f"learner.{name} must be above 0, got {getattr(self, name)}")
        for name in ("policy_noise", "noise_clip", "expl_noise", "expl_noise_floor", "weight_decay"):
            if getattr(self, name) < 0:
                raise ConfigError(f"learner.{name} must not be negative, got {getattr(self, name)}")
        if not 0 <= self.actor_average < 1 or self.lr_floor > 1 or self.drop_quantiles < 0:
            raise ConfigError(
                "learner.actor_average must be in [0, 1), lr_floor in (0, 1] and drop_quantiles at least 0"
            )
        if (self.huber is not None and self.huber <= 0) or (
            self.grad_clip is not None and self.grad_clip <= 0
        ):
            raise ConfigError("learner.huber and learner.grad_clip must be above 0, or null for none")


@learners.register("td3", config=TD3Config)
class TD3:
    """Twin delayed deep deterministic policy gradient; with `twin`, `policy_delay`, `policy_noise` off, DDPG."""

    def __init__(
        self, cfg: TD3Config, *, networks: Any, observation_space: Any, action_space: Any, rngs: Generators
    ) -> None:
        self.cfg, self.observation_space, self.action_space = cfg, observation_space, action_space
        self.rng = rngs["smoothing"]
        self.updates = 0
        # Worlds with few valid actions bring a chooser: from the actor's free action to the one that is taken.
        self.chooser: Any = getattr(networks, "chooser", None)
        self.actor, self.critic = Flat(networks.actor()), Flat(networks.critic())
        self.target_actor = Flat(copy_of(self.actor.module))
        self.target_critic = Flat(copy_of(self.critic.module))
        self.average = Flat(copy_of(self.actor.module)) if cfg.actor_average else None
        self.lr = Schedule("linear", 1.0, cfg.lr_floor, cfg.lr_decay_over)
        self.floor = _floor(cfg)
        self.actor_optimiser = Adam(self.actor, cfg.actor_lr, weight_decay=cfg.weight_decay)
        self.critic_optimiser = Adam(self.critic, cfg.critic_lr, weight_decay=cfg.weight_decay)
        self.normaliser = self._normaliser() if cfg.normalise_obs else None
        self.engine: Any = self._engine(networks)
        self._look = getattr(self.engine, "look", _as_tensors)
        self.critic_loss = self.actor_loss = torch.zeros(())
        self._metrics: Metrics | None = None  # of the last update before a resume

    # ---- the algorithm ----

    def update(self, batch: Transition) -> None:
        """One update of the critics, and every `policy_delay` of them one of the policy and the targets."""
        self.updates += 1
        self._metrics = None
        obs, next_obs, action, reward, discount, terminated = self._tensors(batch)
        target = self.engine.target(next_obs, reward, discount, terminated, self._smoothing(action))
        self.critic_loss = self.engine.critic_gradients(obs, action, target, huber=self.cfg.huber)
        self._descend(self.critic, self.critic_optimiser)
        if self.updates % self.cfg.policy_delay == 0:
            self.actor_loss = self.engine.actor_gradients(obs)
            self._descend(self.actor, self.actor_optimiser)
            track(self.target_critic, self.critic, self.cfg.tau)
            track(self.target_actor, self.actor, self.cfg.tau)
            if self.average is not None:
                track(self.average, self.actor, 1 - self.cfg.actor_average)

    def _smoothing(self, action: Tensor) -> Tensor | None:
        """Clipped noise for the target action: similar actions should have similar values."""
        if self.cfg.policy_noise == 0:
            return None
        noise = self.rng.standard_normal(action.shape, dtype=np.float32) * np.float32(self.cfg.policy_noise)
        return torch.from_numpy(noise.clip(-self.cfg.noise_clip, self.cfg.noise_clip))

    def _descend(self, flat: Flat, optimiser: Adam) -> None:
        if self.cfg.grad_clip is not None:
            flat.clip_(self.cfg.grad_clip)
        start = self.cfg.actor_lr if flat is self.actor else self.cfg.critic_lr
        optimiser.lr = start * self.lr(self.updates - self.cfg.lr_decay_from)
        optimiser.step()

    def _tensors(self, batch: Transition) -> tuple[Any, Any, Tensor, Tensor, Tensor, Tensor]:
        """The batch as tensors on the same memory, normalised and scaled as the settings say."""
        obs, next_obs = self._look(batch.obs, batch.next_obs)
        if self.normaliser is not None:
            obs, next_obs = self.normaliser.tensor(obs), self.normaliser.tensor(next_obs)
        reward = torch.from_numpy(batch.reward)
        if self.cfg.reward_scale != 1:
            reward = reward * self.cfg.reward_scale
        if self.floor is not None:
            reward = reward.clamp(min=self.floor(self.updates - self.cfg.reward_floor_from))
        rest = (torch.from_numpy(x) for x in (batch.action, batch.discount, batch.terminated))
        action, discount, terminated = rest
        return obs, next_obs, action, reward, discount, terminated

    def _engine(self, networks: Any) -> Any:
        """Hand-derived gradients for plain MLPs and networks that bring their own, autograd for everything else."""
        parts = (self.actor, self.critic, self.target_actor, self.target_critic)
        if hasattr(networks, "engine") and self.cfg.engine != "autograd":
            return networks.engine(*parts, twin=self.cfg.twin, rng=self.rng)
        if getattr(networks, "draws", False):
            raise ConfigError(
                "learner.engine=autograd draws no dropout; use engine=auto or networks.dropout_rate=0"
            )
        fits = supports(self.actor.module, self.critic.module) and self.cfg.twin and self.chooser is None
        if self.cfg.engine == "fused" and not fits:
            raise ConfigError("learner.engine=fused needs plain MLPs and twin critics; use engine=auto")
        if getattr(self.critic.module, "outputs", 1) > 1:
            return Quantiles(*parts, drop=self.cfg.drop_quantiles)
        if not fits or self.cfg.engine == "autograd":
            return Autograd(*parts, twin=self.cfg.twin, chooser=self.chooser)
        return FusedTD3(*parts, batch_size=256)

    def _normaliser(self) -> Normaliser:
        if len(getattr(self.observation_space, "shape", None) or ()) != 1:
            raise ConfigError("learner.normalise_obs needs observations that are a vector")
        return Normaliser(self.observation_space.shape[0])

    # ---- what the trainer asks for ----

    @property
    def acting(self) -> nn.Module:
        """The network that acts when it counts: the averaged actor, if there is one."""
        return (self.actor if self.average is None else self.average).module

    def policy(self, *, explore: bool, rows: int, rng: np.random.Generator) -> TD3Policy:
        return TD3Policy(self, explore=explore, rows=rows, rng=rng)

    def writer(self, rows: int) -> TransitionWriter:
        cfg = self.cfg
        return TransitionWriter(
            rows, self.observation_space, self.action_space, n_step=cfg.n_step, gamma=cfg.gamma
        )

    def td_error(self) -> Array:
        """Largest error of the two critics for each item of the last batch, for prioritised replay."""
        return self.engine.errors().abs().amax(dim=0).numpy()  # type: ignore[no-any-return]

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
        total = self.critic_loss + self.actor_loss + self.critic.grads.sum() + self.actor.grads.sum()
        if math.isfinite(float(total)):
            return None
        named: dict[str, Any] = {"critic loss": self.critic_loss, "actor loss": self.actor_loss}
        for name, flat in (("critic", self.critic), ("actor", self.actor)):
            named |= {f"gradient of {name}.{n}": p.grad for n, p in flat.module.named_parameters()}
        return next((name for name, value in named.items() if not torch.isfinite(value).all()), "a gradient")

    def state_dict(self) -> State:
        parts = {name: getattr(self, name).module.state_dict() for name in _NETWORKS}
        parts["average"] = None if self.average is None else self.average.module.state_dict()
        parts |= {name: getattr(self, name).state_dict() for name in ("actor_optimiser", "critic_optimiser")}
        normaliser = None if self.normaliser is None else self.normaliser.state_dict()
        smoothing = self.rng.bit_generator.state
        parts |= {"updates": self.updates, "normaliser": normaliser, "smoothing": smoothing}
        return parts | {"metrics": self.metrics() if self.updates else {}}

    def load_state_dict(self, state: State) -> None:
        for name in _NETWORKS:
            load_module(getattr(self, name).module, state[name], name)
        if self.average is not None:
            load_module(self.average.module, state["average"], "average")
        for name in ("actor_optimiser", "critic_optimiser"):
            getattr(self, name).load_state_dict(tree.map(_tensor, state[name]))
        if self.normaliser is not None:
            self.normaliser.load_state_dict(state["normaliser"])
        self.rng.bit_generator.state = state["smoothing"]
        self.updates = int(state["updates"])
        self._metrics = state["metrics"]

    def policy_state(self) -> State:
        normaliser = None if self.normaliser is None else self.normaliser.state_dict()
        state = {"actor": self.acting.state_dict(), "normaliser": normaliser}
        if self.chooser is not None:  # it asks the critic
            state |= {"critic": self.critic.module.state_dict(), "chooser": self.chooser.state_dict()}
        return state

    def load_policy_state(self, state: State) -> None:
        load_module(self.acting, state["actor"], "actor")
        if self.normaliser is not None:
            self.normaliser.load_state_dict(state["normaliser"])
        if self.chooser is not None:
            load_module(self.critic.module, state["critic"], "critic")
            self.chooser.load_state_dict(state["chooser"])


_NETWORKS = ("actor", "critic", "target_actor", "target_critic")


def _floor(cfg: TD3Config) -> Schedule | None:
    if cfg.reward_floor is None:
        return None
    end = cfg.reward_floor if cfg.reward_floor_end is None else cfg.reward_floor_end
    return Schedule("linear", cfg.reward_floor, end, cfg.reward_floor_over)


def _as_tensors(obs: Any, next_obs: Any) -> tuple[Any, Any]:
    return tree.map(torch.from_numpy, obs), tree.map(torch.from_numpy, next_obs)


def _tensor(value: Any) -> Any:
    return torch.from_numpy(np.array(value)) if isinstance(value, np.ndarray) else value


def load_module(module: nn.Module, state: State, name: str) -> None:
    """Copy saved arrays into a module; another shape is the user's mistake and is named."""
    wanted = {k: tuple(v.shape) for k, v in module.state_dict().items()}
    given = {k: tuple(v.shape) for k, v in state.items()}
    for key in [*wanted, *given]:
        if wanted.get(key) != given.get(key):
            raise ConfigError(
                f"{name}.{key} is {given.get(key)} in the file and {wanted.get(key)} here: the policy was trained "
                "for another world or other networks"
            )
    module.load_state_dict({key: _tensor(value) for key, value in state.items()})
