"""Schedules given as shares of a run, counted for the run at hand: a longer run is not another recipe."""

from __future__ import annotations

import dataclasses

from twofold.core.schedules import Schedule
from twofold.core.trainer import TrainerConfig
from twofold.settings.config import Config
from twofold.settings.schema import schema_of


def counted(config: Config) -> Config:
    """The config whose learner's schedules with `per: run` are counted in the steps or updates of this run."""
    learner = config.learner
    assert dataclasses.is_dataclass(learner) and not isinstance(learner, type)  # as all settings are
    found = {field.name: getattr(learner, field.name) for field in dataclasses.fields(learner)}
    shares = {k: v for k, v in found.items() if isinstance(v, Schedule) and v.per == "run"}
    if not shares:
        return config
    defaults = {name: group.default for name, group in schema_of(type(learner)).groups.items()}
    counts = {name: _counted(v, defaults[name], config.trainer) for name, v in shares.items()}
    return dataclasses.replace(config, learner=dataclasses.replace(learner, **counts))


def _counted(schedule: Schedule, default: object, trainer: TrainerConfig) -> Schedule:
    """Counted as the setting's default is, which says how the learner asks; in updates if it has none."""
    per = default.per if isinstance(default, Schedule) else "update"
    whole = max(trainer.steps - trainer.warmup, 1) * (trainer.updates_per_item if per == "update" else 1.0)
    return dataclasses.replace(
        schedule, after=schedule.after * whole, over=max(schedule.over * whole, 1.0), per=per
    )
