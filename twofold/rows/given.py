"""Environments handed over as Python objects: a class, or a function that makes one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from types import FunctionType
from typing import TypeAlias

from twofold.base.errors import WorldError
from twofold.base.foreign import AnyWrapper

PREFIX = "python:"  # of ids that only the process which handed the environment over understands
Make: TypeAlias = Callable[..., object]  # whether it is an environment is seen when it is made
_GIVEN: dict[str, Make] = {}


class KeptOpen(AnyWrapper):
    """An environment that stays its owner's: closing the world does not close it."""

    def close(self) -> None:
        """Nothing: its owner closes it."""


def _named(make: Make) -> type | FunctionType:
    """The class or function that a maker is, or is an object of."""
    made = make.func if isinstance(make, partial) else make
    return made if isinstance(made, (type, FunctionType)) else type(made)


def give(make: Make) -> str:
    """The id under which worlds of this process find what `make` makes."""
    name = f"{PREFIX}{_named(make).__module__}.{_named(make).__qualname__}"
    _GIVEN[name] = make
    return name


def given(name: str) -> Make:
    """What makes the environment that was handed over under this id."""
    if name not in _GIVEN:
        short = name.removeprefix(PREFIX)
        raise WorldError(
            f"the environment {short} was handed over from Python and is not known here: "
            f"give it again, as in twofold.load_run(PATH, env={short.rpartition('.')[2]})"
        )
    return _GIVEN[name]


def check_sendable(make: Make) -> None:
    """Refuse what worker processes could not find, before one of them fails."""
    module = sys.modules.get(_named(make).__module__)
    if (
        module is None
        or module.__dict__.get(_named(make).__qualname__) is not _named(make)
        or not module.__file__
    ):
        raise WorldError(
            "an environment that no file defines at its top level cannot be made in worker processes: move it "
            "into a module, or set trainer.workers=0"
        )
