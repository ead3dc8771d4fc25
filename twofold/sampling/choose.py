"""Which replay a run gets."""

from __future__ import annotations

from typing import cast

import numpy as np

from twofold.base.errors import ConfigError
from twofold.core.experience import Item, Transition
from twofold.core.protocols import Learner
from twofold.core.replay import ReplayConfig, Ring
from twofold.sampling.mixed import MixedRing
from twofold.sampling.prioritised import PrioritisedRing, Prioritises


def make_replay(
    cfg: ReplayConfig, learner: Learner[Item], blank: Item, rng: np.random.Generator
) -> Ring[Item]:
    """The replay that the settings and the learner ask for; `blank` is an item of the learner's writer."""
    lowest = learner.lowest_priority if isinstance(learner, Prioritises) else None
    if cfg.recent_share == cfg.ending_share == 0 and lowest is None:
        return Ring(cfg.buffer_size, blank, rng, replace=cfg.replace)
    if not isinstance(blank, Transition):
        raise ConfigError("replay.recent_share and replay.ending_share are for learners of transitions")
    if lowest is None:
        return cast(Ring[Item], MixedRing(cfg.buffer_size, blank, rng, cfg))  # the item is a Transition here
    if not cfg.replace:
        raise ConfigError(
            "replay.replace=false draws all items equally often: set it to true, or learner.priority=0"
        )
    return cast(Ring[Item], PrioritisedRing(cfg.buffer_size, blank, rng, cfg, lowest))
