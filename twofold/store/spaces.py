"""Gymnasium spaces as JSON, so that a policy file carries its shapes."""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym
import numpy as np

from twofold.core.errors import CheckpointError

_MAX_ELEMENTS = 1_000_000
_DTYPES = {"bool", "float32", "float64"} | {
    f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)
}


def _edge(values: Any) -> Any:
    """Bounds as one number where they are all equal, infinities as text: short, and valid JSON."""
    flat = [float(v) if np.isfinite(v) else str(float(v)) for v in np.asarray(values).ravel()]
    return flat[0] if len(set(flat)) == 1 else flat


def to_json(space: gym.Space[Any]) -> dict[str, Any]:
    if isinstance(space, gym.spaces.Box):
        low, high = _edge(space.low), _edge(space.high)
        return {
            "kind": "box",
            "shape": list(space.shape),
            "dtype": str(space.dtype),
            "low": low,
            "high": high,
        }
    if isinstance(space, gym.spaces.Discrete):
        return {"kind": "discrete", "n": int(space.n)}
    if isinstance(space, gym.spaces.MultiDiscrete):
        return {"kind": "multidiscrete", "nvec": space.nvec.tolist()}
    if isinstance(space, gym.spaces.MultiBinary):
        return {"kind": "multibinary", "shape": list(space.shape)}
    if isinstance(space, gym.spaces.Dict):
        return {"kind": "dict", "spaces": {k: to_json(s) for k, s in space.spaces.items()}}
    raise CheckpointError(f"a space of type {type(space).__name__} cannot be written to a policy file")


def _checked(shape: Any) -> tuple[int, ...]:
    """A shape from a file: no lie in it may ask for much memory."""
    found = tuple(int(n) for n in shape)
    if len(found) > 8 or any(n < 0 for n in found) or math.prod(found) > _MAX_ELEMENTS:
        raise CheckpointError(f"a space of shape {str(list(found))[:80]} in a policy file: refused")
    return found


def _box(spec: dict[str, Any]) -> gym.spaces.Box:
    shape = _checked(spec["shape"])
    if spec["dtype"] not in _DTYPES:
        raise CheckpointError(f"a space of type {str(spec['dtype'])[:20]!r} in a policy file: refused")
    dtype = np.dtype(spec["dtype"])
    low, high = (
        np.broadcast_to(np.array(spec[side], float).astype(dtype), shape)
        if np.ndim(spec[side]) == 0
        else np.array(spec[side], float).astype(dtype).reshape(shape)
        for side in ("low", "high")
    )
    return gym.spaces.Box(low, high, dtype=dtype.type)


def from_json(spec: dict[str, Any]) -> gym.Space[Any]:
    kind = spec["kind"]
    if kind == "box":
        return _box(spec)
    if kind == "discrete":
        return gym.spaces.Discrete(int(spec["n"]))
    if kind == "multidiscrete":
        return gym.spaces.MultiDiscrete(np.array(spec["nvec"]))
    if kind == "multibinary":
        return gym.spaces.MultiBinary(_checked(spec["shape"]))
    if kind == "dict":
        return gym.spaces.Dict({k: from_json(s) for k, s in spec["spaces"].items()})
    raise CheckpointError(f"unknown space kind {str(kind)[:20]!r} in a policy file")
