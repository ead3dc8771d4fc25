"""How far an observation is from those that a policy was trained on: beyond that the untrained step is better known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from twofold.core.experience import Array

STORED = 1_000  # observations that are kept
QUANTILE = 0.99  # of the distances of fresh starts of training
LEAST = 0.05  # of a feature's spread: one that never changed in training is not infinitely telling
_NAMES = ("seen", "scale", "limit")


@dataclass(frozen=True)
class Depth:
    """Observations of training, and the distance to the nearest one up to which a policy is asked."""

    seen: Array  # [n, f] in units of `scale`
    scale: Array  # [f], how much each feature varied in training
    limit: float

    @classmethod
    def of(cls, kept: Array, fresh: Array) -> Depth:
        """From observations [n, f] to keep, and others of the same kind that say how far such ones lie from these."""
        scale = np.maximum(kept.std(axis=0), LEAST).astype(np.float32)
        every = max(1, -(-len(kept) // STORED))
        made = cls((kept[::every] / scale).astype(np.float32), scale, np.inf)
        limit = np.quantile([made.distance(one) for one in fresh], QUANTILE)
        return cls(made.seen, scale, float(np.float32(limit)))

    def distance(self, observation: Array) -> float:
        """To the nearest observation of training, in spreads of a feature (root of the mean square over features)."""
        apart = self.seen - observation / self.scale
        return float(np.sqrt((apart * apart).mean(axis=1).min()))

    def holds(self, observation: Array) -> bool:
        """True if training saw the like of it."""
        return self.distance(observation) <= self.limit

    def arrays(self) -> dict[str, Array]:
        """As arrays of a policy file."""
        return {
            "depth/seen": self.seen,
            "depth/scale": self.scale,
            "depth/limit": np.array([self.limit], np.float32),
        }

    @classmethod
    def among(cls, arrays: Mapping[str, Array]) -> Depth | None:
        """The one that a policy file holds, if it does; a ValueError where its arrays do not fit together."""
        found = [arrays.get(f"depth/{name}") for name in _NAMES]
        seen, scale, limit = found
        if seen is None or scale is None or limit is None:
            return None
        if seen.ndim != 2 or not len(seen) or scale.shape != seen.shape[1:] or limit.shape != (1,):
            raise ValueError("observations of training that do not fit together")
        if not all(np.isfinite(one).all() for one in (seen, scale, limit)) or (scale <= 0).any():
            raise ValueError("observations of training that are not finite")
        return cls(seen, scale, float(limit[0]))
