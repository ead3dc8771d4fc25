"""The policy of the spring step: an ordinary policy file, computed by numpy, so that relaxing needs no torch."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np

from twofold.base.errors import CheckpointError
from twofold.base.values import text
from twofold.core.experience import Array
from twofold.crystal.features import NAMES, features
from twofold.crystal.spring import SCALARS, Scalars, SpringStep
from twofold.nets.numpy_mlp import NumpyMLP
from twofold.store.checkpoint import unpack
from twofold.store.policy_file import unseal

WEIGHTS = Path(__file__).parent / "weights"
DEFAULT = WEIGHTS / "td3_crystal.safetensors"


class SpringPolicy:
    """features -> the six scalars of a step."""

    def __init__(self, network: NumpyMLP) -> None:
        if network.shape != (len(NAMES), len(SCALARS)):
            raise CheckpointError(
                f"this policy has {network.shape[0]} inputs and {network.shape[1]} outputs, the relaxer's have "
                f"{len(NAMES)} and {len(SCALARS)}: train one in the world 'crystal/spring' with this version"
            )
        self.network = network

    def act(self, observation: Array) -> Array:
        """The action in [-1, 1]^6 for features [22]."""
        action: Array = self.network.act(np.asarray(observation, np.float32)[None])[0]
        return action

    def scalars(self, step: SpringStep, fmax: float) -> Scalars:
        """What to set for the next proposal; crystals with nonmetals are outside the training and get the prior."""
        if step.memory.directed:
            return Scalars()
        return Scalars.of(self.act(features(step, fmax)))


def load_weights(path: str | Path) -> SpringPolicy:
    """The policy of a file that a run or `twofold relax-export` wrote."""
    arrays, about = unseal(Path(path))
    try:
        activation = text(about, "values", "networks.actor_activation")
        network = NumpyMLP.of(unpack(about["rest"], arrays)["actor"], activation, "tanh")
    except (KeyError, TypeError, IndexError) as error:
        raise CheckpointError(f"{path} does not hold a policy of 'crystal/spring' (no {error})") from None
    return SpringPolicy(network)


@lru_cache(maxsize=1)
def default_policy() -> SpringPolicy:
    """The policy inside the package."""
    return load_weights(DEFAULT)
