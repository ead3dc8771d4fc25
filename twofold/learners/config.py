"""The settings of TD3."""

from __future__ import annotations

from typing import Literal

from twofold.base.errors import ConfigError
from twofold.base.setting import setting, settings
from twofold.core.schedules import Schedule, Span

EngineName = Literal["auto", "native", "fused", "autograd"]


@settings
class TD3Config:
    """The paper's, and what presets of ours add."""

    actor_lr: float = setting("learning rate of the actor", default=3e-4, gt=0, aliases=("pi_lr",))
    critic_lr: float = setting("learning rate of the critics", default=3e-4, gt=0, aliases=("q_lr",))
    lr_decay: Schedule = setting("factor on both learning rates", default=Schedule(1.0, per="update"))
    gamma: float = setting(
        "discount of a reward one step later", default=0.99, ge=0, le=1, aliases=("discount",)
    )
    tau: float = setting(
        "share of the online weights mixed into the targets per policy update", default=0.005, gt=0, le=1
    )
    policy_noise: float = setting(
        "noise that smooths target actions (std)", default=0.2, ge=0, aliases=("target_noise",)
    )
    noise_clip: float = setting("largest smoothing noise", default=0.5, ge=0)
    policy_delay: int = setting(
        "critic updates per policy update", default=2, gt=0, aliases=("policy_freq", "update_actor_freq")
    )
    twin: bool = setting("false: the target uses the first critic alone (DDPG)", default=True)
    n_step: int = setting(
        "n-step returns: rewards summed before bootstrapping", default=1, gt=0, unit="steps"
    )
    expl_noise: Schedule = setting(
        "standard deviation of the exploration noise",
        default=Schedule(0.1),
        aliases=("exploration_noise", "explore_eps"),
    )
    expl_noise_drawn: bool = setting(
        "every episode draws its own noise from U(0, the schedule's value)", default=False
    )
    warmup_hold: Span = setting("how long a random action of the warm-up is held", default=Span(1))
    actor_average: float = setting(
        "decay of an averaged actor, which then acts in evaluation and is what is kept; 0: none",
        default=0.0,
        ge=0,
        lt=1,
    )
    huber: float | None = setting(
        "Huber loss with this threshold in place of the squared error", default=None, gt=0
    )
    grad_clip: float | None = setting("largest global norm of a network's gradient", default=None, gt=0)
    weight_decay: float = setting("decoupled weight decay of both networks", default=0.0, ge=0)
    reward_scale: float = setting(
        "factor on rewards inside the learner; reported returns are raw", default=1.0, gt=0
    )
    reward_floor: Schedule | None = setting(
        "a lower (n-step) reward counts as this: a fall's -100 drowns all else", default=None
    )
    engine: EngineName = setting("how updates are computed; auto: the fastest available", default="auto")

    def __post_init__(self) -> None:
        for name, schedule in (("lr_decay", self.lr_decay), ("reward_floor", self.reward_floor)):
            if schedule is not None and schedule.end is not None and schedule.per not in ("update", "run"):
                raise ConfigError(f"learner.{name}.per must be update or run, got {schedule.per}")
        if self.expl_noise.end is not None and self.expl_noise.per == "update":
            raise ConfigError("learner.expl_noise.per must be step, episode or run, got update")
        if min(self.expl_noise.start, self.expl_noise.end or 0.0) < 0:
            raise ConfigError("learner.expl_noise must not be negative")
        if not 0 < self.lr_decay.start <= 1 or not 0 < (self.lr_decay.end or 1.0) <= 1:
            raise ConfigError("learner.lr_decay is a share: above 0 and at most 1")
