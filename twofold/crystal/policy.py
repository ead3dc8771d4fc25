"""The shipped policy of the flagship: a small MLP computed by numpy, so that relaxing needs no torch."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from twofold.base.errors import CheckpointError
from twofold.core.experience import Array
from twofold.crystal.features import NAMES, features
from twofold.crystal.spring import SCALARS, Scalars, SpringStep

WEIGHTS = Path(__file__).parent / "weights"
DEFAULT = "td3_crystal"
# Trained on metals only; on oxides it lost to the prior (it gives up the secant history that they need).
NONMETALS = (1, 2, 5, 6, 7, 8, 9, 10, 14, 15, 16, 17, 18, 32, 33, 34, 35, 36, 51, 52, 53, 54, 85, 86)


class SpringPolicy:
    """features -> the six scalars of a step."""

    def __init__(self, layers: list[Array]) -> None:
        if layers[0].shape[0] != len(NAMES) + 1 or layers[-1].shape[1] != len(SCALARS):
            raise CheckpointError("these weights are for other features or scalars than this version's")
        self.layers = layers

    def act(self, observation: Array) -> Array:
        """The action in [-1, 1]^6 for features [22]; the last row of each layer is its bias."""
        x = np.asarray(observation, np.float32)
        for layer in self.layers[:-1]:
            x = np.maximum(x @ layer[:-1] + layer[-1], 0.0)
        return np.tanh(x @ self.layers[-1][:-1] + self.layers[-1][-1])

    def scalars(self, step: SpringStep, fmax: float) -> Scalars:
        """What to set for the next proposal; crystals with nonmetals are outside the training and get the prior."""
        if np.isin(step.memory.points[-1].bonds.frame.atoms.numbers, NONMETALS).any():
            return Scalars()
        return Scalars.of(self.act(features(step, fmax)))


def load_weights(path: str | Path) -> SpringPolicy:
    """A policy from a weights file: layer0, layer1, ... as matrices [inputs + 1, outputs]."""
    try:
        arrays = load_file(path)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"cannot read the policy weights {path}: {error}") from None
    names = sorted(arrays)
    if not names or names != [f"layer{i}" for i in range(len(names))]:
        raise CheckpointError(f"{path} holds no policy of the spring step")
    return SpringPolicy([arrays[name] for name in names])


@lru_cache(maxsize=2)
def shipped(name: str = DEFAULT) -> SpringPolicy:
    """The policy inside the package."""
    return load_weights(WEIGHTS / f"{name}.safetensors")


def export_weights(policy_state: dict[str, Any], path: Path) -> None:
    """Write a trained learner's `policy_state()` as a weights file; observations must not be normalised."""
    if policy_state.get("normaliser") is not None:
        raise CheckpointError(
            "the spring policy is shipped without a normaliser: train with normalise_obs=false"
        )
    actor = {
        key: np.ascontiguousarray(np.asarray(value, np.float32))
        for key, value in policy_state["actor"].items()
    }
    save_file({f"layer{i}": actor[f"layers.{i}.matrix"] for i in range(len(actor))}, path)
