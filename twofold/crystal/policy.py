"""The policy of the spring step: an ordinary policy file, computed by numpy, so that relaxing needs no torch."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np

from twofold.base.errors import CheckpointError
from twofold.base.values import text
from twofold.core.experience import Array
from twofold.crystal.depth import Depth
from twofold.crystal.features import NAMES, Step, features
from twofold.crystal.spring import SCALARS, Scalars
from twofold.nets.numpy_mlp import NumpyMLP
from twofold.store.checkpoint import unpack
from twofold.store.policy_file import unseal

DEFAULT = Path(__file__).parent / "weights" / "td3_crystal.safetensors"
EARLIEST = (22, 6)  # features and scalars of the first policies
_NONMETALS = NAMES.index("nonmetals")


class SpringPolicy:
    """features -> the scalars of a step; the untrained step where `depth` says that training saw nothing like it.

    A policy of an earlier version sees the first features only and sets the first scalars only. One without a `depth`
    was trained on metals and is asked about metals.
    """

    def __init__(self, network: NumpyMLP, depth: Depth | None = None) -> None:
        inputs, outputs = network.shape
        if not (EARLIEST[0] <= inputs <= len(NAMES) and EARLIEST[1] <= outputs <= len(SCALARS)):
            raise CheckpointError(
                f"this policy has {inputs} inputs and {outputs} outputs, the relaxer's have "
                f"{len(NAMES)} and {len(SCALARS)}: train one in the world 'crystal/spring' with this version"
            )
        if depth is not None and depth.seen.shape[1] != len(NAMES):
            raise CheckpointError(
                f"this policy was trained on {depth.seen.shape[1]} features, not {len(NAMES)}"
            )
        self.network, self.depth = network, depth

    def act(self, observation: Array) -> Array:
        """The action in [-1, 1]^7 for features [28]."""
        inputs, outputs = self.network.shape
        action = np.zeros(len(SCALARS), np.float32)
        action[:outputs] = self.network.act(np.asarray(observation, np.float32)[None, :inputs])[0]
        return action

    def knows(self, observation: Array) -> bool:
        """Whether to ask the policy about this; one that does not see nonmetals is not asked where there are some."""
        if observation[_NONMETALS] > 0 and (self.depth is None or self.network.shape[0] <= _NONMETALS):
            return False
        return self.depth is None or self.depth.holds(observation)

    def scalars(self, step: Step, fmax: float) -> Scalars:
        """What to set for the next proposal; whether to set anything is decided at the second call, for all steps.

        The first step is the prior's in any case, and steps of two minds take more calls than those of either.
        """
        memory = step.memory
        if memory.calls < 2 or memory.asked is False:
            return Scalars()
        seen = features(step, fmax)
        if memory.asked is None:
            memory.asked = self.knows(seen)
        return Scalars.of(self.act(seen)) if memory.asked else Scalars()


def load_weights(path: str | Path) -> SpringPolicy:
    """The policy of a file that a run or `twofold relax-export` wrote."""
    arrays, about = unseal(Path(path))
    try:
        activation = text(about, "values", "networks.actor_activation")
        network = NumpyMLP.of(unpack(about["rest"], arrays)["actor"], activation, "tanh")
        depth = Depth.among(arrays)
    except (KeyError, TypeError, IndexError) as error:
        raise CheckpointError(f"{path} does not hold a policy of 'crystal/spring' (no {error})") from None
    except ValueError as error:
        raise CheckpointError(f"{path} holds {error}: damaged") from None
    return SpringPolicy(network, depth)


@lru_cache(maxsize=1)
def default_policy() -> SpringPolicy:
    """The policy inside the package."""
    return load_weights(DEFAULT)
