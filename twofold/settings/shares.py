"""Settings given as shares of a run or in seconds, counted for the run at hand: so a recipe is the same elsewhere."""

from __future__ import annotations

import dataclasses

from twofold.core.protocols import Clocked, World
from twofold.core.schedules import Schedule, Span
from twofold.core.trainer import TrainerConfig
from twofold.settings.config import Config
from twofold.settings.schema import schema_of


def counted(config: Config, world: World) -> Config:
    """The config whose learner's shares of the run and spans in seconds are counted in updates and steps."""
    learner = config.learner
    assert dataclasses.is_dataclass(learner) and not isinstance(learner, type)  # as all settings are
    found = {field.name: getattr(learner, field.name) for field in dataclasses.fields(learner)}
    shares = {k: v for k, v in found.items() if isinstance(v, Schedule) and v.per == "run"}
    spans = {k: v for k, v in found.items() if isinstance(v, Span) and v.seconds is not None}
    if not shares and not spans:
        return config
    defaults = {name: group.default for name, group in schema_of(type(learner)).groups.items()}
    counts: dict[str, Schedule | Span] = {
        name: _counted(v, defaults[name], config.trainer) for name, v in shares.items()
    }
    step_seconds = world.step_seconds if isinstance(world, Clocked) else None
    counts |= {name: span.counted(step_seconds) for name, span in spans.items()}
    return dataclasses.replace(config, learner=dataclasses.replace(learner, **counts))


def _counted(schedule: Schedule, default: object, trainer: TrainerConfig) -> Schedule:
    """Counted as the setting's default is, which says how the learner asks; in updates if it has none."""
    per = default.per if isinstance(default, Schedule) else "update"
    whole = max(trainer.steps - trainer.warmup, 1) * (trainer.updates_per_item if per == "update" else 1.0)
    return dataclasses.replace(
        schedule, after=schedule.after * whole, over=max(schedule.over * whole, 1.0), per=per
    )
