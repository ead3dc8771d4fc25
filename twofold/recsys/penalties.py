"""Training rewards made careful: uncertainty (MOPO), entropy of the log (DORL), over-exposure (CIRS)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twofold.recsys.data import Array, Ratings
from twofold.recsys.truth import Matrix


@dataclass(frozen=True)
class Penalties:
    """What is taken from (or added to) the predicted reward of a simulated user."""

    uncertainty: float = 0.0  # times the standard deviation of the prediction
    entropy: float = 0.0  # times the normalised entropy of what followed the last item in the log
    exposure: float = 0.0  # strength of boredom by similar items shown before
    exposure_tau: float = 10.0  # turns after which boredom fades
    spread: Matrix | None = None
    next_entropy: Array | None = None  # [items]
    vectors: Array | None = None  # unit item vectors

    def applied(self, reward: Array, users: Array, items: Array, history: Array, turns: Array) -> Array:
        """The shaped reward of showing `items` after `history`."""
        if self.uncertainty and self.spread is not None:
            reward = reward - self.uncertainty * self.spread.at(users, items)
        if self.entropy and self.next_entropy is not None:
            last = np.take_along_axis(history, np.maximum(turns - 1, 0)[:, None], axis=1)[:, 0]
            reward = reward + self.entropy * np.where(turns > 0, self.next_entropy[last], 1.0)
        if self.exposure and self.vectors is not None:
            reward = reward / (1.0 + self.exposure * self._exposure(items, history, turns))
        return reward

    def _exposure(self, items: Array, history: Array, turns: Array) -> Array:
        """Sum over earlier items of exp(-turns since * distance / tau)."""
        assert self.vectors is not None
        apart = 1.0 - np.einsum("nd,ntd->nt", self.vectors[items], self.vectors[history])
        since = turns[:, None] - np.arange(history.shape[1])
        fading = np.exp(-np.maximum(since, 0) * np.maximum(apart, 0.0) / self.exposure_tau)
        return np.asarray(np.where(history >= 0, fading, 0.0).sum(axis=1))


def entropy_of_next(log: Ratings, items: int) -> Array:
    """Entropy of the item that the same user rated next, over log(items): [items] in [0, 1]."""
    order = np.lexsort((log.items if log.times is None else log.times, log.users))
    users, shown = log.users[order], log.items[order]
    same = users[:-1] == users[1:]
    pairs, counts = np.unique(np.stack([shown[:-1][same], shown[1:][same]]), axis=1, return_counts=True)
    totals = np.bincount(pairs[0], counts, minlength=items)
    share = counts / totals[pairs[0]]
    return np.asarray(
        np.bincount(pairs[0], -share * np.log(share), minlength=items) / max(np.log(items), 1e-9)
    )
