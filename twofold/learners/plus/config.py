"""The settings of TD3 with what was found since."""

from __future__ import annotations

import dataclasses
from typing import Annotated

from pydantic import Field

from twofold.base.errors import ConfigError
from twofold.base.setting import setting, settings
from twofold.core.schedules import Span
from twofold.learners.config import TD3Config

Beta = Annotated[float, Field(ge=0, lt=1)]


@settings
class PlusConfig(TD3Config):
    """TD3's, and parts that are off unless they are set: then it is TD3."""

    target_every: int | None = setting(
        "updates between two moves of the targets by `tau`; null: with each policy update",
        default=None,
        gt=0,
        unit="updates",
    )
    actor_after: int = setting(
        "updates that the critics have before the actor begins to learn", default=0, ge=0, unit="updates"
    )
    value_clip: bool = setting(
        "targets bootstrap from no value beyond the extremes that targets had at the last move of the targets",
        default=False,
    )
    priority: float = setting(
        "exponent of an item's TD error in its share of batches (LAP); 0: all alike", default=0.0, ge=0, le=1
    )
    normalise_obs: bool = setting(
        "observations in running standard deviations from their mean",
        default=False,
        aliases=("normalize_obs",),
    )
    expl_noise_actions: int | None = setting(
        "with more actions than this `expl_noise` is smaller, by the square of their ratio; null: never",
        default=None,
        gt=0,
    )
    expl_noise_hold: Span = setting("how long exploration noise is held", default=Span(1))
    expl_noise_draws: int = setting(
        "number of noise samples, of which the one with the largest max(Q1, Q2) is taken; 1: plain noise",
        default=1,
        gt=0,
        le=1_000,
    )
    expl_noise_draws_share: float = setting(
        "share of the noise that is taken so; the rest is plain, so that critics see what they do not hope for",
        default=1.0,
        gt=0,
        le=1,
    )
    adam_betas: tuple[Beta, Beta] = setting("of all optimisers", default=(0.9, 0.999))

    def for_actions(self, actions: int) -> PlusConfig:
        """The settings for a world with this number of actions: every noisy one costs, and any can make a body fall."""
        if self.expl_noise_actions is None or actions <= self.expl_noise_actions:
            return self
        share, noise = (self.expl_noise_actions / actions) ** 2, self.expl_noise
        end = None if noise.end is None else share * noise.end
        return dataclasses.replace(
            self, expl_noise=dataclasses.replace(noise, start=share * noise.start, end=end)
        )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.priority > 0 and self.huber is None:
            # Drawn by the error and squared, an error counts cubed: one outlier is the batch (Fujimoto et al. 2020).
            raise ConfigError(
                "learner.priority needs the Huber loss: set learner.huber=1.0 as well, or learner.priority=0"
            )
        if self.value_clip and self.target_every is None:
            raise ConfigError(
                "learner.value_clip is renewed when the targets move: set learner.target_every as well, "
                "for example to 250"
            )
