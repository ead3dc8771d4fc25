"""What comes from a world, checked where it enters: shapes and kinds of numbers. Nothing is ever broadcast."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np

from twofold.base import finite
from twofold.base.errors import NonFiniteError, WorldError
from twofold.base.values import Array

_SHOWN = 60  # letters of a wrong value that a message shows
_KINDS = {"c": "complex numbers", "U": "text", "S": "bytes", "O": "objects"}


def is_like(value: object, like: Array) -> bool:
    """True for an array of the same shape and type: the common case, in a fifth of a microsecond."""
    return type(value) is np.ndarray and value.shape == like.shape and value.dtype == like.dtype


def wrong_array(value: object, like: Array, *, cast: bool) -> str | None:
    """Why a value cannot be taken for an array like this one, in words; `cast` allows other widths of its kind."""
    if is_like(value, like):
        return None
    try:
        given = np.asarray(value)
    except (TypeError, ValueError):  # lists of different lengths
        return f"is not an array of numbers: {shown(value)}"
    if given.dtype.kind not in "fiub":
        kind = _KINDS.get(given.dtype.kind, str(given.dtype))
        return f"holds {kind} in place of real numbers: {shown(value)}"
    if given.shape != like.shape:
        return f"has the shape {given.shape}, {like.shape} is promised"
    if not np.can_cast(given.dtype, like.dtype, "same_kind" if cast else "equiv"):
        return f"is of type {given.dtype}, {like.dtype} is promised"
    return None


def wrong_number(value: object) -> str | None:
    """Why a value is not one real number, in words."""
    if isinstance(value, (float, int, np.floating, np.integer, np.bool_)):
        return None
    return wrong_array(value, np.zeros(()), cast=True)


def wrong_flag(value: object) -> str | None:
    """Why a value is neither true nor false, in words; 0 and 1 are taken for them."""
    if value is True or value is False or isinstance(value, np.bool_):
        return None
    found = wrong_number(value)
    return found if found or value in (0, 1) else f"is neither true nor false: {shown(value)}"


def shown(value: object) -> str:
    """A value as a message shows it: one line of bounded length, whatever it is."""
    try:
        text = " ".join(repr(value).split())
    except Exception as error:  # of a class that is not ours
        return f"a {type(value).__name__} that cannot be shown ({type(error).__name__})"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


@runtime_checkable
class Checked(Protocol):
    """A world that looks at everything it gives itself, row by row."""

    gives_checked: bool


class Arrivals:
    """What the arrays of a world [N, ...] must be like; `like` is a blank observation of all rows."""

    def __init__(self, world: object, like: Array | dict[str, Array], rows: int) -> None:
        self.name, self.rows = type(world).__name__, rows
        self._single = like if isinstance(like, np.ndarray) else None
        self._named = {} if isinstance(like, np.ndarray) else like
        self._reward, self._flag = np.zeros(rows), np.zeros(rows, bool)
        self._checked = isinstance(world, Checked) and world.gives_checked

    def of_reset(self, obs: object, step: int) -> None:
        """Refuse observations of other shapes or kinds than the space's."""
        if not self._is_right(obs):
            self._refuse(self.problems(obs), f"after a reset at step {step}")

    def of_step(self, obs: object, reward: object, terminated: object, truncated: object, step: int) -> None:
        """Refuse what a step gives where its shapes or kinds are not as promised."""
        if self._checked:
            return
        right = self._is_right(obs) and is_like(reward, self._reward)
        if not (right and is_like(terminated, self._flag) and is_like(truncated, self._flag)):
            self._refuse(self.problems(obs, reward, terminated, truncated), f"at step {step}")

    def must_be_finite(self, obs: object, step: int) -> None:
        """Refuse an observation that holds a NaN or an infinity."""
        if bad := finite.first_bad_row(obs=obs):
            raise NonFiniteError(
                f"{bad} of the world {self.name} is not finite (NaN or infinity) at step {step} of an evaluation: "
                "`twofold check` tests a world"
            )

    def problems(self, obs: object, *rest: object) -> list[str]:
        """What is wrong with the shapes and kinds of an observation, or of all that a step gives."""
        words = self._about_obs(obs)
        if rest:
            words["reward"] = wrong_array(rest[0], self._reward, cast=True)
            words["terminated"] = wrong_array(rest[1], self._flag, cast=False)
            words["truncated"] = wrong_array(rest[2], self._flag, cast=False)
        return [f"{name} {word}" for name, word in words.items() if word]

    def _about_obs(self, obs: object) -> dict[str, str | None]:
        if self._single is not None:
            return {"obs": wrong_array(obs, self._single, cast=False)}
        if not isinstance(obs, dict):
            return {"obs": f"must be a dictionary of {', '.join(self._named)}: {shown(obs)}"}
        missing: dict[str, str | None] = {f"obs.{k}": "is missing" for k in self._named if k not in obs}
        extra = {f"obs.{k}": "is not in the observation space" for k in obs if k not in self._named}
        both = {k: like for k, like in self._named.items() if k in obs}
        return missing | extra | {f"obs.{k}": wrong_array(obs[k], v, cast=False) for k, v in both.items()}

    def _is_right(self, obs: object) -> bool:
        if self._single is not None:
            return is_like(obs, self._single)
        if type(obs) is not dict or len(obs) != len(self._named):
            return False
        return all(is_like(obs.get(name), like) for name, like in self._named.items())

    def _refuse(self, problems: list[str], at: str) -> None:
        if problems:
            raise WorldError(
                f"the world {self.name} broke its contract {at} (in all {self.rows} rows): {'; '.join(problems)}; "
                "`twofold check` tests a world"
            )
