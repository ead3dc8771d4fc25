"""Gymnasium spaces as JSON, so that a policy file carries its shapes."""

from __future__ import annotations

import math

import gymnasium as gym
import numpy as np

from twofold.base.errors import CheckpointError, UserError
from twofold.base.foreign import AnySpace
from twofold.base.values import Json, Values, listed, number, table, text
from twofold.core.experience import Array, Obs

_MAX_ELEMENTS = 1_000_000
_DTYPES = {"bool", "float32", "float64"} | {
    f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)
}


class SizedBox(gym.spaces.Box):
    """A box that also says how large its world is, in named whole numbers; a policy file keeps them."""

    def __init__(self, low: Array, high: Array, sizes: dict[str, int]) -> None:
        super().__init__(low, high, low.shape, np.float32)
        self.sizes = sizes


def _edge(values: Array) -> float | str | list[float | str]:
    """Bounds as one number where they are all equal, infinities as text: short, and valid JSON."""
    flat: list[float | str] = [
        float(v) if np.isfinite(v) else str(float(v)) for v in np.asarray(values).ravel()
    ]
    return flat[0] if len(set(flat)) == 1 else flat


def to_json(space: AnySpace) -> Values:
    if isinstance(space, gym.spaces.Box):
        low, high = _edge(space.low), _edge(space.high)
        found: Values = {
            "kind": "box",
            "shape": list(space.shape),
            "dtype": str(space.dtype),
            "low": low,
            "high": high,
        }
        return found | {"sizes": space.sizes} if isinstance(space, SizedBox) else found
    if isinstance(space, gym.spaces.Discrete):
        return {"kind": "discrete", "n": int(space.n)}
    if isinstance(space, gym.spaces.MultiDiscrete):
        return {"kind": "multidiscrete", "nvec": space.nvec.tolist()}
    if isinstance(space, gym.spaces.MultiBinary):
        return {"kind": "multibinary", "shape": list(space.shape)}
    if isinstance(space, gym.spaces.Dict):
        return {"kind": "dict", "spaces": {k: to_json(s) for k, s in space.spaces.items()}}
    raise CheckpointError(f"a space of type {type(space).__name__} cannot be written to a policy file")


def _checked(shape: list[Json]) -> tuple[int, ...]:
    """A shape from a file: no lie in it may ask for much memory."""
    found = tuple(int(number(n)) for n in shape)
    if len(found) > 8 or any(n < 0 for n in found) or math.prod(found) > _MAX_ELEMENTS:
        raise CheckpointError(f"a space of shape {str(list(found))[:80]} in a policy file: refused")
    return found


def _box(spec: dict[str, Json]) -> gym.spaces.Box:
    shape = _checked(listed(spec, "shape"))
    if spec["dtype"] not in _DTYPES:
        raise CheckpointError(f"a space of type {str(spec['dtype'])[:20]!r} in a policy file: refused")
    dtype = np.dtype(text(spec, "dtype"))
    with np.errstate(over="ignore"):  # a bound beyond the type is infinite
        low, high = (
            np.broadcast_to(np.array(spec[side], float).astype(dtype), shape)
            if not isinstance(spec[side], list)
            else np.array(spec[side], float).astype(dtype).reshape(shape)
            for side in ("low", "high")
        )
    if "sizes" in spec:
        return SizedBox(low, high, {name: int(number(size)) for name, size in table(spec, "sizes").items()})
    return gym.spaces.Box(low, high, dtype=dtype.type)


def from_json(spec: dict[str, Json]) -> AnySpace:
    kind = spec["kind"]
    if kind == "box":
        return _box(spec)
    if kind == "discrete":
        return gym.spaces.Discrete(int(number(spec, "n")))
    if kind == "multidiscrete":
        return gym.spaces.MultiDiscrete(np.array(spec["nvec"]))
    if kind == "multibinary":
        return gym.spaces.MultiBinary(_checked(listed(spec, "shape")))
    if kind == "dict":
        return gym.spaces.Dict({k: from_json(table(s)) for k, s in table(spec, "spaces").items()})
    raise CheckpointError(f"unknown space kind {str(kind)[:20]!r} in a policy file")


def difference(one: AnySpace, other: AnySpace) -> str | None:
    """In which names or shapes two spaces differ, in words; None if an array of one is an array of the other."""
    ours, theirs = _shapes(one), _shapes(other)
    for name in [*ours, *theirs]:
        if ours.get(name) != theirs.get(name):
            what = f"'{name}' " if name else ""
            return f"{what}{ours.get(name, 'absent')} there, {theirs.get(name, 'absent')} here"
    return None


def _shapes(space: AnySpace) -> dict[str, str]:
    """The shape of every array, and how many values it takes where they are numbered."""
    if isinstance(space, gym.spaces.Dict):
        return {name: _shapes(sub)[""] for name, sub in space.spaces.items()}
    numbered = isinstance(space, (gym.spaces.Discrete, gym.spaces.MultiDiscrete))
    sizes = {name: str(size) for name, size in space.sizes.items()} if isinstance(space, SizedBox) else {}
    return {"": str(space) if numbered else f"of shape {space.shape}"} | sizes


def as_batch(space: AnySpace, obs: Obs) -> tuple[Obs, bool]:
    """Observations [N, ...] of the types that the space says, and whether they were a single one without that axis."""
    if not isinstance(space, gym.spaces.Dict):
        array, single = _batch(space, obs, "obs")
        return array, single
    given = obs if isinstance(obs, dict) else {}
    if given.keys() != space.spaces.keys():
        raise UserError(f"an observation must have the names {sorted(space.spaces)}, got {sorted(given)}")
    found = {name: _batch(sub, given[name], f"obs['{name}']") for name, sub in space.spaces.items()}
    rows = {len(array): name for name, (array, _) in found.items()}
    if len(rows) > 1 or len({single for _, single in found.values()}) > 1:
        raise UserError(
            f"the arrays of an observation must all have the same number of rows, got "
            f"{ {name: array.shape for name, (array, _) in found.items()} }"
        )
    return {name: array for name, (array, _) in found.items()}, next(iter(found.values()))[1]


def _batch(space: AnySpace, obs: object, name: str) -> tuple[Array, bool]:
    try:
        array = np.asarray(obs, space.dtype)
    except (TypeError, ValueError) as error:
        raise UserError(f"{name} is not an array of numbers of shape {space.shape}: {error}") from None
    wanted = space.shape or ()
    if array.shape == wanted:
        return array[None], True
    if array.shape[1:] == wanted and array.ndim == len(wanted) + 1:
        return array, False
    rows = ", ".join(["N", *map(str, wanted)])
    raise UserError(f"{name} must have the shape {wanted}, or ({rows}) for a batch; got {array.shape}")
