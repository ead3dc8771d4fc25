"""Transitions that also know what came one step later, where their next observation is several steps away."""

from __future__ import annotations

import dataclasses

from twofold.base.errors import WorldError
from twofold.core.experience import Array, Obs, Steps, Transition, Written
from twofold.core.writers import TransitionWriter

NOW, FOLLOWING = "now", "following"


class FollowingWriter(TransitionWriter):
    """n-step transitions whose `obs` is {now, following}: embeddings predict one step, returns sum several."""

    def blank(self) -> Transition:
        plain = super().blank()
        return dataclasses.replace(plain, obs={NOW: vectors(plain.obs), FOLLOWING: vectors(plain.next_obs)})

    def step(self, steps: Steps) -> Written[Transition] | None:
        obs: Obs = {NOW: vectors(steps.obs), FOLLOWING: vectors(steps.next_obs)}
        return super().step(dataclasses.replace(steps, obs=obs))


def parted(items: Transition) -> tuple[Transition, Array]:
    """Plain transitions, and the observations [B, o] that followed one step later."""
    if isinstance(items.obs, dict):
        return dataclasses.replace(items, obs=items.obs[NOW]), items.obs[FOLLOWING]
    return items, vectors(items.next_obs)


def vectors(obs: Obs) -> Array:
    """The observation of a world whose observations are vectors [N, o]."""
    if isinstance(obs, dict):
        raise WorldError(f"observations that are vectors were expected, this world names {', '.join(obs)}")
    return obs
