"""Whether to ask a policy: how far an observation is from those of its training, and what it gained where they were."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from twofold.core.experience import Array

STORED = 1_500  # observations that are kept
NEAREST = 10  # of them that say what the policy gained thereabouts
CERTAIN = 0.5  # standard errors that this must be above nothing
QUANTILE = 0.99  # of the distances of fresh starts of training
BEYOND = 1.5  # times that distance is too far
LEAST = 0.05  # of a feature's spread: one that never changed in training is not infinitely telling
_NAMES = ("seen", "scale", "gain", "limit")


@dataclass(frozen=True)
class Depth:
    """Observations of training, what the policy gained on their starts, and how far from them it is still asked."""

    seen: Array  # [n, f] in units of `scale`
    scale: Array  # [f], how much each feature varied in training
    gain: Array  # [n], logarithm of the untrained step's force calls over the policy's, from the same start
    limit: float

    @classmethod
    def of(cls, kept: Array, gain: Array, fresh: Array) -> Depth:
        """From observations [n, f] with gains [n] to keep, and others [m, f] that say how far fresh starts lie."""
        scale = np.maximum(kept.std(axis=0), LEAST).astype(np.float32)
        some = slice(None, None, max(1, -(-len(kept) // STORED)))
        made = cls((kept[some] / scale).astype(np.float32), scale, gain[some].astype(np.float32), np.inf)
        limit = np.quantile([made.distances(one).min() for one in fresh], QUANTILE)
        return cls(made.seen, scale, made.gain, float(np.float32(limit)))

    def distances(self, observation: Array) -> Array:
        """To each observation [n], in spreads of a feature (root of the mean square over features)."""
        apart = self.seen - observation / self.scale
        found: Array = np.sqrt((apart * apart).mean(axis=1))
        return found

    def holds(self, observation: Array) -> bool:
        """True if training saw the like of it and the policy took fewer calls than the untrained step thereabouts."""
        distances = self.distances(observation)
        if distances.min() > BEYOND * self.limit:
            return False
        gain = self.gain[np.argsort(distances, kind="stable")[:NEAREST]]
        return bool(gain.mean() > CERTAIN * gain.std() / np.sqrt(len(gain)))

    def arrays(self) -> dict[str, Array]:
        """As arrays of a policy file."""
        return {
            "depth/seen": self.seen,
            "depth/scale": self.scale,
            "depth/gain": self.gain,
            "depth/limit": np.array([self.limit], np.float32),
        }

    @classmethod
    def among(cls, arrays: Mapping[str, Array]) -> Depth | None:
        """The one that a policy file holds, if it does; a ValueError where its arrays do not fit together."""
        if not all(f"depth/{name}" in arrays for name in _NAMES):
            return None
        seen, scale, gain, limit = (arrays[f"depth/{name}"] for name in _NAMES)
        fits = seen.ndim == 2 and len(seen) > 0 and scale.shape == seen.shape[1:]
        if not fits or gain.shape != seen.shape[:1] or limit.shape != (1,):
            raise ValueError("observations of training that do not fit together")
        if not all(np.isfinite(one).all() for one in (seen, scale, gain, limit)) or (scale <= 0).any():
            raise ValueError("observations of training that are not finite")
        return cls(seen, scale, gain, float(limit[0]))
