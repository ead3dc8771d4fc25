"""Files of earlier versions: what their settings are called now."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from twofold.base.errors import CheckpointError
from twofold.base.values import Values

_GONE = (
    "learner.drop_quantiles",
    "learner.expl_noise_schedule",
    "learner.lr_floor",
    "learner.normalise_obs",
    "networks.critic_outputs",
    "replay.alpha",
    "replay.min_priority",
    "replay.sampling",
    "trainer.best_by",
)
_GONE_OF = {"control/walker": ("env_args.fall_penalty", "env_args.torque_cost")}
_MOVED = {
    "learner.expl_noise_floor": "learner.expl_noise.end",
    "learner.expl_noise_over": "learner.expl_noise.over",
    "learner.expl_noise_per": "learner.expl_noise.per",
    "learner.lr_decay_from": "learner.lr_decay.after",
    "learner.lr_decay_over": "learner.lr_decay.over",
    "learner.reward_floor_end": "learner.reward_floor.end",
    "learner.reward_floor_from": "learner.reward_floor.after",
    "learner.reward_floor_over": "learner.reward_floor.over",
}


_WERE_OFF = ("learner.reward_unit",)  # came and went within format 2


def without_gone(values: Mapping[str, object]) -> Values:
    """The settings of format 2 without those that are gone and were off: they did nothing."""
    return {key: value for key, value in values.items() if key not in _WERE_OFF or value}


def refuse_what_is_gone(values: Mapping[str, object], path: Path) -> None:
    """A policy of format 1 that needs what this version has no more cannot act as it did."""
    outputs = values.get("networks.critic_outputs", 1)
    gone = ["learner.normalise_obs"] if values.get("learner.normalise_obs") else []
    gone += ["networks.critic_outputs"] if outputs != 1 else []
    if gone:
        raise CheckpointError(f"{path} has policy format 1 with {gone[0]}: only twofold 0.1 reads that")


def _nested(value: object) -> object:
    """A dictionary of settings that was kept by dotted names, as groups."""
    if not isinstance(value, dict) or not all("." in str(key) for key in value):
        return value
    groups: dict[str, Values] = {}
    for key, inner in value.items():
        name, _, rest = key.partition(".")
        groups.setdefault(name, {})[rest] = inner
    return groups


def from_format_1(values: Mapping[str, object]) -> Values:
    """The settings of format 1 under their present names; those that are gone are left out."""
    gone = _GONE + _GONE_OF.get(str(values.get("env")), ())
    new = {_MOVED.get(key, key): _nested(value) for key, value in values.items() if key not in gone}
    shape = values.get("learner.expl_noise_schedule", "constant")
    if "learner.expl_noise" in new:
        new["learner.expl_noise.start"] = new.pop("learner.expl_noise")
        new["learner.expl_noise.shape"] = "linear" if shape == "constant" else shape
    if shape == "constant":
        new["learner.expl_noise.end"] = None
    if values.get("learner.lr_floor", 1.0) != 1.0:
        new |= {"learner.lr_decay.end": values["learner.lr_floor"], "learner.lr_decay.per": "update"}
    if "learner.reward_floor" in new:
        start = new.pop("learner.reward_floor")
        new |= {"learner.reward_floor.start": start, "learner.reward_floor.per": "update"}
        if start is None:
            new = {k: v for k, v in new.items() if not k.startswith("learner.reward_floor.")}
    return new
