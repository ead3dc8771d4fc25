"""Environments handed over as Python objects: a class, or a function that makes one."""

from __future__ import annotations

import sys
from functools import partial
from types import FunctionType
from typing import Any

import gymnasium as gym

from twofold.base.errors import WorldError
from twofold.rows.envs import MakeEnv

PREFIX = "python:"  # of ids that only the process which handed the environment over understands
_GIVEN: dict[str, MakeEnv] = {}


class KeptOpen(gym.Wrapper[Any, Any, Any, Any]):
    """An environment that stays its owner's: closing the world does not close it."""

    def close(self) -> None:
        """Nothing: its owner closes it."""


def give(make: MakeEnv) -> str:
    """The id under which worlds of this process find what `make` makes."""
    made = make.func if isinstance(make, partial) else make
    own = made.__qualname__ if isinstance(made, (type, FunctionType)) else type(made).__qualname__
    name = f"{PREFIX}{made.__module__}.{own}"
    _GIVEN[name] = make
    return name


def given(name: str) -> MakeEnv:
    """What makes the environment that was handed over under this id."""
    if name not in _GIVEN:
        short = name.removeprefix(PREFIX)
        raise WorldError(
            f"the environment {short} was handed over from Python and is not known here: "
            f"give it again, as in twofold.load_run(PATH, env={short.rpartition('.')[2]})"
        )
    return _GIVEN[name]


def check_sendable(make: MakeEnv) -> None:
    """Refuse what worker processes could not find, before one of them fails."""
    made = make.func if isinstance(make, partial) else make
    module = sys.modules.get(made.__module__)
    known = isinstance(made, (type, FunctionType)) and vars(module or {}).get(made.__qualname__) is made
    if not known or "__file__" not in vars(module):
        raise WorldError(
            "an environment that no file defines at its top level cannot be made in worker processes: move it "
            "into a module, or set trainer.workers=0"
        )
