"""Gymnasium's types, with the one reason each why they are not said more exactly."""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias, runtime_checkable

import gymnasium as gym

# Any: Gymnasium's spaces and environments are invariant in what they hold, so that no other word fits all of them.
AnySpace: TypeAlias = gym.Space[Any]
# Any: as above, of observations and of actions.
AnyEnv: TypeAlias = gym.Env[Any, Any]
# Any: as above, on both sides of it.
AnyWrapper: TypeAlias = gym.Wrapper[Any, Any, Any, Any]
# Any: Gymnasium's own type of infos and options: whoever put a value there knows its type.
Info: TypeAlias = dict[str, Any]
# Any: what Gymnasium's render gives: a picture, several, or text, by the mode.
Frames: TypeAlias = Any


@runtime_checkable
class Shown(Protocol):
    """A world that can be looked at."""

    def render(self) -> Frames: ...
