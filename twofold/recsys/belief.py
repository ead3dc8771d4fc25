"""What an episode tells about its user so far: an exact Bayesian filter, batched over rows."""

from __future__ import annotations

import numpy as np

from twofold.core.protocols import State
from twofold.recsys.catalogue import Catalogue
from twofold.recsys.data import Array


class Belief:
    """mean [N, b] and covariance [N, b, b] of the user's deviation from the expected ratings."""

    def __init__(self, catalogue: Catalogue, rows: int) -> None:
        self.catalogue, self.width = catalogue, catalogue.belief_factors.shape[1]
        self.noise = max(catalogue.belief_noise, 0.1) ** 2
        self.mean = np.zeros((rows, self.width), np.float32)
        self.covariance = np.zeros((rows, self.width, self.width), np.float32)

    def reset(self, rows: Array) -> None:
        self.mean[rows] = 0.0
        self.covariance[rows] = np.eye(self.width, dtype=np.float32)

    def see(self, users: Array, items: Array, ratings: Array, history: Array) -> None:
        """Learn from one rating per row; an item that was shown before tells nothing new."""
        if not self.width:
            return
        direction = self.catalogue.belief_factors[items]
        surprise = (
            ratings - self.catalogue.expected(users, items) - np.einsum("nb,nb->n", direction, self.mean)
        )
        carried = np.matmul(self.covariance, direction[:, :, None])[:, :, 0]
        gain = carried / (np.einsum("nb,nb->n", direction, carried) + self.noise)[:, None]
        gain[(history == items[:, None]).any(axis=1)] = 0.0
        self.mean += gain * surprise[:, None].astype(np.float32)
        self.covariance -= gain[:, :, None] * carried[:, None, :]

    def state_dict(self) -> State:
        return {"mean": self.mean.copy(), "covariance": self.covariance.copy()}

    def load_state_dict(self, state: State) -> None:
        self.mean, self.covariance = np.array(state["mean"]), np.array(state["covariance"])
