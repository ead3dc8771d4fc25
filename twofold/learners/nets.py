"""The networks of an actor-critic learner: online, target, averaged."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from twofold.base.errors import ConfigError
from twofold.core.protocols import State
from twofold.nets.flat import Flat
from twofold.nets.target import copy_of, track


@dataclass(frozen=True)
class Nets:
    """Actor and critics with their slow copies. `acting` is the only one that export, serving and the zoo may use."""

    actor: Flat
    critic: Flat
    target_actor: Flat
    target_critic: Flat
    average: Flat | None

    @classmethod
    def of(cls, actor: nn.Module, critic: nn.Module, *, averaged: bool) -> Nets:
        """Flat networks and copies of them; `averaged` adds an average of the actor."""
        online_actor, online_critic = Flat(actor), Flat(critic)
        slow = Flat(copy_of(actor)), Flat(copy_of(critic))
        return cls(online_actor, online_critic, *slow, Flat(copy_of(actor)) if averaged else None)

    @property
    def acting(self) -> nn.Module:
        """The actor that acts when it counts: the averaged one, if there is one."""
        return (self.actor if self.average is None else self.average).module

    def track(self, tau: float, average: float) -> None:
        """Move the targets a share `tau` of the way to the online weights, the average by what it forgets."""
        track(self.target_critic, self.critic, tau)
        track(self.target_actor, self.actor, tau)
        if self.average is not None:
            track(self.average, self.actor, 1 - average)

    def state_dict(self) -> State:
        found = {name: getattr(self, name).module.state_dict() for name in _NAMES}
        return found | {"average": None if self.average is None else self.average.module.state_dict()}

    def load_state_dict(self, state: State) -> None:
        for name in _NAMES:
            load_module(getattr(self, name).module, state[name], name)
        if self.average is not None:
            load_module(self.average.module, state["average"], "average")


_NAMES = ("actor", "critic", "target_actor", "target_critic")


def load_module(module: nn.Module, state: State, name: str) -> None:
    """Copy saved arrays into a module; another shape is the user's mistake and is named."""
    wanted = {k: tuple(v.shape) for k, v in module.state_dict().items()}
    given = {k: tuple(v.shape) for k, v in state.items()}
    for key in [*wanted, *given]:
        if wanted.get(key) != given.get(key):
            raise ConfigError(
                f"{name}.{key} is {given.get(key)} in the file and {wanted.get(key)} here: the policy was trained "
                "for another world or other networks"
            )
    module.load_state_dict({key: torch.from_numpy(np.array(value)) for key, value in state.items()})
