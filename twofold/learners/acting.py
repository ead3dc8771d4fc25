"""A network as what a policy calls: observations of the world in, arrays out."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch
from torch import nn

from twofold.base import tree
from twofold.core.experience import Array, Obs
from twofold.nets.acting import NumpyActor
from twofold.nets.mlp import MLP

Acting = Callable[[Obs], Array]
Values = Callable[[Obs, Array], Array]  # of observations and actions [N, a], by both critics: [2, N]


def acting_of(module: nn.Module, place: torch.device) -> Acting:
    """Acting with any network; a tenth of torch's overhead where it can be: the world of an MLP gives vectors."""
    if type(module) is MLP and place.type == "cpu":
        return cast(Acting, NumpyActor(module).act)

    @torch.no_grad()
    def act(obs: Obs) -> Array:
        action: Array = module(tree.map(lambda leaf: torch.from_numpy(leaf).to(place), obs)).cpu().numpy()
        return action

    return act


def values_by_torch(critic: nn.Module) -> Values:
    """Judging with any network on the CPU."""

    @torch.no_grad()
    def values(obs: Obs, action: Array) -> Array:
        found: Array = critic(tree.map(torch.from_numpy, obs), torch.from_numpy(action)).numpy()
        return found

    return values
