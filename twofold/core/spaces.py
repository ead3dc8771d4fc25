"""Gymnasium spaces as JSON, so that a policy file carries its shapes."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from .errors import CheckpointError


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


def from_json(spec: dict[str, Any]) -> gym.Space[Any]:
    kind = spec["kind"]
    if kind == "box":
        shape = tuple(int(n) for n in spec["shape"])
        low, high = (
            np.array(spec[side], float) * np.ones(shape)
            if np.ndim(spec[side]) == 0
            else np.array(spec[side], float).reshape(shape)
            for side in ("low", "high")
        )
        dtype = np.dtype(spec["dtype"])
        return gym.spaces.Box(low.astype(dtype), high.astype(dtype), dtype=dtype.type)
    if kind == "discrete":
        return gym.spaces.Discrete(int(spec["n"]))
    if kind == "multidiscrete":
        return gym.spaces.MultiDiscrete(np.array(spec["nvec"]))
    if kind == "multibinary":
        return gym.spaces.MultiBinary(spec["shape"])
    if kind == "dict":
        return gym.spaces.Dict({k: from_json(s) for k, s in spec["spaces"].items()})
    raise CheckpointError(f"unknown space kind {kind!r} in a policy file")
